# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the lab itself and of make's commands that use it: what they report, how they end, the debugger."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from weftlab import kernel, klog
from weftlab.guest import STOPPED

from . import LAB, ROOT, memory, process
from .result import passed_if

# An interrupted command has ended with all that it started within these seconds.
END_SECONDS = 20
# For a guest to begin, and for gdb to reach it.
GUEST_SECONDS = 300
INTERRUPTED = {
    "make test": ["make", "test", "T=first-volume", "K=uml"],
    "make demo": ["make", "demo", "YES=1"],
    "make bench": ["make", "bench", "B=stripe"],
}
GUESTS = ("qemu-system-x86_64", "kernel")
# A report of soft-RoCE that the lab knows, its place and a function that it calls left open.
STOCK_WARNING = """[    1.0] ------------[ cut here ]------------
[    1.0] WARNING: drivers/infiniband/sw/rxe/{}:827 at rxe_completer+0xb8e/0xee0 [rdma_rxe], CPU#0: kworker/u10:2/325
[    1.0]  {}+0x12/0x34
[    1.0] ---[ end trace 0000000000000000 ]---
"""


def lab(job):
    """Tests of the lab itself: does it report errors?"""
    results = []

    def run(sentence, good, *argv):
        job.note = sentence
        done = process.run([LAB, "run", *argv])
        results.append(passed_if(good(done), sentence, done.stdout + done.stderr))
    run("a command's output and status come back", lambda d: d.returncode == 7 and d.stdout.split() == ["out", "err"],
        "--", "echo out; echo err >&2; exit 7")
    run("so they do from User Mode Linux", lambda d: d.returncode == 7 and d.stdout.split() == ["out", "err"],
        "--kernel", "uml", "--", "echo out; echo err >&2; exit 7")
    run("a report in the kernel's log fails the run", lambda d: d.returncode == 1 and "complained" in d.stderr,
        "--", "echo '<4>WARNING: CPU: 0 PID: 1 at tests/check' >/dev/kmsg")
    run("a guest that hangs is killed and its log is named", lambda d: d.returncode == 124 and "console.log" in d.stderr,
        "--timeout", "60", "--", "sleep 1000")
    run("a guest that hangs before its first process is booted again",
        lambda d: d.returncode == 125 and d.stderr.count("did not reach its first process") == 3,
        "--append", "lab_hang", "--boot-seconds", "2", "--", "true")
    run("a guest that stops is killed and told apart from one whose command takes long",
        lambda d: d.returncode == STOPPED and "no sign of life" in d.stderr,
        "--life-seconds", "30", "--", "rm /lab/ctl/alive && mkdir /lab/ctl/alive && sleep 1000")
    run("if its kernel complained before, the run fails", lambda d: d.returncode == 1 and "complained" in d.stderr,
        "--life-seconds", "30", "--",
        "echo '<4>WARNING: CPU: 0 PID: 1 at tests/check' >/dev/kmsg; rm /lab/ctl/alive && mkdir /lab/ctl/alive && sleep 1000")
    share = ROOT / "build/share"
    share.mkdir(parents=True, exist_ok=True)
    (share / "in").write_text("from outside\n")
    run("a shared folder is seen by both sides",
        lambda d: d.stdout == "from outside\n" and (share / "out").read_text() == "from inside\n",
        "--share", str(share), "--", "cat /share/in && echo from inside >/share/out")
    run("the topology p2p is there", lambda d: not d.returncode, "--kernel", "backports", "--topology", "p2p", "--",
        "lspci; test $(lspci | grep -ci nvm) = 3 && lspci | grep -qi inter-vm && lspci | grep -qi xio3130 && modprobe nvme && "
        "for i in $(seq 600); do grep -q 1 /sys/bus/pci/devices/*/p2pmem/published && exit 0; sleep 0.1; done; exit 1")
    run("the topology iommu is there", lambda d: not d.returncode, "--kernel", "backports", "--topology", "iommu", "--",
        "test -n \"$(ls /sys/kernel/iommu_groups)\"")
    results += [
        passed_if(not klog.problems(STOCK_WARNING.format("rxe_comp.c", "do_work [rdma_rxe]")), "a known report is ignored"),
        passed_if(klog.problems(STOCK_WARNING.format("rxe_req.c", "do_work")), "one like it is not"),
        passed_if(klog.problems(STOCK_WARNING.format("rxe_comp.c", "weft_done+0x1/0x2 [weft_rdma]\n x")),
                  "nor a known one with weft in its backtrace"),
        passed_if(klog.problems(STOCK_WARNING.format("rxe_comp.c", "do_work") + "[    2.0] BUG: any"), "nor what follows one")]
    debugged = [_debugged("backports", [], "0xfff0", "info registers rip"),
                _debugged("uml", [kernel.make("uml") / "kernel", "-ex", "handle SIGSEGV SIGUSR1 SIGALRM nostop noprint pass"],
                          "in start_kernel ()", "break start_kernel", "continue", "delete")]
    return [*results, *debugged]


def demo(job):
    """make demo to its end: each step begins, the steps show what they say, and what it leaves is plain text."""
    job.note = "make demo"
    done = process.run(["make", "demo", "YES=1"])
    file = ROOT / "build/demo.txt"
    text = file.read_text() if file.exists() else ""
    guest = (ROOT / "tests/system/demo-guest").read_text()
    steps = re.findall(r'^step "(.*)"$', guest, re.M)
    shown = re.findall(r"^-- (.*)$", text, re.M)
    told = done.stdout + done.stderr
    return [passed_if(not done.returncode and text.rstrip().endswith("demo: ok"), "make demo ends well", told),
            passed_if(steps and steps == shown, "each of its steps is in build/demo.txt", "\n".join(shown)),
            passed_if("\x1b" not in text and "\r" not in text, "which has no terminal codes"),
            *(passed_if(re.search(words, text), f"it shows {what}", text) for what, words in (
                ("two paths of a member", r"weft-rdma\d+n\d+.*\n.*weft-rdma\d+n\d+"), ("the loss of a path", "path-lost"),
                ("a read by the direct route", r"(?m)^(?!\$).*\bdirect\b.*\d"), ("the refusal of another", "no direct route")))]


def _debugged(name, options, wanted, *commands):
    """A guest waits for gdb, which says something wanted when it has run commands, and leaves. Then the guest boots."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gdb = ["gdb", "-nx", "-batch", *options, "-ex", f"target remote :{port}",
           *[word for command in commands for word in ("-ex", command)], "-ex", "detach"]
    said = []
    with process.started([LAB, "run", "--kernel", name, "--gdb", port, "--", "echo it runs"], stdout=subprocess.PIPE) as guest:

        def found():
            done = process.run(gdb)
            said.append(done.stdout + done.stderr)
            return wanted in done.stdout or guest.poll() is not None
        _until(GUEST_SECONDS, found)
        output = guest.communicate()[0]
    return passed_if(wanted in said[-1] and output == "it runs\n", f"gdb stops a guest of {name} before it boots, and leaves it",
                     "\n".join([*said[-3:], output]))


def _marked(mark):
    """The processes with a word in their environment: number to program."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = Path(os.readlink(folder / "exe")).name
    return found


def _until(seconds, condition):
    """Wait until a condition is true. Returns whether it was within these seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _interrupted(argv, ready, **environment):
    """Start a command, and send SIGINT to its group, as a terminal does, once ready(its processes) is true. Returns what is
    wrong, or nothing."""
    mark = f"WEFT_INTERRUPTED={os.getpid()}-{time.monotonic_ns()}"
    name, _, value = mark.partition("=")
    with process.started(argv, env={**os.environ, **environment, name: value}, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL) as command:
        begun = _until(GUEST_SECONDS, lambda: command.poll() is not None or ready(_marked(mark).values()))
        if not begun or command.poll() is not None:
            return f"it did not begin what is interrupted; its status is {command.poll()}"
        os.killpg(command.pid, signal.SIGINT)
        if not _until(END_SECONDS, lambda: command.poll() is not None and not _marked(mark)):
            return f"{END_SECONDS} s later its status is {command.poll()}, and these run: {_marked(mark)}"
    return "" if command.returncode else "its status is 0"


def interrupts(job):
    """Ctrl-C ends a command and all that it started, and what it was making is made the next time."""
    results = []
    for name, argv in INTERRUPTED.items():
        job.note = name
        wrong = _interrupted(argv, lambda programs: any(program in GUESTS for program in programs))
        results.append(passed_if(not wrong, f"Ctrl-C ends {name} and its guest within {END_SECONDS} s", wrong))
    job.note = "a part of the lab"
    return [*results, *_interrupted_part()]


def _interrupted_part():
    """A part of the lab is interrupted while it is made, in a cache that has all others."""
    folder, kind = ROOT / "build/interrupted", "modules-uml-"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in memory.cache.root().iterdir():
        if not path.name.startswith((".", kind)) and path.suffix != ".tmp":
            (folder / path.name).symlink_to(path)
    argv, environment = [LAB, "make", "modules:uml"], {"WEFT_LAB_CACHE": str(folder)}

    def whole():
        return [path for path in folder.glob(f"{kind}*") if path.suffix != ".tmp"]
    wrong = _interrupted(argv, lambda programs: "cc1" in programs, **environment)
    results = [passed_if(not wrong and not whole(), f"Ctrl-C ends a build of modules within {END_SECONDS} s",
                         wrong or str(whole()))]
    done = process.run(argv, env={**os.environ, **environment})
    results.append(passed_if(not done.returncode and len(whole()) == 1, "the next one makes them", done.stdout + done.stderr))
    shutil.rmtree(folder)
    return results
