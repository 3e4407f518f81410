# SPDX-License-Identifier: GPL-2.0-only
"""Jobs and the order in which they run: as many at a time as keep the processors busy, the longest chain of them first.

A guest that emulates two processors takes both at times, and waits at others for a keep-alive or for a lease. How much of a
processor a job usually takes is known from the runs before; what never ran is taken to need one. Where the processors are idle
all the same, more jobs run.
"""
import dataclasses
import os
import threading
import time
from pathlib import Path

from . import process
from .result import FAILED, SKIPPED, Result, counts


# Jobs at one time by what they usually take, and what may be asked of the processors beyond what they have. With more jobs,
# each takes longer, so that it seems to need less of a processor, and still more would run the next time.
USUAL, SPARE = 3, 0.4
# Jobs at one time at all: those beyond USUAL begin one by one, when so many processors were idle for so many seconds, and so
# much memory is free.
MOST, IDLE, IDLE_SECONDS, FREE_BYTES = 5, 0.3, 10, 6 << 30
# The nice value of jobs that nothing waits for.
NICE = 10


class Idle:
    """How many processors had nothing to do of late."""

    def __init__(self):
        self._samples = []

    @staticmethod
    def _now():
        idle, waiting = (Path("/proc/stat").read_text().split()[4:6])
        return time.monotonic(), (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")

    def sample(self):
        now = self._now()
        self._samples = [sample for sample in self._samples if sample[0] > now[0] - 2 * IDLE_SECONDS] + [now]

    def forget(self):
        self._samples = []

    def processors(self):
        """0 if that is not known for IDLE_SECONDS."""
        if not self._samples:
            return 0
        (begin, was), (end, now) = self._samples[0], self._samples[-1]
        return (now - was) / (end - begin) if end - begin >= IDLE_SECONDS else 0


def memory_free():
    """Bytes that programs may still use."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


@dataclasses.dataclass(eq=False)
class Job:
    """What runs at one time. run(job) returns results; job.note is what it is at."""
    name: str
    run: object
    needs: tuple = ()
    arguments: tuple = ()
    note: str = ""
    begun: float = 0
    seconds: float = 0
    processor: float = 0    # seconds of it that its programs took
    results: list = None
    times: dict = dataclasses.field(default_factory=dict)   # seconds of the tests in it
    boots_again: int = 0    # guests that hung before their first process
    stops: int = 0          # guests that stopped later
    late: bool = False      # it begins when no other is left to begin
    after: tuple = ()       # jobs that end before it begins, whatever they return; it yields the processors to others
    known: bool = False     # it passed with the same inputs before, and says so at once

    def state(self):
        return "done" if self.results is not None else "running" if self.begun else "waiting"


class Run:
    """Runs jobs and tells a screen of each that begins and ends. ended(job) is called when one has ended. slots: the
    processors that there are."""

    def __init__(self, jobs, times, screen, ended=lambda job: None):
        self.jobs = {job.name: job for job in jobs}
        self.times, self.screen, self._ended = times, screen, ended
        self.slots = max(2, len(os.sched_getaffinity(0)))
        self.start = time.monotonic()
        self._changed = threading.Condition()
        self._weights, self._idle = {}, Idle()
        for job in self.jobs.values():
            self._weight(job)

    def elapsed(self):
        return time.monotonic() - self.start

    def _weight(self, job):
        """Usual seconds of a job plus the longest chain of jobs that wait for it."""
        if job.name not in self._weights:
            after = [self._weight(other) for other in self.jobs.values() if job.name in (*other.needs, *other.after)]
            self._weights[job.name] = self._usual(job) + max(after, default=0)
        return self._weights[job.name]

    def _usual(self, job):
        return 0 if job.known else self.times.usual(job.name)

    def _ready(self):
        ready = [job for job in self.jobs.values() if job.state() == "waiting"
                 and all(self.jobs[n].state() == "done" for n in (*job.needs, *job.after) if n in self.jobs)]
        return sorted(ready, key=lambda job: (job.late, -self._weights[job.name]))

    def _next(self):
        """Jobs to begin now: the processors have room for what each usually takes, or are seen to be idle."""
        running, chosen = self.running(), []
        taken = sum(self.times.processors(job.name) for job in running)
        ready = self._ready()
        for job in ready:
            more = self.times.processors(job.name)
            if len(running) + len(chosen) < USUAL and (not taken or taken + more <= self.slots + SPARE):
                chosen.append(job)
                taken += more
        if not chosen and ready and len(running) < MOST and self._idle.processors() >= IDLE and memory_free() >= FREE_BYTES:
            chosen = ready[:1]
        if chosen:
            self._idle.forget()
        return chosen

    def running(self):
        return [job for job in self.jobs.values() if job.state() == "running"]

    def left(self):
        """Usual seconds until the end: what the processors have left to do, and no less than the longest chain of jobs."""
        now, work, longest = time.monotonic(), 0.0, 0.0
        for job in self.jobs.values():
            if job.state() == "done":
                continue
            begun = now - job.begun if job.begun else 0
            left = max(0 if job.known else 5.0, self._usual(job) - begun)
            work += left * min(self.times.processors(job.name), self.slots)
            longest = max(longest, self._weights[job.name] - min(begun, self._usual(job)))
        return max(work / self.slots, longest)

    def _execute(self, job):
        if job.after:   # of this thread and the programs that it starts
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        needed = [(n, r.outcome) for n in job.needs if n in self.jobs for r in self.jobs[n].results]
        try:
            if failed := [n for n, outcome in needed if outcome == FAILED]:
                results = [Result(FAILED, f"not run: {', '.join(failed)} failed")]
            elif skipped := [n for n in job.needs if n in self.jobs and self.jobs[n].results and
                             all(result.outcome == SKIPPED for result in self.jobs[n].results)]:
                results = [Result(SKIPPED, f"not run: {', '.join(skipped)} cannot be had")]
            else:
                results = job.run(job, *job.arguments) or [Result(FAILED, "has results")]
        except process.Stopped:
            pass
        except Exception as problem:  # pylint: disable=broad-except # An exception in a job is a failure of that job.
            results = [Result(FAILED, f"ends in order: {type(problem).__name__}: {problem}")]
        if process.stopped():  # failures caused by an interrupt are not results
            results = []
        with self._changed:
            job.seconds = time.monotonic() - job.begun
            job.processor = process.processor_seconds()
            job.results = results
            if results and not job.known and not counts(results)[FAILED]:
                self.times.took(job.name, job.seconds, job.processor)
            self._ended(job)
            self.screen.ended(self, job)
            self._changed.notify()

    def all(self):
        """Run all jobs. True if they ran to the end without an interrupt."""
        try:
            with self._changed:
                while any(job.state() != "done" for job in self.jobs.values()):
                    self._idle.sample()
                    for job in self._next():
                        job.begun = time.monotonic()
                        threading.Thread(target=self._execute, args=(job,), daemon=True).start()
                    self._changed.wait(timeout=1)
                    self.screen.tick(self)
            return True
        except KeyboardInterrupt:
            process.stop()
            return False
