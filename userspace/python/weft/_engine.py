# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of each thread, and of each process after a fork."""
import ctypes
import errno
import math
import os
import threading
import time

from . import _library as lib

# I/Os in flight. With pieces of 4 MiB, they stay below what the kernel copies at a time (WEFT_MEM_BOUNCE_MAX).
ENTRIES = 32
# Tries, 1 ms apart, of pieces for which the kernel has no room, because others use it.
BUSY_TRIES = 10000


class Engine:
    """An io_uring of this thread's. It is destroyed with the thread.

    A signal's handler may use it while the thread is in a call of it: each call waits for its own I/O, and stores what it
    gets of others.
    """

    def __init__(self):
        self._process = os.getpid()
        self._gathers = {}
        self._token = 0
        self._done, self._arrays = {}, []
        # Last: __del__() needs the others.
        self._handle = lib.engine_create(ctypes.byref(lib.sized(lib.EngineOptions, entries=8 * ENTRIES)))

    def __del__(self):
        # A child leaves its parent's ring alone.
        if getattr(self, "_handle", None) and self._process == os.getpid():
            for gather in self._gathers.values():
                lib.gather_destroy(gather)
            lib.engine_destroy(self._handle)

    def _collect(self):
        """Stores what has completed. A signal's handler may raise between any two lines, so what a call of the library has
        filled in stays in a list until it is stored."""
        for array in self._arrays:
            for one in array:
                if one.token:
                    self._done[one.token] = one.result, one.route
                    one.token = 0

    def _wait(self, flying):
        """Waits for some of the I/O in flight: (token, bytes or negative errno, route) for each. None: nothing is in flight."""
        while True:
            self._collect()
            ended = [token for token in flying if token in self._done]
            if ended:
                return [(token, *self._done.pop(token)) for token in ended]
            array = (lib.Completion * ENTRIES)()
            self._arrays.append(array)
            count = lib.wait(self._handle, array, ENTRIES, -1)
            self._collect()
            # Not there if a signal's handler was interrupted itself, and has drained.
            if array in self._arrays:
                self._arrays.remove(array)
            if not count:
                return None

    def _drain(self, flying):
        """Waits until the I/O has left the memory, through further interrupts. Its results are dropped."""
        while flying:
            try:
                ended = self._wait(flying)
                if ended is None:
                    break
                for token, *_ in ended:
                    del flying[token]
            except BaseException:  # pylint: disable=broad-except
                # A signal's handler may raise anything. The first exception goes on.
                continue
        # What a call that this one has interrupted waits for is not lost.
        self._collect()
        self._arrays.clear()

    def move(self, function, target, registration, ranges):
        """Reads or writes all ranges (offset, memory offset, length), one behind the other. Returns when no I/O is in flight any
        more: the bytes, the route with the most copies (None: nothing was moved), and the first error as (errno, offset) or
        None."""
        moved, route, failed, tries = 0, None, None, 0
        left, again, flying = iter(ranges), [], {}
        try:
            pending = next(left, None)
            begin, end = pending[0] if pending else 0, math.inf
            while flying or (pending and not failed):
                while pending and not failed and len(flying) < ENTRIES:
                    offset, memory_offset, length = pending
                    self._token += 1
                    token = self._token
                    io = lib.sized(lib.Io, offset=offset, memory_offset=memory_offset, length=length, token=token)
                    flying[token] = pending
                    wrong = function(self._handle, target.value, registration.value, ctypes.byref(io), None)
                    if wrong:
                        del flying[token]
                        if wrong != -errno.EBUSY or not flying:
                            failed = -wrong, offset
                        break
                    pending = again.pop() if again else next(left, None)
                if not flying:
                    break
                busy = False
                for token, result, how in self._wait(flying) or ():
                    piece = flying.pop(token)
                    if result == -errno.EBUSY and tries < BUSY_TRIES:
                        # Others use what the kernel has for copies.
                        busy = True
                        if pending:
                            again.append(piece)
                        else:
                            pending = piece
                    elif result < 0:
                        failed = failed or (-result, piece[0])
                    else:
                        moved += result
                        if result < piece[2]:
                            end = min(end, piece[0] + result)
                        route = how if route is None else max(route, how)
                if busy:
                    tries += 1
                    time.sleep(0.001)
        except BaseException:
            self._drain(flying)
            raise
        finally:
            # An exception has this frame, and is not to keep them.
            target = registration = None
        # A file may end within a range, and have grown when a later one was read.
        return min(moved, end - begin), route, failed

    def flush(self, target):
        """Returns 0 or an errno."""
        self._token += 1
        token = self._token
        flying = {token: None}
        try:
            wrong = lib.flush(self._handle, target.value, token)
            return -wrong if wrong else -self._wait(flying)[0][1]
        except BaseException:
            self._drain(flying)
            raise

    def write_file(self, file, registration, offset, memory_offset, length):
        """Writes any bytes to a file that the library has created. Returns when they are written."""
        try:
            lib.file_write(self._handle, file.value, registration.value, offset, memory_offset, length)
        finally:
            # An exception has this frame, and is not to keep them.
            file = registration = None

    def _gather_of(self, count):
        """A gather of the library that has room for so many extents."""
        capacity = 1 << max(12, (count - 1).bit_length())
        if capacity not in self._gathers:
            options = lib.sized(lib.GatherOptions, capacity=capacity)
            self._gathers[capacity] = lib.gather_create(self._handle, ctypes.byref(options))
        return self._gathers[capacity]

    def gather(self, target, registration, extents, results):
        """Reads an array of extents; (bytes, failed extents, route). "results" gets the bytes of each, or a negative errno."""
        return self._gathered(lib.gather_run, target, registration, results, extents, len(extents))

    def gather_records(self, target, registration, records, numbers, results):
        """The same for records by an array of their numbers, from the memory's first byte on. IndexError: a number
        is outside of the records; the memory is unchanged."""
        return self._gathered(lib.gather_run_records, target, registration, results, ctypes.byref(records), numbers,
                              len(numbers), 0)

    def _gathered(self, function, target, registration, results, *what):
        gather, done, error = self._gather_of(len(results)), lib.Gathered(), lib.Error()
        try:
            wrong = function(gather, target.value, registration.value, *what, results, ctypes.byref(done), ctypes.byref(error))
        finally:
            target = registration = None
        if wrong == -errno.ERANGE:
            raise IndexError(error.text.decode(errors="replace"))
        if wrong:
            raise OSError(-wrong, error.text.decode(errors="replace"))
        return done.bytes, done.failed, done.route


_local = threading.local()


def engine(gpu=None):
    """This thread's for a GPU by its number, or for memory of the host: an engine stages memory of one CUDA context."""
    if getattr(_local, "process", None) != os.getpid():
        _local.engines, _local.process = {}, os.getpid()
    if gpu not in _local.engines:
        _local.engines[gpu] = Engine()
    return _local.engines[gpu]
