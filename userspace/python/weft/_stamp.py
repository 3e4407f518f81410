# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a file is still the one that was opened."""
import os
import stat
from typing import NamedTuple


class Stamp(NamedTuple):
    """What changes if a file is replaced or written to. Of a block device only its number is looked at."""
    device: int
    inode: int = 0
    size: int = 0
    written: int = 0
    changed: int = 0

    @classmethod
    def of(cls, path):
        """OSError: the file is gone."""
        one = os.stat(path)
        if stat.S_ISBLK(one.st_mode):
            return cls(one.st_rdev)
        return cls(one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)

    def difference(self, known):
        """A sentence on the first difference from an older stamp; empty for an equal one."""
        if self == known:
            return ""
        words = ("device", "file of this name", "size", "time of the last write", "time of the last change")
        for word, now, then in zip(words, self, known):
            if now != then:
                return f"it has changed since it was opened: the {word} is another one. Stop the epoch, and open it again"
        return ""


def path_of(name):
    """Of a file, a block device, or a weft volume by its name."""
    return name if "/" in name else f"/dev/weft/{name}"
