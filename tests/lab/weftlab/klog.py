# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel's log must not hold."""
import re

BAD = re.compile("|".join([
    r"------------\[ cut here \]------------", r"\bWARNING: (CPU|possible|inconsistent|suspicious|bad)", r"\bBUG: ",
    r"\bBUG at\b", r"\bkernel BUG\b", r"\bOops\b", r"\bgeneral protection fault\b", r"\bKernel panic\b",
    r"\bUBSAN:", r"\bKASAN:", r"\bKCSAN:", r"INFO: task .* blocked for more than", r"INFO: rcu.* detected",
    r"\brcu: INFO:", r"\bpossible (circular|recursive) locking\b", r"\binconsistent lock state\b",
    r"\bsuspicious RCU usage\b", r"\bsleeping function called from invalid context\b", r"\bunreferenced object\b",
    r"\bODEBUG:", r"\bsoft lockup\b", r"\bhard LOCKUP\b", r"\bpercpu ref .* <= 0\b", r"\brefcount_t: ",
]))

# Said by an emulated machine or by Debian's kernels of themselves, and no report of ours.
IGNORED = re.compile(r"^$")


def problems(text):
    """The lines of a kernel's log that are reports of something wrong, with what follows the first of them."""
    lines = text.splitlines()
    hits = [i for i, line in enumerate(lines) if BAD.search(line) and not IGNORED.search(line)]
    if not hits:
        return []
    return lines[hits[0]:hits[0] + 60]
