# SPDX-License-Identifier: LGPL-2.1-or-later
"""The weft volume that a file lies on, and whether the file is sealed."""
import array
import errno
import fcntl
import os
import stat
import uuid
from typing import NamedTuple

_GETFLAGS, _SETFLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10


class Volume(NamedTuple):
    """name: of the volume. uuid: 16 bytes. generation: how often the superblocks of its members were written."""
    name: str
    uuid: bytes
    generation: int


def _below(device):
    """A block device in sysfs, and those that it is made of."""
    yield device
    if os.path.exists(os.path.join(device, "partition")):
        yield from _below(os.path.dirname(device))
    slaves = os.path.join(device, "slaves")
    # A volume has its members there, which are no place of the file.
    if os.path.isdir(slaves) and not os.path.isdir(os.path.join(device, "weft")):
        for name in sorted(os.listdir(slaves)):
            yield from _below(os.path.realpath(os.path.join(slaves, name)))


def volume_of(file):
    """The Volume on which an open file or block device lies, or None if that is none. file: its descriptor."""
    known = os.fstat(file)
    number = known.st_rdev if stat.S_ISBLK(known.st_mode) else known.st_dev
    device = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not os.path.isdir(device):
        return None
    for one in _below(device):
        folder = os.path.join(one, "weft")
        try:
            with open(os.path.join(folder, "uuid"), encoding="ascii") as text:
                identity = uuid.UUID(text.read().strip()).bytes
            with open(os.path.join(folder, "generation"), encoding="ascii") as text:
                return Volume(os.path.basename(one).partition("!")[2], identity, int(text.read()))
        except FileNotFoundError:
            continue
    return None


def is_sealed(file):
    """Whether the file is immutable (chattr +i)."""
    flags = array.array("L", [0])
    try:
        fcntl.ioctl(file, _GETFLAGS, flags)
    except OSError as wrong:
        if wrong.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return False
        raise
    return bool(flags[0] & _IMMUTABLE)


def seal(file, sealed=True):
    """Makes the file immutable, or not so. Returns the reason why that is not possible; empty if it is done."""
    flags = array.array("L", [0])
    try:
        fcntl.ioctl(file, _GETFLAGS, flags)
        flags[0] = flags[0] | _IMMUTABLE if sealed else flags[0] & ~_IMMUTABLE
        fcntl.ioctl(file, _SETFLAGS, flags)
    except PermissionError:
        return "this user may not seal files; as root, run chattr +i"
    except OSError as wrong:
        if wrong.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return "this filesystem cannot seal files; XFS and ext4 can"
        raise
    return ""
