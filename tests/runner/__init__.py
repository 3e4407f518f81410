# SPDX-License-Identifier: GPL-2.0-only
"""The parts of `tests/check`: jobs, their order, the display while they run, and the summary."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "tests/lab/lab"
# The runner imports weftlab, the lab's own package, from there.
sys.path.insert(0, str(ROOT / "tests/lab"))
