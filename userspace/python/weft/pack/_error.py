# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is raised when a packed dataset, or a source of one, is not as it has to be."""
import os


class PackError(Exception):
    """path: the file. reason: one sentence that says what is wrong with it, and what to do."""

    def __init__(self, path, reason):
        super().__init__(path, reason)
        self.path, self.reason = os.fspath(path), reason

    def __str__(self):
        return f"{self.path}: {self.reason}"
