# SPDX-License-Identifier: GPL-2.0-only
"""Jobs that passed in an earlier run of the same tree, which was interrupted: a run that goes on takes their results.

check-all takes hours. Only jobs without a failure are kept, each as a file, when it ends.
"""
import dataclasses
import json
import os
import tempfile

from . import ROOT, memory, process
from .result import FAILED, Result


def _tree():
    """The id of the checkout as git would commit it, with what is not committed yet."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "GIT_INDEX_FILE": f"{folder}/index"}
        for argv in (["git", "read-tree", "HEAD"], ["git", "add", "--all", "."], ["git", "write-tree"]):
            done = process.run(argv, cwd=ROOT, env=env)
            if done.returncode:
                raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Earlier:
    """The results of earlier runs of that name (check, check-all) of this tree."""

    def __init__(self, what):
        self._folder = memory.folder("ended") / memory.key(what, _tree())

    def _path(self, job):
        return self._folder / memory.key(job.name)

    def restore(self, jobs):
        """Give jobs that passed their results. Returns how many these are."""
        restored = 0
        for job in jobs:
            path = self._path(job)
            if not path.exists():
                continue
            kept = json.loads(path.read_text())
            job.results = [Result(*result) for result in kept["results"]]
            job.seconds, job.processor, job.times = kept["seconds"], kept["processor"], kept["times"]
            restored += 1
        return restored

    def keep(self, job):
        """Keep the results of a job that has ended, unless one is a failure."""
        if not job.results or any(result.outcome == FAILED for result in job.results):
            return
        self._folder.mkdir(exist_ok=True)
        text = json.dumps({"results": [dataclasses.astuple(result) for result in job.results], "seconds": job.seconds,
                           "processor": job.processor, "times": job.times})
        path = self._path(job)
        partial = path.with_suffix(".tmp")
        partial.write_text(text)
        partial.rename(path)
