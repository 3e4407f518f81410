# SPDX-License-Identifier: GPL-2.0-only
"""Things that take minutes to make, kept outside the checkout under a name made of their content."""
import contextlib
import fcntl
import hashlib
import os
import shutil
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
def _lock(path):
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def get(name, make):
    """The folder `name` of the cache, made by make(folder) if it is not there yet.

    make() works in a temporary folder that is renamed when it returns, so a folder that
    exists is whole. Two labs that want the same thing make it once.
    """
    path = root() / name
    with _lock(root() / f".{name}.lock"):
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


def prune(name):
    """Keep the three newest folders of one kind: the kind is the name up to its key."""
    kind = name.rsplit("-", 1)[0]
    same = [p for p in root().glob(f"{kind}-*") if p.is_dir() and p.name.rsplit("-", 1)[0] == kind]
    for path in sorted(same, key=lambda p: p.stat().st_mtime)[:-3]:
        remove(path)


def remove(path):
    """Remove a folder of the cache, and first what an interrupted run left mounted below it."""
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


def call(argv, log, **kwargs):
    """Run argv with its output in the file log; on failure raise with the end of it."""
    with open(log, "ab") as out:
        done = subprocess.run([str(a) for a in argv], stdout=out, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, **kwargs)
    if done.returncode:
        tail = "\n".join(Path(log).read_text(errors="replace").splitlines()[-40:])
        kept = root() / f"failed-{Path(log).name}"
        shutil.copy(log, kept)
        raise LabError(f"{argv[0]} failed with status {done.returncode}; the whole log is {kept}; it ends:\n{tail}")
