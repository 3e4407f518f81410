# SPDX-License-Identifier: GPL-2.0-only
"""weft's lab: guests in which this checkout is built, installed and tested."""


class LabError(Exception):
    """What went wrong, as one sentence for the person at the terminal."""
