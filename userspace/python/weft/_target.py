# SPDX-License-Identifier: LGPL-2.1-or-later
"""Volumes, files and block devices, and I/O on them."""
import ctypes
import errno
import itertools
import operator
import os
import struct
import time
import weakref
from typing import NamedTuple

from . import _library as lib
from ._engine import BUSY_TRIES, engine
from ._memory import Buffer, Memory
from ._pool import Pool

_ACCESS = {"r": lib.READ, "r+": lib.READ_WRITE}
_ANY_ROUTE = lib.ALLOW_VMAP | lib.ALLOW_BOUNCE | lib.ALLOW_STAGED
# A long range goes in pieces of this size, several at a time.
_PIECE_BYTES = 4 << 20
LARGEST_EXTENT = (1 << 31) - 1


class Result(NamedTuple):
    """What an I/O has done."""
    bytes: int      # fewer than asked for at the end of the target only
    route: str      # "direct", "vmap", "bounce", "staged" or "cached"; with several, the one with the most copies
    reason: str     # why it is not "direct"; empty if it is, or for "cached"


NOTHING_READ = Result(0, "direct", "")


class _Handle:
    """What the library has given, until nothing refers to it: an I/O of another thread, or one that a signal has interrupted,
    comes to its end first. memory: what was borrowed for it, which ends after it."""

    def __init__(self, made, of_process=True, memory=None):
        self._made, self.value, self._of_process, self._process, self._memory = made, made.value, of_process, os.getpid(), memory

    def __del__(self):
        # A signal may come before it is made.
        made, memory = self.__dict__.pop("_made", None), self.__dict__.pop("_memory", None)
        if made and self._of_process and self._process != os.getpid():
            # A child of fork() has its parent's.
            made.value = memory = None
        del made
        if memory:
            memory.end()


def _reason(handle):
    """Why a registration has no direct route."""
    return lib.registration_reason(handle.value).decode(errors="replace") if handle else ""


class Registration:
    """A memory that is registered with a target, for many I/Os. A context manager."""

    def __init__(self, target, memory, writable, persistent, staged=True, own=False, of_target=False):
        # What the target itself has does not keep it.
        self._target = weakref.ref(target) if of_target else lambda: target
        self.memory, self.writable = memory, writable
        self._own, self._handle, self._process = own, None, os.getpid()
        policy = (_ANY_ROUTE if staged else 0) | (0 if writable else lib.READ_ONLY) | (lib.PERSISTENT if persistent else 0)
        if memory.length:
            # Another thread may close the target meanwhile.
            of = target.handle
            try:
                self._handle = _Handle(lib.register(of.value, memory.handle, policy), memory=memory if own else None)
                self._own = False
            except BaseException:
                self.end()
                raise
            finally:
                # An exception has this frame, and is not to keep it.
                of = None

    @property
    def target(self):
        return self._target()

    @property
    def handle(self):
        if self._process != os.getpid():
            raise OSError(errno.ECHILD, "this memory was registered before the fork: register it again here")
        if self._handle is None and self.memory.length:
            raise ValueError("this registration has ended")
        return self._handle

    @property
    def route(self):
        handle = self.handle
        return lib.route_name(lib.registration_route(handle.value)).decode() if handle else "direct"

    @property
    def reason(self):
        return _reason(self.handle)

    def end(self):
        """The memory is its owner's alone afterwards. If another thread has I/O on it, that is when this I/O has ended."""
        self._handle = None
        if self._own:
            self.memory.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def __del__(self):
        if hasattr(self, "_own"):
            self.end()


class _Lent:
    """The registration of some object, for one I/O."""

    def __init__(self, target, owner, writable):
        self._own, self._buffer = False, None
        if isinstance(owner, Registration):
            if owner.target is not target:
                raise ValueError("the memory is registered with another target")
            if writable and not owner.writable:
                raise ValueError("the memory is registered for reading only")
            self.registration = owner
        elif isinstance(owner, Buffer):
            self.registration, self._buffer = target.of_buffer(owner), owner
        else:
            self.registration, self._own = target.register(owner, writable=writable), True
        self.memory = self.registration.memory
        self.memory.wait_for_gpu()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self._own:
            self.registration.end()
        elif kind and self._buffer:
            # The kernel may still have an I/O of a ring that has failed. The end of the registration waits for it.
            self._buffer.is_spoiled = True


def _encoded(path):
    """A path as C has it, which ends at the first zero byte."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"{path!r} has a zero byte in it: no file has such a name")
    return encoded


def _number(value):
    """An offset or a length that the kernel takes, of any kind of integer."""
    value = operator.index(value)
    if not 0 <= value < 1 << 63:
        raise ValueError(f"{value} cannot be an offset or a length: they are from 0 to 2^63 - 1")
    return value


def int64s(numbers, into):
    """Puts integers of any kind into a ctypes array as 64 bits each. struct.error: something is not an integer, or needs more
    bits."""
    struct.pack_into(f"{len(numbers)}q", into, 0, *numbers)
    return into


def _rows(extents):
    """The offsets, memory offsets and lengths of ranges that have bytes, as three lists."""
    # Of an array its numbers all at once.
    extents = extents.tolist() if hasattr(extents, "tolist") else list(extents)
    if extents and set(map(len, extents)) == {2}:
        offsets, lengths = zip(*extents)
        if all(lengths):
            # Integers of numpy are as narrow as their arrays, and their sums wrap.
            offsets, lengths = list(map(operator.index, offsets)), list(map(operator.index, lengths))
            return offsets, [0, *itertools.accumulate(lengths[:-1])], lengths
    offsets, begins, lengths, at = [], [], [], 0
    for extent in extents:
        offset, length, begin = extent if len(extent) == 3 else (*extent, at)
        offset, begin, length = map(operator.index, (offset, begin, length))
        at = begin + length
        # One without bytes is nothing to read.
        if length:
            offsets.append(offset)
            begins.append(begin)
            lengths.append(length)
    return offsets, begins, lengths


class Target:
    """An open volume, file or block device. Threads may share it. A context manager."""

    def __init__(self, name, handle, strict):
        # First: __del__() closes it.
        self._handle, self.name, self.strict = handle, name, strict
        self._buffers = weakref.WeakKeyDictionary()
        self._process = os.getpid()
        self.pool = Pool()
        geometry = self._geometry()
        self.size, self.block_size, self.alignment = geometry.size, geometry.block_size, geometry.alignment
        self.chunk_size, self.member_count = geometry.chunk_size, geometry.member_count
        # Why a file is read through its filesystem, or why the .mem device of a volume cannot be opened; empty for all else.
        self.reason = lib.target_reason(self._handle.value).decode(errors="replace")

    @property
    def handle(self):
        """Of the library."""
        if not self._handle:
            raise ValueError(f"{self.name} is closed")
        return self._handle

    def _geometry(self):
        geometry, of = lib.Geometry(), self.handle
        try:
            lib.target_geometry(of.value, ctypes.byref(geometry))
        finally:
            # An exception has this frame, and is not to keep it.
            of = None
        return geometry

    def _rest(self, offset, length=None):
        """The bytes from there to the end. length: who wants fewer than there were does not ask for the size again."""
        if length is None or offset + length > self.size:
            # A file may have grown since. One that has become shorter ends before its size.
            self.size = max(self.size, self._geometry().size)
        return max(self.size - offset, 0)

    def register(self, memory, *, writable=True, persistent=False):
        """A Registration of it. persistent: with all targets of the volume, once, and not for each I/O."""
        own = not isinstance(memory, Buffer)
        memory = Memory.of(memory, writable) if own else memory.memory
        return Registration(self, memory, writable, persistent, not self.strict, own)

    def of_buffer(self, buffer):
        """The registration of a Buffer, which stays until one of the two ends."""
        known = self._buffers.get(buffer)
        # A child registers again: the volume has its parent's pages.
        if known is None or self._process != os.getpid():
            if self._process != os.getpid():
                self._buffers, self._process = weakref.WeakKeyDictionary(), os.getpid()
            known = self._buffers[buffer] = Registration(self, buffer.memory, True, False, not self.strict, of_target=True)
        return known

    def read_into(self, memory, offset=0, length=None, memory_offset=0):
        """Reads bytes from there into the memory, by default as many as fit. Returns a Result; it has fewer bytes at the end
        of the target."""
        offset, memory_offset = _number(offset), _number(memory_offset)
        with _Lent(self, memory, True) as lent:
            room = max(lent.memory.length - memory_offset, 0)
            wanted = room if length is None else _number(length)
            rest = self._rest(offset, wanted)
            length = min(room, rest) if length is None else wanted
            self._check(lent.memory, memory_offset, length)
            # A block is read whole where that is what was asked for, beyond the end of a file, too.
            length = min(length, -(-rest // self.block_size) * self.block_size)
            return self._move(lib.read, lent, offset, length, memory_offset)

    def read(self, offset=0, length=None):
        """The bytes from there as a Buffer of the host; to the end without a length. What is not in whole blocks is staged."""
        offset, length = _number(offset), None if length is None else _number(length)
        rest = self._rest(offset, length)
        buffer = Buffer(rest if length is None else min(length, rest))
        if not len(buffer):
            return buffer
        with Registration(self, buffer.memory, True, False) as registration:
            got = self.read_into(registration, offset).bytes
        if got < len(buffer):
            raise OSError(errno.EIO, f"{self.name} ends {len(buffer) - got} bytes before its size")
        return buffer

    def write_from(self, memory, offset=0, length=None, memory_offset=0):
        """Writes bytes of the memory there, by default all. Offset and length are in whole blocks. Returns a Result."""
        offset, memory_offset = _number(offset), _number(memory_offset)
        with _Lent(self, memory, False) as lent:
            length = max(lent.memory.length - memory_offset, 0) if length is None else _number(length)
            self._check(lent.memory, memory_offset, length)
            result = self._move(lib.write, lent, offset, length, memory_offset)
            if result.bytes < length:
                raise OSError(errno.ENOSPC, f"{self.name} took {result.bytes} of {length} bytes at {offset}")
            self.size = max(self.size, offset + length)
            return result

    def flush(self):
        """Returns when all that was written is on the medium."""
        wrong = engine().flush(self.handle)
        if wrong:
            raise OSError(wrong, f"{self.name}: the data may not be on the medium: {os.strerror(wrong)}")

    def gather(self, memory, extents):
        """Reads many ranges at once: (offset, length) each, one behind the other into the memory, or (offset, length,
        memory offset); an array of integers with such rows is taken, too. Returns a Result; raises for the first range that
        fails or ends short."""
        with _Lent(self, memory, True) as lent:
            return self._gather(lent, _rows(extents))

    def _gather(self, lent, rows):
        """Reads what _rows() gives. All checks are of whole lists: a step of Python for each sample costs more than its read."""
        offsets, begins, lengths = rows
        count = len(lengths)
        if not count:
            return NOTHING_READ
        numbers = list(itertools.chain.from_iterable(zip(*rows)))
        try:
            extents = int64s(numbers, (lib.Extent * count)())
        except struct.error:
            for number in numbers:
                _number(number)
            raise
        _number(min(min(offsets), min(begins), min(lengths)))
        if max(lengths) > LARGEST_EXTENT:
            raise ValueError(f"a range must be below 2 GiB, not {max(lengths)} bytes: use read_into()")
        if max(begins) + max(lengths) > lent.memory.length:
            for begin, length in zip(begins, lengths):
                self._check(lent.memory, begin, length)
        return self._gather_extents(lent, extents, count, sum(lengths))

    def _gather_extents(self, lent, extents, count, total):
        """Reads so many extents, checked and as the library has them, in a ctypes array. They have that many bytes."""
        results, handle = (ctypes.c_int32 * count)(), lent.registration.handle
        moved, failed, route = engine(lent.memory.gpu).gather(self.handle, handle, extents, results)
        if failed:
            moved = self._read_busy(lent, results, lambda i: extents[i])
        if moved < total:
            self._refuse((extent.offset, extent.length, result) for extent, result in zip(extents, results))
        return self._result(moved, route, handle)

    def _gather_records(self, lent, records, numbers):
        """Reads the records of a ctypes array of int64, one behind the other. IndexError: a number is outside of them."""
        count, length = len(numbers), records.length
        if not count:
            return NOTHING_READ
        self._check(lent.memory, 0, count * length)
        results, handle = (ctypes.c_int32 * count)(), lent.registration.handle
        moved, failed, route = engine(lent.memory.gpu).gather_records(self.handle, handle, records, numbers, results)
        if failed:
            moved = self._read_busy(lent, results, lambda i: lib.Extent(records.offset + numbers[i] * length, i * length, length))
        if moved < count * length:
            self._refuse((records.offset + number * length, length, result) for number, result in zip(numbers, results))
        return self._result(moved, route, handle)

    def _read_busy(self, lent, results, extent_of):
        """Reads again what the kernel had no room for, because others use what it has for copies. Returns the bytes of all."""
        for _ in range(BUSY_TRIES):
            busy = [i for i, result in enumerate(results) if result == -errno.EBUSY]
            if not busy:
                break
            time.sleep(0.001)
            extents, again = (lib.Extent * len(busy))(*map(extent_of, busy)), (ctypes.c_int32 * len(busy))()
            engine(lent.memory.gpu).gather(self.handle, lent.registration.handle, extents, again)
            for i, result in zip(busy, again):
                results[i] = result
        return sum(result for result in results if result > 0)

    def _refuse(self, reads):
        """Raises for the first of the reads (offset, length, result) that has failed or ended short."""
        for offset, length, result in reads:
            if result != length:
                raise self._error(-result if result < 0 else errno.EIO, offset, length)

    def close(self):
        """Ends it, with what is registered with it. I/O that other threads have begun comes to its end."""
        self._handle = None
        for registration in list(self._buffers.values()):
            registration.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    @staticmethod
    def _check(memory, memory_offset, length):
        if memory_offset + length > memory.length:
            raise ValueError(f"the memory has {memory.length} bytes, and {length} at {memory_offset} were requested")

    def _move(self, function, lent, offset, length, memory_offset):
        pieces = ((offset + at, memory_offset + at, min(_PIECE_BYTES, length - at)) for at in range(0, length, _PIECE_BYTES))
        handle = lent.registration.handle
        moved, route, failed = engine(lent.memory.gpu).move(function, self.handle, handle, pieces)
        if failed:
            raise self._error(*failed, length)
        return self._result(moved, route, handle)

    def _result(self, moved, route, handle):
        route = "direct" if route is None else lib.route_name(route).decode()
        reason = ""
        if route not in ("direct", "cached"):
            reason = _reason(handle) or f"it is not in whole blocks of {self.block_size} bytes, or the memory does " \
                                                 f"not begin at a multiple of {self.alignment}"
        return Result(moved, route, reason)

    def _error(self, number, offset, length):
        text = os.strerror(number)
        if number == errno.EINVAL:
            text = f"offset and length have to be multiples of {self.block_size}, and the memory's address of {self.alignment}"
        return OSError(number, f"{length} bytes at {offset} of {self.name}: {text}")


def open(name, mode="r", *, strict=False, shared=False):  # pylint: disable=redefined-builtin
    """Opens a weft volume by its name, or a file or block device by a path with a slash. A sealed file on a weft volume is read
    without its filesystem; the volume is found by itself.

    mode: "r", or "r+" to write as well. strict: only the direct route; an I/O that would be copied fails with the reason.
    shared: do not claim a block device that is opened for writing; a weft volume is always claimed.
    """
    if mode not in _ACCESS:
        raise ValueError(f"mode '{mode}' is neither 'r' nor 'r+'")
    name, access = os.fspath(name), _ACCESS[mode] | (lib.SHARED if shared else 0)
    return Target(name, _Handle(lib.open_target(_encoded(name), access), of_process=False), strict)


def created(path, size):
    """A new file of so many bytes, which gets its name when the library finishes it."""
    return Target(path, _Handle(lib.file_create(_encoded(path), _number(size)), of_process=False), False)
