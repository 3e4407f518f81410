# SPDX-License-Identifier: GPL-2.0-only
"""weft's lab: guests in which this checkout is built, installed and tested."""


class LabError(Exception):
    """An error, as one sentence for the user."""


class Absent(LabError):
    """Debian does not have a file any more, and the lab can work without it."""
