# SPDX-License-Identifier: GPL-2.0-only
"""Data that is kept between runs in the lab's cache: usual times of jobs, the inputs that passed, and results (resume.py)."""
import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path

from weftlab import cache

from . import ROOT

# Times of an idle machine with two processors, for a machine that has no times of its own yet.
_SHIPPED = ROOT / "tests/runner/times.json"


def folder(name):
    """A folder of that name in the cache, made if necessary."""
    path = cache.root() / name
    path.mkdir(exist_ok=True)
    return path


def key(*parts):
    """A key of strings and of files; file names are relative to the root."""
    digest = hashlib.sha256()
    for part in parts:
        data = (ROOT / part).read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:24]


def passed(known_by):
    path = folder("passed") / known_by
    if not path.exists():
        return False
    os.utime(path)
    return True


def remember(known_by):
    (folder("passed") / known_by).touch()


def forget_old():
    """Delete what was not used for long: inputs that passed, and results of runs that were interrupted."""
    for name, days in (("passed", 30), ("ended", 7)):
        for path in folder(name).iterdir():
            if path.stat().st_mtime < time.time() - days * 86400:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


# Assumed seconds of one of several tests in a guest, where this number of them has not run yet.
SHARED_TEST_SECONDS = 45


class Times:
    """Seconds that each job took, and seconds of a processor."""

    def __init__(self):
        self._path = cache.root() / "usual.json"
        self._known = json.loads(_SHIPPED.read_text()) if _SHIPPED.exists() else {}
        if self._path.exists():
            self._known |= json.loads(self._path.read_text())

    def usual(self, name, default=60, factor=1):
        """factor: how much slower than elsewhere a job is that never ran."""
        # How many tests share a guest depends on the commit. One that seems short begins last, and is waited for alone.
        if shared := re.match(r"(\d+) tests on ", name):
            default = int(shared[1]) * SHARED_TEST_SECONDS
        elif name not in self._known and (case := re.match(r"(\S+\.t) (?:on|in) ", name)):
            # On another kernel, or in another release's tree.
            elsewhere = [known[0] for other, known in self._known.items() if re.match(rf"{re.escape(case[1])} (?:on|in) ", other)]
            default = factor * max(elsewhere, default=default)
        return self._known.get(name, [default])[0]

    def processors(self, name):
        """How many processors a job keeps busy. Never nothing: its guest needs some of one to boot."""
        seconds, busy = self._known.get(name, [1, 1])
        return max(0.2, busy / max(seconds, 1))

    def took(self, name, seconds, busy):
        """One run does not turn all over: half of what was known stays."""
        now = [seconds, busy]
        if name in self._known:
            now = [(new + old) / 2 for new, old in zip(now, self._known[name])]
        self._known[name] = [round(value, 1) for value in now]
        self._path.write_text(json.dumps(self._known, sort_keys=True).replace("], ", "],\n ") + "\n")
