# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is raised when a packed dataset, or a source of one, is not as it has to be."""
import os


class PackError(Exception):
    """path: the file. reason: one sentence that says what is wrong with it, and what to do."""

    def __init__(self, path, reason=None):
        # What raises it again in another process has its text alone: a worker of a DataLoader.
        super().__init__(*((path,) if reason is None else (path, reason)))
        self.path, self.reason = (None, path) if reason is None else (os.fspath(path), reason)

    def __str__(self):
        return self.reason if self.path is None else f"{self.path}: {self.reason}"
