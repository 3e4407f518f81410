# SPDX-License-Identifier: GPL-2.0-only
"""Reports that a kernel's log must not contain. As a program: reads a log and prints them."""
import re
import sys

BAD = re.compile("|".join([
    r"------------\[ cut here \]------------", r"\bWARNING: ", r"\bBUG: ", r"\bBUG \S+ \(", r"\bBUG at\b", r"\bkernel BUG\b",
    r"\bOops\b", r"\bgeneral protection fault\b", r"\bKernel panic\b", r"\bUBSAN:", r"\bKASAN:", r"\bKCSAN:",
    r"INFO: task .* blocked for more than", r"INFO: rcu.* detected", r"\brcu: INFO:",
    r"\bINFO: trying to register non-static key\b", r"\bsleeping function called from invalid context\b",
    r"\bunregister_netdevice: waiting for\b", r"\bunreferenced object\b", r"\bODEBUG:", r"\bsoft lockup\b", r"\bhard LOCKUP\b",
    r"\bpercpu ref .* <= 0\b", r"\brefcount_t: ",
    # It looks no longer.
    r"\bkmemleak: (Cannot allocate|Memory pool empty|Kernel memory leak detector disabled)",
]))

OURS = re.compile(r"\+0x[0-9a-f]+/0x[0-9a-f]+ \[weft")


class StockReport:
    """A known report of stock code. It is ignored if weft's code is not in it."""

    def __init__(self, begins, ends, words=()):
        self.begins, self.ends, self.words = re.compile(begins), re.compile(ends), words

    def lines(self, lines, i):
        """The number of lines of this report, which begins at lines[i]; 0 if another one or none begins there."""
        if not self.begins.search("\n".join(lines[i:i + 2])):
            return 0
        end = next((j for j in range(i, len(lines)) if self.ends.search(lines[j])), len(lines) - 1) + 1
        report = "\n".join(lines[i:end])
        if OURS.search(report) or not all(word in report for word in self.words):
            return 0
        return end - i


STOCK_REPORTS = (
    # 7.2's nvmet: a port is removed under nvmet_config_sem, and a connection is torn down under its handler's mutex.
    StockReport(r"^.*WARNING: possible circular locking dependency", r"\bstack backtrace:",
                ("nvmet_config_sem", "handler_mutex")),
    # 7.3's soft-RoCE: check_ack() sets no status when the response to an RDMA READ follows another one than it expects,
    # as it can when packets are lost and reordered. The queue pair goes to its error state.
    StockReport(r"\[ cut here \].*\n.*WARNING: .*/rxe_comp\.c:\d+ at rxe_completer\+", r"-\[ end trace "),
)


def _without_stock_reports(lines):
    kept, i = [], 0
    while i < len(lines):
        if known := next((n for stock in STOCK_REPORTS if (n := stock.lines(lines, i))), 0):
            i += known
        else:
            kept.append(lines[i])
            i += 1
    return kept


# Before the first process weft is not loaded: ignore the kernel's reports about its own start on an emulated
# processor.
STARTED = re.compile(r"Run /init as init process")


# What the kernel of a guest reports whose emulated processor stands still.
STALLS = re.compile(r"INFO: task .* blocked for more than|INFO: rcu.* detected|\brcu: INFO:|\bsoft lockup\b|\bhard LOCKUP\b")


def problems(text, stalls=True):
    """The reports in a kernel's log: the first one with the lines that follow it. Without stalls, those do not count."""
    lines = text.splitlines()
    started = next((i for i, line in enumerate(lines) if STARTED.search(line)), 0)
    lines = _without_stock_reports(lines[started:])
    hits = [i for i, line in enumerate(lines) if BAD.search(line) and (stalls or not STALLS.search(line))]
    if not hits:
        return []
    return lines[hits[0]:hits[0] + 60]


# Known leaks of stock code: all named functions are in the backtrace.
STOCK_LEAKS = (
    # 7.2: dma_buf_free_sgt() frees orig_nents entries, which dma_buf_phys_vec_to_sgt() has set to 0.
    ("dma_buf_phys_vec_to_sgt", "vfio_pci_dma_buf_map"),
    # 7.3: iw_cm drops a connect request to a listener that is being destroyed without what it has copied of it.
    ("kmemdup_noprof", "cm_event_handler"),
)
# The functions of an unloaded module have no names.
NAMELESS = re.compile(r"^\s+0x[0-9a-f]+$", re.MULTILINE)
BOOT = re.compile(r"\bkernel_init\+0x")
# One that has a name, of whatever module.
NAMED = re.compile(r"^\s+(\[<[0-9a-f]+>\] )?\w[\w.]*\+0x[0-9a-f]+/0x[0-9a-f]+", re.MULTILINE)


def leaks(text):
    """The lines of a kmemleak report about objects that weft, or a module that was unloaded, allocated."""
    found = []
    blocks = re.split(r"^(?=unreferenced object)", text, flags=re.MULTILINE)[1:]
    if blocks and not any(NAMED.search(block) for block in blocks):
        return ["kmemleak reports objects without backtraces, so whose they are is unknown", *text.splitlines()]
    for block in blocks:
        # While the kernel starts, weft is not there, and the functions of that time have no names later.
        if BOOT.search(block):
            continue
        if not ("[weft" in block or NAMELESS.search(block)):
            continue
        if not any(all(f"{name}+" in block for name in leak) for leak in STOCK_LEAKS):
            found += block.splitlines()
    return found


if __name__ == "__main__":
    found = problems(sys.stdin.read())
    print("\n".join(found))
    sys.exit(1 if found else 0)
