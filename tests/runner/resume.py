# SPDX-License-Identifier: GPL-2.0-only
"""Jobs that passed in an earlier run with the very same inputs: a run that goes on takes their results.

check-all takes hours. Only jobs without a failure are kept, each as a file, when it ends. A job of `make check` is kept as
well: where check-all has the same one, it has passed there, too.
"""
import dataclasses
import json

from . import memory
from .result import FAILED, Result


class Earlier:
    """The results of earlier runs. known_by(job) is the key of what a job depends on."""

    def __init__(self, jobs, known_by):
        # Of before the run: a file that is edited meanwhile is not what has been tested.
        self._paths = {job.name: memory.folder("ended") / known_by(job) for job in jobs}

    def restore(self, jobs):
        """Give jobs that passed their results. Returns how many these are."""
        restored = 0
        for job in jobs:
            path = self._paths[job.name]
            if not path.exists():
                continue
            kept = json.loads(path.read_text())
            job.results = [Result(*result) for result in kept["results"]]
            job.seconds, job.processor, job.times = kept["seconds"], kept["processor"], kept["times"]
            restored += 1
        return restored

    def keep(self, job):
        """Keep the results of a job that has ended, unless one is a failure, or it has run none of its tests itself."""
        if not job.results or job.known or any(result.outcome == FAILED for result in job.results):
            return
        text = json.dumps({"results": [dataclasses.astuple(result) for result in job.results], "seconds": job.seconds,
                           "processor": job.processor, "times": job.times})
        path = self._paths[job.name]
        partial = path.with_suffix(".tmp")
        partial.write_text(text)
        partial.rename(path)
