# SPDX-License-Identifier: GPL-2.0-only
"""Jobs that need the lab: the parts that it makes, and tests in its guests and trees."""
import os
import re

from weftlab.cli import ABSENT
from weftlab.guest import STOPPED

from . import LAB, ROOT, process
from .result import FAILED, SKIPPED, Result, Tap, passed_if

# Runs of such a guest. Only what stops twice is a failure; each stop is printed and counted.
RUNS = 2

# A guest's time limit is for one that hangs. Each test in it has its own limit (tests/system/run).
GUEST_SECONDS, LONG_GUEST_SECONDS = 2700, 9000
BOOT_ROUND_SECONDS = 900

# What the user may tell the tests with faults (tests/system/lib/chaos.sh, boot.t, checkpoints.t): the seed, for how long, how
# many.
FAULTS = ("FAULTS_SEED", "STARVED_SECONDS", "SOAK_SECONDS", "BOOT_ROUNDS", "KILLS")


def part(job, name):
    """A part that guests need, made by the lab."""
    errors = []

    def error(text):
        errors.append(text)
        if match := re.match(r"lab: \[ *\d+s\] (.*)", text):
            job.note = match[1]
    status = process.follow([LAB, "make", name], lambda text: None, error)
    if status == ABSENT:
        return [Result(SKIPPED, errors[-1])]
    return [passed_if(not status, f"{name} is made", "\n".join(errors[-60:]))]


def tests():
    """The TAP programs, and where they run by their '# lab...: ' lines."""
    found = {}
    for path in sorted((ROOT / "tests/system").glob("*.t")):
        head = "\n".join(path.read_text().splitlines()[:14])
        found[path.name] = dict(re.findall(r"^# (lab[a-z-]*): (.*)$", head, re.M))
    return found


def has_long(test):
    """Whether a test does more in check-all."""
    return bool(re.search(r"\bLAB_LONG\b|\$\(mib ", (ROOT / "tests/system" / test).read_text()))


def guest(job, kernel, names, flags, everything, show=None):
    """Tests in one guest, one after another."""
    for _ in range(RUNS):
        tap, status, errors = _run_guest(job, kernel, names, flags, everything, show)
        if status != STOPPED or any(result.outcome == FAILED for result in tap.results):
            break
        job.stops += 1
    job.times = tap.times
    return tap.end(status, errors, f"the guest of {kernel}")


def _run_guest(job, kernel, names, flags, everything, show):
    """Its results so far, the lab's exit status, and what the lab said."""
    tap, errors = Tap(names, lambda text: setattr(job, "note", text)), []

    def line(text):
        tap.line(text)
        if show:
            show(text)

    def error(text):
        errors.append(text)
        job.boots_again += "booting it again" in text
        if show:
            show(text)
    told = {name: os.environ[name] for name in FAULTS if name in os.environ}
    # A guest that stands still takes more of our time than of its own.
    # One with the checkers takes six times as long where other guests take the processors.
    limit = LONG_GUEST_SECONDS if everything or kernel == "lab" else GUEST_SECONDS
    limit += 2 * sum(int(told.get(name, 0)) for name in FAULTS if name.endswith("_SECONDS"))
    limit += BOOT_ROUND_SECONDS * int(told.get("BOOT_ROUNDS", 0))
    argv = [LAB, "run", "--kernel", kernel, "--timeout", limit, *flags, "--", "env", f"LAB_LONG={'1' if everything else ''}",
            *[f"{name}={value}" for name, value in told.items()], "tests/system/run", *[f"tests/system/{name}" for name in names]]
    return tap, process.follow(argv, line, error), errors


def tree(job, release, name, everything, parts=()):
    """A test in a release's tree with the files of some parts, on this machine's kernel."""
    tap, errors = Tap([name], lambda text: setattr(job, "note", text)), []
    told = [f"{name}={os.environ[name]}" for name in FAULTS if name in os.environ]
    argv = [LAB, "chroot", *[f"--with={part}" for part in parts], release, "--", "env", f"LAB_LONG={'1' if everything else ''}",
            *told, f"/weft/tests/system/{name}"]
    status = process.follow(argv, tap.line, errors.append)
    return tap.end(status, errors, f"the tree of {release}")


def sparse(_job, kernel):
    """Run sparse. (The modules are built with W=1 and -Werror.) Its warnings about the kernel's headers are ignored."""
    done = process.run([LAB, "sparse", kernel])
    output = (done.stdout + done.stderr).splitlines()
    ours = [line for line in output if re.match(r"(/tmp/weft/)?(kmod|tests/hardware)/.*: (warning|error)", line)]
    # -Wsparse-error would make a header's warning an error. So check the lines, and that sparse has seen each file.
    seen = {found[1] for line in output if (found := re.match(r"\s+CHECK\s+(?:/tmp/weft/)?(kmod/\S+\.c)$", line))}
    files = {os.path.relpath(path, ROOT) for folder in ("p2p", "weft", "rdma") for path in ROOT.glob(f"kmod/{folder}/*.c")}
    missing = [f"sparse has not seen {name}" for name in sorted(files - seen)]
    return [passed_if(not missing and not ours, "sparse has nothing to say", "\n".join(ours or missing or output[-40:]))]
