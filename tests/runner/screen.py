# SPDX-License-Identifier: GPL-2.0-only
"""The display: the running jobs, their usual times, the progress, and a summary."""
import collections
import re
import shutil
import sys
import time

from .result import FAILED, PASSED, SKIPPED, counts

# Without a terminal: one line in so many seconds.
LINE_SECONDS = 30
# Lines of a failure that the summary repeats.
_DETAIL_LINES = 10


def minutes(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _essence(detail):
    """The lines of a failure that say why: a kernel's report is at its beginning, and other reasons are the last lines."""
    lines = detail.strip().splitlines()
    reports = (i for i, line in enumerate(lines) if re.search(r"the kernel of \S+ complained", line))
    if (report := next(reports, None)) is not None:
        return lines[report:report + _DETAIL_LINES]
    return lines[-_DETAIL_LINES:]


class Screen:
    def __init__(self):
        self._terminal = sys.stdout.isatty()
        self._last = 0
        self._drawn = False

    def _print(self, text):
        if self._drawn:
            sys.stdout.write("\r\x1b[K")
            self._drawn = False
        print(text, flush=True)

    def plan(self, run, what):
        self._print(f"{what}: {len(run.jobs)} jobs, {run.slots} at a time; usually {minutes(run.left())}")

    def tick(self, run):
        running = run.running()
        if not running:
            return
        done = sum(job.state() == "done" for job in run.jobs.values())
        now = time.monotonic()
        doing = "; ".join(f"{job.name}{': ' + job.note if job.note else ''} ({now - job.begun:.0f} of about "
                          f"{run.times.usual(job.name):.0f} s)" for job in running)
        line = f"[{run.elapsed():5.0f}s] {done} of {len(run.jobs)} jobs, about {minutes(run.left())} left: {doing}"
        if self._terminal:
            sys.stdout.write("\r\x1b[K" + line[:shutil.get_terminal_size().columns - 1])
            sys.stdout.flush()
            self._drawn = True
        elif now - self._last >= LINE_SECONDS:
            self._last = now
            self._print(line)

    def ended(self, run, job):
        if not job.results:
            return
        found = counts(job.results)
        self._print(f"== [{run.elapsed():5.0f}s] {job.name}: {found[PASSED]} passed, {found[FAILED]} failed, "
                    f"{found[SKIPPED]} skipped in {job.seconds:.0f} s")
        for result in job.results:
            if result.outcome == FAILED:
                self._print(f"   failed: {result.sentence}" + (f"\n{result.detail.rstrip()}" if result.detail else ""))

    def summary(self, run, finished):
        """Print times of jobs and tests, skips with reasons, failures, and the count as the last line. Return the exit status."""
        jobs = [job for job in run.jobs.values() if job.results]
        total = collections.Counter()
        for job in jobs:
            total.update(counts(job.results))
        self._print(f"\nJobs, the longest first, and what each took of a processor ({run.elapsed() / 60:.1f} minutes in all):")
        for job in sorted(jobs, key=lambda job: -job.seconds):
            found = counts(job.results)
            failed = "  FAILED" if found[FAILED] else ""
            busy = 100 * job.processor / max(job.seconds, 1)
            self._print(f"  {job.seconds:6.0f} s  {busy:4.0f} %  {sum(found.values()):5} tests  {job.name}{failed}")
            if len(job.times) > 1:
                self._print("               " + ", ".join(f"{name} {seconds}" for name, seconds in
                                                          sorted(job.times.items(), key=lambda item: -item[1])))
        skipped = collections.Counter((job.name, r.sentence) for job in jobs for r in job.results if r.outcome == SKIPPED)
        if skipped:
            self._print("Skipped:")
            for (name, sentence), _ in sorted(skipped.items()):
                self._print(f"  {name}: {sentence}")
        if again := sum(job.boots_again for job in jobs):
            self._print(f"Guests that died or hung before their first process and were booted again: {again} "
                        f"({', '.join(job.name for job in jobs if job.boots_again)})")
        if stops := sum(job.stops for job in jobs):
            self._print(f"Guests that stopped, whose tests ran again from the start: {stops} "
                        f"({', '.join(job.name for job in jobs if job.stops)})")
        failures = [(job.name, r.sentence) for job in jobs for r in job.results if r.outcome == FAILED]
        if failures:
            self._print("Failed:")
            for name, sentence in failures:
                self._print(f"  {name}: {sentence}")
            # A log that is cut has its end: so the first failure of each job is there with its reason.
            for job in jobs:
                first = next((r for r in job.results if r.outcome == FAILED), None)
                if first and first.detail.strip():
                    self._print("\n   ".join([f"{job.name}: {first.sentence}:", *_essence(first.detail)]))
        if not finished:
            left = [job.name for job in run.jobs.values() if not job.results]
            self._print(f"Interrupted: {len(left)} jobs did not end.")
        self._print(f"{total[PASSED]} passed, {total[FAILED]} failed, {total[SKIPPED]} skipped")
        return 130 if not finished else 1 if total[FAILED] or not total[PASSED] else 0
