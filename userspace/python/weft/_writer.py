# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file that appears whole or not at all."""
import builtins
import ctypes
import os
import tempfile

from . import _library as lib
from ._target import open as open_target

# What is not in whole pages goes through the page cache; the rest goes past it, and the two do not meet in a page.
_PAGE = 4096


def _umask():
    """Of this process. To ask for it by umask() would change it, for other threads as well."""
    with builtins.open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))


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
        if size < 0:
            raise ValueError(f"a file of {size} bytes")
        self.path, self.size = os.path.abspath(os.fspath(path)), size
        self._folder, name = os.path.split(self.path)
        number, self._draft = tempfile.mkstemp(prefix=f".{name}-", dir=self._folder)
        self._file = builtins.open(number, "r+b", buffering=0)
        self._target = None
        try:
            self._allocate()
            os.fchmod(number, 0o666 & ~_umask())
            self._target = open_target(self._draft, "r+")
            self._page = max(_PAGE, self._target.block_size)
        except BaseException:
            self.abandon()
            raise

    def _allocate(self):
        """Blocks of its own for each byte: a full volume is seen now, and a sealed file needs them."""
        try:
            if self.size:
                os.posix_fallocate(self._file.fileno(), 0, self.size)
        except OSError as wrong:
            raise OSError(wrong.errno, f"{self.size} bytes for {self.path}: {os.strerror(wrong.errno)}") from None

    def write_from(self, memory, offset=0):
        """Writes all of the memory there. Any offset and length is possible: what is not in whole pages is copied."""
        if self._target is None:
            raise ValueError(f"{self.path} is closed: nothing more can be written to it")
        with self._target.register(memory, writable=False) as registration:
            self._write(registration, offset)

    def _write(self, registration, offset):
        memory = registration.memory
        memory.wait_for_gpu()
        end = offset + memory.length
        if offset < 0 or end > self.size:
            raise ValueError(f"{memory.length} bytes at {offset} are not within a file of {self.size} bytes")
        begin = min(-(-offset // self._page) * self._page, end)
        whole = max(end // self._page * self._page, begin)
        if whole > begin:
            self._target.write_from(registration, begin, whole - begin, begin - offset)
        for first, last in ((offset, begin), (whole, end)):
            if last > first:
                self._copy(memory, first - offset, last - first, first)

    def _copy(self, memory, memory_offset, length, offset):
        data = ctypes.create_string_buffer(length)
        wrong = lib.memory_copy_out(memory.handle, memory_offset, data, length)
        if wrong:
            raise OSError(-wrong, f"{length} bytes of the memory cannot be copied: {os.strerror(-wrong)}")
        done = 0
        while done < length:
            done += os.pwrite(self._file.fileno(), data.raw[done:], offset + done)

    def finish(self):
        """Puts the data on the medium, and gives the file its name."""
        os.fsync(self._file.fileno())
        self._close()
        os.replace(self._draft, self.path)
        sync_folder(self._folder)

    def abandon(self):
        """Leaves nothing of it."""
        self._close()
        try:
            os.unlink(self._draft)
        except FileNotFoundError:
            pass

    def _close(self):
        target, self._target = self._target, None
        if target:
            target.close()
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            try:
                self.finish()
            except BaseException:
                self.abandon()
                raise
        else:
            self.abandon()


def create(path, size):
    """A Writer of a new file of so many bytes. A file that has the name is replaced when this one is whole."""
    return Writer(path, size)
