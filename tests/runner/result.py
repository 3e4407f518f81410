# SPDX-License-Identifier: GPL-2.0-only
"""Results of tests: outcome, sentence, and the output of a failure for the user."""
import collections
import dataclasses
import re

from . import memory, process

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Result:
    outcome: str
    sentence: str
    detail: str = ""


def counts(results):
    found = collections.Counter(result.outcome for result in results)
    return {outcome: found[outcome] for outcome in (PASSED, FAILED, SKIPPED)}


def passed_if(good, sentence, detail=""):
    return Result(PASSED if good else FAILED, sentence, "" if good else detail)


def command(sentence, argv, quiet=False, known_by=None, **kwargs):
    """One test: a command that succeeds and, with quiet, says nothing.

    known_by is a key of everything that its result depends on: where it passed with that before, it is not run again.
    """
    if known_by and memory.passed(known_by):
        return Result(PASSED, sentence)
    done = process.run(argv, **kwargs)
    output = done.stdout + done.stderr
    good = not done.returncode and not (quiet and output.strip())
    if good and known_by:
        memory.remember(known_by)
    return passed_if(good, sentence, "\n".join(output.splitlines()[-60:]))


class Tap:
    """Parses the output of TAP programs that run one after another, as tests/system/run prints it."""

    def __init__(self, names, note):
        self.names, self.note = names, note
        self.results, self.times = [], {}
        self._test, self._notes, self._ended, self._lines, self._begun = names[0], [], set(), [], 0

    def line(self, text):
        self._lines.append(text)
        if match := re.match(r"## (\S+) took (\d+) s$", text):
            self.times[match[1]] = int(match[2])
        elif text.startswith("## "):
            self._test, self._notes = text[3:], []
            self._begun += 1
            self.note(f"{self._test}, {self._begun} of {len(self.names)}" if len(self.names) > 1 else "")
        elif match := re.match(r"(not )?ok \d+ - (.*?)(?: # (SKIP|status) ?(.*))?$", text):
            outcome = FAILED if match[1] else SKIPPED if match[3] == "SKIP" else PASSED
            self.results.append(Result(outcome, f"{self._test}: {match[2]}" + (f" ({match[4]})" if match[3] else ""),
                                       "\n".join(self._notes[-30:]) if outcome == FAILED else ""))
            self._notes = []
        elif re.match(r"1\.\.\d+$", text):
            self._ended.add(self._test)
        else:
            self._notes.append(text)

    def end(self, status, errors, where):
        """All results: those of the programs, and a failure for each program that did not run to its end."""
        for name in self.names:
            if name not in self._ended:
                self.results.append(Result(FAILED, f"{name} runs to its end", "\n".join(self._lines[-20:])))
        return [*self.results, passed_if(not status, f"{where} ends in order", "\n".join(errors[-80:]))]
