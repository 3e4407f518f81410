# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file that appears whole or not at all."""
import os

from . import _library as lib
from ._engine import engine
from ._target import _number, created

# A write goes to the library in pieces that end at multiples of this: a signal's handler runs between two of them.
_PIECE_BYTES = 64 << 20


def is_there(path):
    """Has anything that name? OSError: it cannot be known."""
    try:
        os.lstat(path)
        return True
    except FileNotFoundError:
        return False


def sync_folder(folder):
    """Returns when the names in it are on the medium."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class Writer:
    """A new file of a known size. write_from() may come in any order. It has its name when the "with" block ends without an
    exception, and its data is on the medium then; otherwise nothing is left of it."""

    def __init__(self, path, size):
        self.path, self.size = os.path.abspath(os.fspath(path)), size
        # The calls of write_from() that are under way.
        self._writes, self._finishes = set(), False
        self._target = created(self.path, size)

    def write_from(self, memory, offset=0):
        """Writes all of the memory there. Any offset and length is possible: what is not in whole pages is copied."""
        offset, this = _number(offset), object()
        try:
            self._writes.add(this)
            if self._finishes:
                raise ValueError(f"{self.path} is closed: it takes no more writes")
            with self._target.register(memory, writable=False) as registration:
                self._write(registration, offset)
        finally:
            self._writes.discard(this)

    def _write(self, registration, offset):
        memory = registration.memory
        memory.wait_for_gpu()
        if offset + memory.length > self.size:
            raise ValueError(f"{memory.length} bytes at {offset} are not within a file of {self.size} bytes")
        at = offset
        while at < offset + memory.length:
            end = min((at // _PIECE_BYTES + 1) * _PIECE_BYTES, offset + memory.length)
            engine(memory.gpu).write_file(self._target.handle, registration.handle, at, at - offset, end - at)
            at = end

    def finish(self):
        """Puts the data on the medium, and gives the file its name. ValueError: another thread is writing to it; nothing is left
        of the file then."""
        file = self._target.handle
        try:
            self._finishes = True
            if self._writes:
                raise ValueError(f"{self.path} is incomplete: another thread is writing to it")
            lib.file_finish(file.value)
        finally:
            # An exception has this frame, and is not to keep it.
            file = None
            self._target.close()

    def abandon(self):
        """Leaves nothing of it. If another thread is writing to it, that is when this write has ended."""
        self._target.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.finish()
        else:
            self.abandon()


def create(path, size):
    """A Writer of a new file of so many bytes. A file that has the name is replaced when this one is whole."""
    return Writer(path, size)
