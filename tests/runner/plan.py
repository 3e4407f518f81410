# SPDX-License-Identifier: GPL-2.0-only
"""The jobs of a run: those of `make check`, of check-all, of quick, or tests that the user names."""
import argparse
import dataclasses
import hashlib
import re
from pathlib import Path

from weftlab import LabError, cli, names

from . import ROOT, guests, host, labtests, memory, process
from .job import Job
from .result import FAILED, PASSED, Result

# Seconds (by usual times) of one slot that `make check` spends on tests of check-all, chosen by the commit. With one commit
# of LONG_SHARE, they are spent on one test of at most LONG_SECONDS.
SHARE_SECONDS, LONG_SHARE, LONG_SECONDS = 120, 4, 600
# Assumed seconds of a test that this machine has not run yet: in its own guest or in a tree, and in a shared guest; and so many
# times that on an emulated kernel with checkers.
UNKNOWN_OWN_SECONDS, UNKNOWN_SECONDS, CHECKERS_FACTOR = 300, 100, 10

# The test that `make quick` runs in a kernel: a volume on NVMe/RDMA members with a filesystem, and registered memory.
QUICK_TESTS, QUICK_KERNEL = ("first-volume.t",), "uml"


@dataclasses.dataclass(frozen=True)
class Case:
    """A test on a kernel (or in a release's tree)."""
    test: str
    kernel: str
    flags: tuple = ()
    own: bool = False
    tree: str = ""
    needs: tuple = ()  # parts of the lab, beside the kernel's

    @property
    def name(self):
        return f"{self.test} in {self.tree}" if self.tree else f"{self.test} on {self.kernel}"


def _runs_on(said, kernel):
    """User Mode Linux has no devices of a PC; a guest of one's own is one with something special, and its test says whether that
    is there. The emulated kernel with the checkers is for what User Mode Linux cannot run. The test adapter is built for the
    newest kernel alone."""
    facts = names.kernel(kernel)
    if kernel in said.get("lab-not", "").split():
        return False
    if "hca" in said.get("lab-own", ""):
        return facts.newest and not facts.uml
    own = "lab-own" in said
    on_uml = not own or "uml" in f"{said.get('lab-kernel')} {said.get('lab-more')}".split()
    if facts.uml:
        return on_uml
    return not facts.checkers or ("lab" in said if on_uml else own)


def _needs(said, release):
    """The parts of the lab, beside the kernel's, that a test needs in a release."""
    return tuple(said.get("lab-needs", "").replace("RELEASE", release).split())


def _rootfs_of(part):
    """The root filesystem that such a part is made in."""
    release = part.rpartition(":")[2]
    return f"rootfs:{release if release in names.RELEASES else 'trixie'}"


def cases(every_kernel=False):
    """The cases of `make check`, or each test on every kernel."""
    found = []
    for test, said in guests.tests().items():
        kernels = said.get("lab-kernel", "debian13").split()
        if every_kernel:
            # Tests that need a feature of the lab's kernels stay on those.
            special = kernels != ["none"] and all(names.kernel(k).built for k in kernels)
            more = said.get("lab-more", "").split()
            # An origin's kernel is tested with the programs of its own release here.
            kernels = [k for k in names.KERNELS if k in kernels or not names.kernel(k).origin
                       and (names.kernel(k).built or not special or k in more)]
        elif kernels == ["none"]:
            continue
        if "lab-chroot" in said:
            found += [Case(test, "", tree=release, needs=_needs(said, release)) for release in said["lab-chroot"].split()]
            continue
        for kernel in kernels:
            if not _runs_on(said, kernel):
                continue
            flags = said.get("lab-own", "") or ("" if names.kernel(kernel).uml else said.get("lab", ""))
            found.append(Case(test, kernel, tuple(flags.split()), "lab-own" in said,
                              needs=_needs(said, names.kernel(kernel).release)))
    return found


def _is_endless(case):
    """Several emulated hosts with the checkers take most of an hour for what others do in minutes."""
    facts = names.kernel(case.kernel)
    return facts.checkers and not facts.uml and "--hosts" in case.flags


def drawn(commit):
    """The cases of check-all: those of `make check`, and each test on one kernel more, which the commit chooses."""
    usual = cases()
    by_test = {}
    for case in cases(every_kernel=True):
        if case.tree:
            by_test[case.name] = [case]
        elif case not in usual and not _is_endless(case):
            by_test.setdefault(case.test, []).append(case)
    more = [min(some, key=lambda case: _chance(commit, case.name)) for some in by_test.values()]
    return usual + [case for case in more if case not in usual]


def part(text):
    """The type of an option K/N: (K, N)."""
    match = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", text)
    if not match or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is not K/N with K from 1 to N, as 2/4")
    return int(match[1]), int(match[2])


def share(times):
    """Cases that are not in `make check`: as many as fit in the time, in an order given by the commit."""
    commit = _commit()
    usual = set(cases())
    releases = {names.kernel(case.kernel).release for case in usual if case.kernel}
    rest = [case for case in cases(every_kernel=True) if case not in usual and _is_built(case, releases)]
    rest.sort(key=lambda case: _chance(commit, case.name))
    chosen, seconds = [], 0
    for case in rest:
        takes = _seconds(case, times)
        if SHARE_SECONDS < takes <= LONG_SECONDS and not chosen and _chance(commit)[0] % LONG_SHARE == 0:
            return [case]
        if seconds + takes <= SHARE_SECONDS:
            chosen.append(case)
            seconds += takes
    return chosen


def _seconds(case, times):
    facts = names.kernel(case.kernel) if case.kernel else None
    factor = CHECKERS_FACTOR if facts and facts.checkers and not facts.uml else 1
    return times.usual(case.name, UNKNOWN_OWN_SECONDS if case.own or case.tree else UNKNOWN_SECONDS, factor)


def _commit():
    return process.run(["git", "rev-parse", "HEAD"]).stdout.strip()


def _chance(*of):
    return hashlib.sha256(" ".join(of).encode()).digest()


def _is_built(case, releases):
    """Whether what takes many minutes to make is there: the lab's kernel, packages, a release's root filesystem, and its tools if
    none of `make check` is in that release. It is not made for the share."""
    parts = [need for need in case.needs if need.startswith("packages:")]
    if case.tree:
        parts.append(f"rootfs:{case.tree}")
    else:
        facts = names.kernel(case.kernel)
        parts.append(f"{'rootfs' if facts.release in releases else 'tools'}:{facts.release}")
        if facts.built:
            parts.append(f"kernel:{case.kernel}")
    return all(_is_made(part) for part in parts)


def _is_made(part):
    try:
        return memory.cache.has(lambda: cli.make(part))
    except LabError:
        return False


class Plan:
    """Jobs. The parts of the lab that they need are jobs before them."""

    def __init__(self, times):
        self.times = times
        self.jobs = {}
        self.leaks = True   # look for leaks at the end of each guest

    def add(self, name, run, *arguments, needs=()):
        self.jobs[name] = Job(name, run, tuple(needs), arguments)

    def _parts(self, found):
        for name, needs in found.items():
            if name not in self.jobs and not _is_made(name):
                self.add(name, guests.part, name, needs=needs)
        return found

    def need_kernel(self, kernel):
        return tuple(self._parts(names.parts(kernel)))

    def need_source(self):
        """The kernel's scripts, from its source."""
        self._parts({"rootfs:trixie": (), "kernel-source": ("rootfs:trixie",), "kernel-tools": ("kernel-source",)})
        return ("kernel-tools",)

    def add_cases(self, chosen, everything, show=None):
        """One guest for each case that needs its own, and for each case on User Mode Linux, which boots in seconds. One guest for
        all other cases of a kernel; those of `make check` that do the same in check-all have one for themselves there, and
        come last."""
        shared, usual = {}, set(cases() if everything else chosen)

        def is_usual(case):
            return case in usual and not guests.has_long(case.test)
        for case in chosen:
            if case.tree:
                rootfs = f"rootfs:{case.tree}"
                self._parts({rootfs: (), **{need: (_rootfs_of(need),) for need in case.needs}})
                more = (case.needs,) if case.needs else ()
                self.add(case.name, guests.tree, case.tree, case.test, everything, *more, needs=(rootfs, *case.needs))
            elif case.own or names.kernel(case.kernel).uml:
                self._add_guest(case.name, case.kernel, [case], list(case.flags), everything, show)
                self.jobs[case.name].late = everything and is_usual(case)
            else:
                shared.setdefault((case.kernel, is_usual(case)), []).append(case)
        for (kernel, late), some in sorted(shared.items(), key=lambda item: not item[0][1]):
            flags = [flag for words in sorted({case.flags for case in some}) for flag in words]
            name = some[0].name if len(some) == 1 else f"{len(some)} tests on {kernel}"
            if name in self.jobs:
                name = f"{len(some)} more tests on {kernel}"
            self._add_guest(name, kernel, some, flags, everything, show)
            self.jobs[name].late = everything and late

    def _add_guest(self, name, kernel, some, flags, everything, show):
        if names.kernel(kernel).checkers:
            flags = [*flags, *(["--kmemleak"] if self.leaks else []), *([] if "--memory" in flags else ["--memory", "4G"])]
        everything = everything and any(guests.has_long(case.test) for case in some)
        more = dict.fromkeys(need for case in some for need in case.needs)
        self._parts({need: (_rootfs_of(need),) for need in more})
        self.add(name, guests.guest, kernel, [case.test for case in some], flags, everything, show,
                 needs=(*self.need_kernel(kernel), *more))

    def add_unit(self, quick=False, everything=False):
        memcheck = ("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
                    f"--suppressions={ROOT}/tests/unit/valgrind.supp")
        # Those of the examples take as long as all others.
        more = () if quick else ("weft-examples-unit",)
        self.add("unit", host.unit, "address,undefined", ("weft-unit", "weft-plan-unit", *host.LIBRARY_TESTS, *more))
        self.add("page", host.page, needs=("unit",))
        self.add("plan report", host.plan_report, needs=("page",))
        self.add("completion", host.completion, needs=tuple(self._parts(names.tool_parts("trixie"))))
        if not quick:
            # The examples and weft-bench, whose engines are a thread's own, in check-all.
            more = ("weft-examples-unit",) if everything else ()
            self.add("unit, threads", host.unit, "thread", (*host.LIBRARY_TESTS, *more))
            self.add("fuzz", host.fuzz, 300 if everything else 4)
        if everything:  # beyond AddressSanitizer, it finds reads of uninitialized memory
            self.add("unit, valgrind", host.unit, "", ("weft-unit", *host.LIBRARY_TESTS), memcheck)

    def add_style(self):
        self.add("style", host.style)
        self.add("headers", host.headers)
        self.add("kernel style", host.kernel_style, needs=self.need_source())
        self.add("netlink", host.netlink, needs=self.need_source())
        self._parts({"rootfs:trixie": (), "software:prometheus": ("rootfs:trixie",)})
        self.add("metrics and alerts", host.prometheus, needs=("software:prometheus",))

    def whole(self, everything, every_kernel=False, some=(1, 1)):
        """All jobs, or the K-th of N parts: the host's jobs are in the first part, the cases are dealt out by their names."""
        index, parts = some
        if every_kernel:
            chosen = cases(every_kernel=True)
        else:
            chosen = drawn(_commit()) if everything else [*cases(), *share(self.times)]
        if index == 1:
            self._add_host_jobs(everything)
            self._add_sparse(everything, dict.fromkeys(case.kernel for case in chosen if case.kernel))
        if parts > 1:
            chosen = sorted(chosen, key=lambda case: case.name)[index - 1::parts]
        self.add_cases(chosen, everything)
        if not everything:
            _without_known(self.jobs.values())

    def _add_sparse(self, everything, kernels):
        for kernel in kernels:
            # The lab's own are of the newest source, as backports is; older ones have more in kmod/compat alone.
            facts = names.kernel(kernel)
            if not facts.built and (everything or facts.newest):
                self.need_kernel(kernel)
                self.add(f"sparse, {kernel}", guests.sparse, kernel, needs=(f"modules:{kernel}",))

    def _add_host_jobs(self, everything):
        self.add_unit(everything=everything)
        self.add_style()
        self.add("clang-tidy", host.tidy, 0 if everything else host.TIDY_SECONDS)
        needs = [name for kernel in ("debian13", "backports", "uml") for name in self.need_kernel(kernel)]
        self.add("lab", labtests.lab, needs=needs)
        self.add("interrupts", labtests.interrupts, needs=needs)
        if everything:
            self.add("demo", labtests.demo, needs=self.need_kernel("backports"))
            # It runs make demo as well.
            self.jobs["demo"].after = ("interrupts",)

    def quick(self):
        self.add_unit(quick=True)
        self.add_style()
        # It takes 12 s, a quarter of the guest's time.
        self.leaks = False
        self.add_cases([Case(test, QUICK_KERNEL) for test in QUICK_TESTS], False)
        # The guest waits for what is built for it, and leaves a processor to the unit tests.
        parts = tuple(name for job in self.jobs.values() if job.run is guests.guest for name in job.needs)
        for name in ("unit", "headers"):
            self.jobs[name].after = parts

    def named(self, words, kernel, show):
        """Tests and host jobs with one of the words in the name. A test runs on the given kernel or its first of `make check`."""
        everything = Plan(self.times)
        everything._add_host_jobs(True)
        tests = [word for word in words if word not in everything.jobs]
        chosen = []
        for case in cases(every_kernel=True):
            if any(word in case.test for word in tests) and kernel in (None, case.kernel):
                if kernel is None and any(c.test == case.test and not c.tree for c in chosen):
                    continue
                chosen.append(case)
        if kernel is None:  # the kernels of `make check` come first
            first = {}
            for case in cases():
                if any(word in case.test for word in tests):
                    first.setdefault(case.test, case)
            chosen = [first.get(case.test, case) if not case.tree else case for case in chosen]
        self.add_cases(chosen, False, show)
        for name, job in everything.jobs.items():
            if name in words or any(word in name for word in tests):
                self._take(everything, name)
        return bool(self.jobs)

    def _take(self, other, name):
        """A job of another plan, and the jobs that it needs."""
        if name in other.jobs and name not in self.jobs:
            self.jobs[name] = other.jobs[name]
            for need in other.jobs[name].needs:
                self._take(other, need)


# The files of the modules that the tools and the unit tests are built from as well.
_PURE = ("kmod/weft/map.*", "kmod/weft/superblock.*", "kmod/weft/pace.*", "kmod/weft/share.*", "kmod/weft/portable.h",
         "kmod/include/*")
# The inputs of the jobs of quick. The guest's inputs are all files except documents and tests of other subjects.
_INPUTS = {
    "unit": ("CMakeLists.txt", "VERSION", "cpp-tools/*", "userspace/*", "tests/unit/*", "tests/hardware/test_exporter/uapi.h",
             "uapi/*", *_PURE),
    "completion": ("CMakeLists.txt", "cpp-tools/*", "userspace/*", "uapi/*", *_PURE, "tests/completion"),
    "page": ("CMakeLists.txt", "cpp-tools/*", "userspace/*", "uapi/*", *_PURE, "tests/page", "tests/unit/*"),
    "plan report": ("CMakeLists.txt", "cpp-tools/*", "tests/plan-*", "docs/planning.md", "README.md"),
    "style": ("*",),
    "headers": ("*.hpp", "*.h", "docs/library.md"),
    "kernel style": ("kmod/*", "uapi/*", "tests/hardware/*"),
    "netlink": ("uapi/*", "kmod/weft/netlink-gen.*"),
    "metrics and alerts": ("packaging/prometheus/*", "tests/prometheus/*", "tests/lint-prometheus"),
}
_GUEST_INPUTS = ("CMakeLists.txt", "VERSION", "Kbuild", "Makefile", "dkms.conf", "cpp-tools/*", "fio-jobs/*", "kmod/*",
                 "packaging/*", "tests/CMakeLists.txt", "tests/hardware/*", "tests/hostile/*", "tests/lab/*", "tests/library/*",
                 "tests/mem/*", "tests/system/lib*", "tests/system/run", *[f"tests/system/{test}" for test in QUICK_TESTS],
                 "uapi/*", "userspace/*")


def _with_contents(files):
    """Parts of a key: the files' names and contents."""
    return [part for name in files for part in (name, Path(name))]


def _known_by(job, patterns):
    return memory.key("job", job.name, *_with_contents(host.tracked(*patterns)))


# What a guest sees only where its tests say so, and the words by which they do.
_NAMED = {"tests/python/*": r"tests/python", "docs/*.md": r"docs/|\breadme\b|\bcommands\b|\bin_text\b",
          "README.md": r"\breadme\b|\bREADME|\bin_text\b"}
# What no guest and no tree of a release sees. A guest's job depends on all else, and of tests/system/*.t on its own.
_OTHER = ("tests/system/*.t", "tests/unit/*", "tests/fuzz/*", "tests/runner/*", "tests/bench/*", "tests/prometheus/*",
          "tests/lint-*", "tests/check", "tests/completion", "tests/page", "tests/coverage", "tests/kernel-coverage",
          "tests/plan-*", "tests/tidy", "tests/demo", "tests/system/demo-guest", "docs/tests.md", "docs/lab.md",
          "CONTRIBUTING.md", "CHANGELOG.md", ".ci/*")


def ended_by():
    """A function: the key of all that a job depends on, its arguments and the files that it sees, as they are now."""
    every = memory.key(*_with_contents(host.tracked("*")))
    guest = memory.key(*_with_contents(host.tracked("*", *[f":!{pattern}" for pattern in (*_OTHER, *_NAMED)])))

    def known_by(job):
        if job.run not in (guests.guest, guests.tree):
            return memory.key("ended", job.name, repr(job.arguments), every)
        own = [f"tests/system/{word}" for word in re.findall(r"[a-z0-9-]+\.t\b", repr(job.arguments))]
        text = "".join((ROOT / name).read_text() for name in own)
        # The packages that are built in a tree have the documents.
        named = [pattern for pattern, words in _NAMED.items() if job.run is guests.tree or re.search(words, text)]
        return memory.key("ended", job.name, repr(job.arguments), guest, *_with_contents(own),
                          *_with_contents(host.tracked(*named) if named else []))
    return known_by


def only_changed(jobs):
    """The jobs whose inputs have changed since they passed. Each job stores the key of its inputs when it passes."""
    left = []
    for job in jobs:
        known_by = _known_by(job, _INPUTS.get(job.name, _GUEST_INPUTS))
        if not memory.passed(known_by):
            job.run = _remembering(job.run, known_by)
            left.append(job)
    wanted = {name for job in left for name in (job.name, *job.needs)}
    return [job for job in jobs if job.name in wanted]


# Of the whole check: jobs with nothing new to say about the very same input. libFuzzer begins with the same seed each time. What
# the threads of the library's tests do in another order the next time, check-all sees, as it does what takes longer to find.
_BUILT_INPUTS = ("VERSION", "Kbuild", "Makefile", "LICENSE", "dkms.conf", "kmod/*", "uapi/*", "tests/hardware/*", "tests/lab/*")
_WHOLE_INPUTS = {
    "unit, threads": _INPUTS["unit"],
    "fuzz": (*_INPUTS["unit"], "tests/fuzz/*"),
    "lab": ("tests/lab/*", "tests/runner/labtests.py"),
    "interrupts": ("Makefile", "tests/lab/*", "tests/check", "tests/demo", "tests/bench/bench", "tests/runner/process.py",
                   "tests/runner/job.py", "tests/runner/labtests.py"),
    "sparse": _BUILT_INPUTS,
    "dkms-install.t": (*_BUILT_INPUTS, "CMakeLists.txt", "packaging/*", "tests/system/dkms-install.t", "tests/system/lib*"),
}


def _without_known(jobs):
    """Jobs of the whole check, of which those of _WHOLE_INPUTS say at once that they passed where they have."""
    for job in jobs:
        # "sparse, KERNEL" and "dkms-install.t in RELEASE" are named by their first word.
        patterns = _WHOLE_INPUTS.get(job.name) or _WHOLE_INPUTS.get(job.name.split(",")[0].split(" ")[0])
        if not patterns:
            continue
        known_by = _known_by(job, patterns)
        if memory.passed(known_by):
            job.run, job.arguments, job.known = _known, (), True
        else:
            job.run = _remembering(job.run, known_by)


def _known(job):
    return [Result(PASSED, f"{job.name}: nothing of what it depends on has changed since it passed")]


def _remembering(run, known_by):
    def wrapped(job, *arguments):
        results = run(job, *arguments)
        if results and all(r.outcome != FAILED for r in results):
            memory.remember(known_by)
        return results
    return wrapped
