# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory of the host for one batch after another."""
import collections
import ctypes
import os

from ._memory import Buffer

# What is smaller is better registered for itself, if it is kept: a buffer is pinned as long as anything has its bytes.
SMALLEST = 1 << 16
# Free buffers that are kept: so many of each size, and so many bytes when another one is made.
_KEPT, _KEPT_BYTES = 4, 64 << 20


class _Lease:
    """Gives the buffer back when the last array of its bytes has ended."""

    def __init__(self, buffer, free):
        self._buffer, self._free = buffer, free

    def __del__(self):
        if not self._buffer.is_spoiled:
            self._free.append(self._buffer)


class Pool:
    """Buffers that are used again when nothing has their bytes any more. They begin at a page, and stay registered with the
    target whose pool this is: to register each batch anew takes longer than its reads.
    """

    def __init__(self):
        self._free, self._process = {}, os.getpid()

    def _drop(self):
        """Before another one: of all sizes so many bytes are kept, those of the smaller ones first."""
        kept = 0
        for size, free in sorted(self._free.items()):
            while kept + size * len(free) > _KEPT_BYTES:
                try:
                    free.popleft()
                except IndexError:
                    # Another thread has taken the last one.
                    break
            kept += size * len(free)

    def take(self, length):
        """A Buffer, and a memoryview of its first bytes. The view, and what is made of it, keeps the buffer; without one the
        next caller gets it."""
        if self._process != os.getpid():
            self._free, self._process = {}, os.getpid()
        # At most a fourth of it is unused.
        step = max(SMALLEST, 1 << max((length - 1).bit_length() - 3, 0))
        size = max(SMALLEST, -(-length // step) * step)
        free = self._free.setdefault(size, collections.deque(maxlen=max(1, min(_KEPT, _KEPT_BYTES // size))))
        try:
            buffer = free.pop()
        except IndexError:
            self._drop()
            buffer = Buffer(size)
        array = (ctypes.c_ubyte * size).from_address(buffer.address)
        array.owner = _Lease(buffer, free)
        return buffer, memoryview(array).cast("B")[:length]
