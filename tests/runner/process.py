# SPDX-License-Identifier: GPL-2.0-only
"""Programs that jobs run. All of them end when the run is interrupted."""
import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from . import ROOT

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_running = set()
_lock = threading.Lock()
_here = threading.local()
_stopped = threading.Event()


def processor_seconds():
    """What the programs that this thread ran, and all that they waited for, took of the processors so far."""
    return getattr(_here, "seconds", 0.0)


def _wait(process):
    """Wait for a program, and count what it took while the kernel still knows."""
    with contextlib.suppress(ChildProcessError, FileNotFoundError, ProcessLookupError):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        # utime, stime, cutime, cstime: proc(5) counts from the process's number
        _here.seconds = processor_seconds() + sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return process.wait()


class Stopped(Exception):
    """The run was interrupted: no more programs are started."""


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def started(argv, **kwargs):
    """A program, as subprocess.Popen() starts it, in a session of its own. It ends with the context."""
    with _lock:
        if _stopped.is_set():
            raise Stopped
        process = subprocess.Popen([str(a) for a in argv], cwd=kwargs.pop("cwd", ROOT), stdin=subprocess.DEVNULL, text=True,
                                   errors="replace", start_new_session=True, preexec_fn=_die_with_parent, **kwargs)
        _running.add(process)
    try:
        yield process
    finally:
        if process.poll() is None:
            end([process])
        with _lock:
            _running.discard(process)


def run(argv, **kwargs):
    """As subprocess.run() with its output captured."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        with started(argv, stdout=out, stderr=err, **kwargs) as process:
            status = _wait(process)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, status, out.read(), err.read())


def show(argv):
    """Run a program whose output is for the user; returns its exit status."""
    with started(argv) as process:
        return _wait(process)


def catch_interrupts():
    """Make SIGINT and SIGTERM a KeyboardInterrupt, also in background jobs of a shell, which ignore SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def follow(argv, line, error_line):
    """Run a program and pass on each line of its output and of its errors at once. Returns its exit status."""
    with started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        reader = threading.Thread(target=lambda: [error_line(text.rstrip("\n")) for text in process.stderr], daemon=True)
        reader.start()
        for text in process.stdout:
            line(text.rstrip("\n"))
        reader.join()
        return _wait(process)


def end(processes):
    """Ask programs to end; the lab does so within a second. After two seconds, kill the rest and all that they started."""
    def tell(number):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
    tell(signal.SIGTERM)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and any(p.poll() is None for p in processes):
        time.sleep(0.05)
    tell(signal.SIGKILL)


def stopped():
    """Whether the run was interrupted."""
    return _stopped.is_set()


def stop():
    """End all running programs. No more are started from here on."""
    with _lock:
        _stopped.set()
        processes = list(_running)
    end(processes)
