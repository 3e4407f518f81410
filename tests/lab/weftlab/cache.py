# SPDX-License-Identifier: GPL-2.0-only
"""Results that take minutes to make, kept outside the checkout. A name has a hash of all inputs."""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import LabError


def root():
    """The cache folder: $WEFT_LAB_CACHE, else under the user's cache folder."""
    base = os.environ.get("WEFT_LAB_CACHE")
    path = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "weft-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def key(*parts):
    """A short name for a list of strings, bytes and files: equal inputs, equal name."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def lock(name):
    """One lab at a time, by a name."""
    with open(root() / f".{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def get(name, make):
    """The folder `name` of the cache, made by make(folder) if it is not there yet.

    make() works in a temporary folder that is renamed when it returns, so a folder that
    exists is whole. Two labs that want the same thing make it once.
    """
    path = root() / name
    if _peeking and not path.is_dir():
        raise Missing(name)
    with lock(name):
        if path.is_dir():
            os.utime(path)
            return path
        work = root() / f"{name}.tmp"
        remove(work)
        work.mkdir()
        make(work)
        work.rename(path)
        prune(name)
    return path


class Missing(Exception):
    """A folder that is not in the cache, for has()."""


_peeking = False


def has(make):
    """Whether the cache has everything that make() would use. Makes nothing."""
    global _peeking  # pylint: disable=global-statement
    _peeking = True
    try:
        make()
        return True
    except Missing:
        return False
    finally:
        _peeking = False


def prune(name):
    """Keep the three newest folders of one kind: the kind is the name up to its key."""
    kind = name.rsplit("-", 1)[0]
    same = [p for p in root().glob(f"{kind}-*") if p.is_dir() and p.name.rsplit("-", 1)[0] == kind]
    for path in sorted(same, key=lambda p: p.stat().st_mtime)[:-3]:
        remove(path)


def remove(path):
    """Remove a folder of the cache, and first what is mounted below it."""
    with open("/proc/mounts") as mounts:
        below = [m for m in (line.split()[1] for line in mounts) if m.startswith(f"{path}/")]
    for mountpoint in sorted(below, reverse=True):
        subprocess.run(["umount", mountpoint], check=True)
    if path.exists():
        shutil.rmtree(path)


def say(text):
    """Progress, on standard error, with the time since the lab started."""
    print(f"lab: [{time.monotonic() - _START:5.0f}s] {text}", file=sys.stderr, flush=True)


_START = time.monotonic()
_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE, _PR_SET_PDEATHSIG = 0x00020000, 0x1000, 0x4000, 0x40000, 1


def private_mounts():
    """From here on, mounts of this process are private, and end with it in any case."""
    if _libc.unshare(_CLONE_NEWNS):
        raise LabError(f"the lab cannot have mounts of its own: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def use_libraries(root):
    """In a child, before it runs a program of another root filesystem: use the loader and libraries of that one."""
    if _libc.unshare(_CLONE_NEWNS) or _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None):
        os._exit(127)
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64"):
        if _libc.mount(f"{root}{folder}".encode(), folder.encode(), None, _MS_BIND, None):
            os._exit(127)


def die_with_parent():
    """In a child, before it runs a program: end it with the lab."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run(argv, **kwargs):
    """Like subprocess.run(). All processes that it starts end with this call, also after an interrupt."""
    # In their own PID namespace, all processes end with the first one.
    argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *[str(a) for a in argv]]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent, **kwargs)
    try:
        return process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def call(argv, log, **kwargs):
    """Run argv with its output in the file log; on failure raise with the end of it."""
    with open(log, "ab") as out:
        status = run(argv, stdout=out, stderr=subprocess.STDOUT, **kwargs)
    if status:
        tail = "\n".join(Path(log).read_text(errors="replace").splitlines()[-40:])
        kept = root() / f"failed-{Path(log).name}"
        shutil.copy(log, kept)
        raise LabError(f"{argv[0]} failed with status {status}; the whole log is {kept}; it ends:\n{tail}")
