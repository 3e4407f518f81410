# SPDX-License-Identifier: GPL-2.0-only
"""The package weft: targets, memory, threads, forks, errors."""
import ctypes
import errno
import gc
import mmap
import os
import random
import re
import signal
import struct
import tempfile
import threading
import time
import unittest
import unittest.mock
import weakref

import weft


class Five:
    """An integer of another kind."""

    def __index__(self):
        return 5


class WeftTest(unittest.TestCase):
    """A file of random bytes, whose size is in no blocks."""

    SIZE = (3 << 20) + 777

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=".")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(self.folder, "data")
        self.data = random.Random(1).randbytes(self.SIZE)
        with open(self.path, "wb") as file:
            file.write(self.data)


class Reading(WeftTest):
    def test_any_bytes_into_what_has_the_buffer_protocol(self):
        with weft.open(self.path) as file:
            self.assertEqual(file.size, self.SIZE)
            self.assertTrue(file.reason)
            choose = random.Random(2)
            for _ in range(50):
                offset, length = choose.randrange(self.SIZE), choose.randrange(1, 300000)
                memory = bytearray(length)
                wanted = self.data[offset:offset + length]
                result = file.read_into(memory, offset)
                self.assertEqual((result.bytes, bytes(memory[:len(wanted)])), (len(wanted), wanted))
                self.assertEqual(bytes(memory[len(wanted):]), bytes(length - len(wanted)))

    def test_a_file_that_ends_within_the_range_and_grows(self):
        """What is behind a piece that was read short does not count."""
        read, pieces = weft._library.read, []

        def read_short(*arguments):
            io = arguments[3]._obj
            pieces.append(io.offset)
            # As if the file ended there when this piece was read.
            if len(pieces) == 2:
                io.length = 100
            return read(*arguments)
        memory = bytearray(3 * 4096)
        with weft.open(self.path) as file, unittest.mock.patch.object(weft._target, "_PIECE_BYTES", 4096), \
                unittest.mock.patch.object(weft._library, "read", read_short):
            self.assertEqual(file.read_into(memory, 4096).bytes, 4196)
        self.assertEqual(pieces, [4096, 8192, 12288])
        self.assertEqual(bytes(memory[:4196]), self.data[4096:8292])

    def test_lengths_that_do_not_fit(self):
        for wrong in (-1, 1 << 63, (1 << 64) + 4096):
            with self.subTest(wrong), self.assertRaises(ValueError):
                weft.empty(wrong)
        with self.assertRaisesRegex(OSError, "no GPU 4294967296"):
            weft.empty(4096, gpu=1 << 32)

    def test_parts_of_memory(self):
        memory = bytearray(b"x" * 100)
        with weft.open(self.path) as file:
            self.assertEqual(file.read_into(memory, 10, 20, 30).bytes, 20)
        self.assertEqual(bytes(memory), b"x" * 30 + self.data[10:30] + b"x" * 50)

    def test_a_buffer(self):
        with weft.open(self.path) as file:
            whole = file.read()
            self.assertEqual(bytes(whole), self.data)
            self.assertEqual(bytes(file.read(5, 7)), self.data[5:12])
            self.assertEqual(len(file.read(self.SIZE)), 0)
            # It is registered once, and read into again.
            self.assertEqual(file.read_into(whole, 4096, 4096).bytes, 4096)
            self.assertEqual(bytes(whole)[:4096], self.data[4096:8192])

    def test_the_route_is_told_and_copies_are_refused(self):
        buffer = weft.empty(8192)
        with weft.open(self.path) as file:
            if file.block_size == 1:
                self.skipTest("this filesystem has no O_DIRECT")
            self.assertEqual(file.read_into(buffer, 0, 4096).route, "direct")
            odd = file.read_into(buffer, 1, 4096)
            self.assertEqual(odd.route, "staged")
            self.assertIn("whole blocks", odd.reason)
        with weft.open(self.path, strict=True) as file:
            self.assertEqual(file.read_into(buffer, 4096, 4096).route, "direct")
            with self.assertRaisesRegex(OSError, "4096 bytes at 1 of .*multiples of") as caught:
                file.read_into(buffer, 1, 4096)
            self.assertEqual(caught.exception.errno, errno.EINVAL)

    def test_many_ranges_at_once(self):
        choose = random.Random(3)
        extents = [(choose.randrange(self.SIZE - 5000), choose.randrange(1, 5000)) for _ in range(5000)]
        memory = bytearray(sum(length for _, length in extents))
        with weft.open(self.path) as file:
            self.assertEqual(file.gather(memory, extents).bytes, len(memory))
            self.assertEqual(bytes(memory), b"".join(self.data[offset:offset + length] for offset, length in extents))
            self.assertEqual(file.gather(memory, [(0, 10, 100)]).bytes, 10)
            self.assertEqual(bytes(memory[100:110]), self.data[:10])
            self.assertEqual(file.gather(memory, []).bytes, 0)
            # Of any kind of integer and of sequence; without an offset in the memory a range follows the one before.
            for some in ([(Five(), 10), (5, 0), (20, 10)], iter([(5, 10), (20, 10)]), [(5, 10, 0), (20, 10)]):
                self.assertEqual(file.gather(memory, some).bytes, 20)
                self.assertEqual(bytes(memory[:20]), self.data[5:15] + self.data[20:30])
            if file.block_size > 1:
                odd, whole = file.gather(memory, [(1, 10), (7, 20)]), file.gather(weft.empty(8192), [(4096, 4096), (0, 4096)])
                self.assertEqual((odd.route, bool(odd.reason), whole.route), ("staged", True, "direct"))
            with self.assertRaisesRegex(OSError, f"100 bytes at {self.SIZE - 10}"):
                file.gather(memory, [(0, 10), (self.SIZE - 10, 100)])

    def test_registered_memory(self):
        memory = bytearray(8192)
        with weft.open(self.path) as file, file.register(memory) as registered:
            self.assertIn(registered.route, ("direct", "cached", "staged"))
            for offset in (0, 8192, 16384):
                file.read_into(registered, offset)
                self.assertEqual(bytes(memory), self.data[offset:offset + 8192])
            with weft.open(self.path) as other, self.assertRaisesRegex(ValueError, "another target"):
                other.read_into(registered)
        with self.assertRaisesRegex(ValueError, "closed|ended"):
            file.read_into(registered)

    def test_a_kernel_without_room(self):
        """Each try is a millisecond after the one before, however many pieces are in flight."""
        busy, pauses, wait = 0, [], weft._engine.Engine._wait

        def wait_busy(engine, flying):
            nonlocal busy
            ended = wait(engine, flying)
            if busy:
                busy -= 1
                return [(token, -errno.EBUSY, route) for token, _, route in ended]
            return ended
        with weft.open(self.path) as file, unittest.mock.patch("weft._target._PIECE_BYTES", 4096), \
                unittest.mock.patch("weft._engine.Engine._wait", wait_busy), \
                unittest.mock.patch("weft._engine.time.sleep", pauses.append), \
                unittest.mock.patch("weft._engine.BUSY_TRIES", 100):
            for busy in (1, 100):
                pauses.clear()
                wanted, memory = busy, bytearray(self.SIZE)
                self.assertEqual(file.read_into(memory).bytes, self.SIZE)
                self.assertEqual(memory, self.data)
                self.assertEqual(pauses, [0.001] * wanted)
            busy = 1 << 20
            pauses.clear()
            with self.assertRaises(OSError) as raised:
                file.read_into(memory)
            self.assertEqual((raised.exception.errno, len(pauses)), (errno.EBUSY, 100))


class Memory(WeftTest):
    def test_memory_by_dlpack(self):
        """By a capsule that is made here."""
        from weft import _dlpack
        storage = bytearray(4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(storage))
        managed, ended = _dlpack._Managed(), []
        shape = (ctypes.c_int64 * 2)(4, 1024)
        managed.tensor = _dlpack._Tensor(address, 1, 0, 2, 1, 8, 1, shape, None, 0)
        managed.deleter = _dlpack._DELETER(ended.append)

        class Lender:
            def __dlpack__(self):
                new = ctypes.pythonapi.PyCapsule_New
                new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
                return new(ctypes.addressof(managed), b"dltensor", None)
        with weft.open(self.path) as file:
            self.assertEqual(file.read_into(Lender()).bytes, 4096)
            self.assertEqual((bytes(storage), len(ended)), (self.data[:4096], 1))
            managed.tensor.strides = (ctypes.c_int64 * 2)(1, 4)
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                file.read_into(Lender())
            managed.tensor.strides = None
            for bits, lanes in ((4, 1), (6, 2), (1, 7), (0, 1)):
                managed.tensor.bits, managed.tensor.lanes = bits, lanes
                with self.assertRaisesRegex(ValueError, f"elements of {bits * lanes} bits"):
                    file.read_into(Lender())
            managed.tensor.bits, managed.tensor.lanes = 4, 2
            self.assertEqual(file.read_into(Lender()).bytes, 4096)
        self.assertEqual(len(ended), 7)

    def test_a_view_keeps_the_buffer(self):
        with weft.open(self.path) as file:
            view = file.read(0, 4096).view
        gc.collect()
        self.assertEqual(bytes(view), self.data[:4096])
        view[:4] = b"abcd"
        self.assertEqual(bytes(view[:5]), b"abcd" + self.data[4:5])

    def test_a_buffer_lent_by_dlpack(self):
        with weft.open(self.path) as file:
            buffer = file.read(0, 4096)
        self.assertEqual(buffer.__dlpack_device__(), (1, 0))
        try:
            import numpy
        except ImportError:
            with self.assertRaisesRegex(BufferError, "needs numpy"):
                buffer.__dlpack__()
            self.skipTest("the Python module numpy is missing: apt-get install python3-numpy")
        array = numpy.from_dlpack(buffer)
        view = buffer.view
        view[:4] = b"abcd"
        self.assertEqual(array.tobytes(), b"abcd" + self.data[4:4096])
        # The capsule ends unused, and the array keeps the buffer.
        memory = weakref.ref(buffer.memory)
        del view
        buffer.__dlpack__()
        del buffer
        gc.collect()
        self.assertEqual(array[:5].tobytes(), b"abcd" + self.data[4:5])
        self.assertIsNotNone(memory())
        del array
        gc.collect()
        self.assertIsNone(memory(), "the unused capsule keeps the memory")

    def test_what_is_no_memory(self):
        with weft.open(self.path) as file:
            for wrong, kind, text in ((7, TypeError, "int has no memory"), (b"read-only", BufferError, "not writable"),
                                      (memoryview(bytearray(100))[::2], BufferError, "contiguous")):
                with self.assertRaisesRegex(kind, text):
                    file.read_into(wrong)
            self.assertEqual(file.read_into(bytearray()).bytes, 0)


class Pool(WeftTest):
    """Memory for one batch after another."""

    def test_it_comes_back_when_nothing_uses_it(self):
        with weft.open(self.path) as file:
            buffer, view = file.pool.take(5000)
            part = view[4:10]
            other, _ = file.pool.take(5000)
            self.assertNotEqual(buffer.address, other.address)
            del view
            self.assertNotIn(file.pool.take(5000)[0].address, (buffer.address,))
            del part
            again, view = file.pool.take(70)
            self.assertEqual((again.address, len(view), view.readonly), (buffer.address, 70, False))

    def test_what_it_keeps_is_limited(self):
        with weft.open(self.path) as file:
            taken = [file.pool.take(length) for length in [5000] * 9 + [1 << 20]]
            file.gather(taken[0][0], [(0, 100)])
            self.assertEqual(bytes(taken[0][1][:100]), self.data[:100])
            del taken
            self.assertEqual({size: len(free) for size, free in file.pool._free.items()}, {1 << 16: 4, 1 << 20: 1})
            buffer, view = file.pool.take(5 << 20)
            with self.assertRaises(OSError):
                file.gather(buffer, [(self.SIZE - 1, 100)])
            del view
            self.assertEqual(len(file.pool._free[5 << 20]), 0)
            self.assertEqual(len(file.pool.take(0)[1]), 0)

    def test_targets_end_with_their_last_user(self):
        gc.disable()
        try:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(5):
                file = weft.open(self.path)
                buffer, view = file.pool.take(5000)
                file.gather(buffer, [(0, 4096)])
                del file, buffer, view
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        finally:
            gc.enable()


class Writing(WeftTest):
    def test_whole_blocks(self):
        source = os.urandom(8192)
        with weft.open(self.path, "r+") as file:
            self.assertEqual(file.write_from(source, 4096).bytes, 8192)
            file.flush()
            if file.block_size > 1:
                with self.assertRaisesRegex(OSError, "multiples of"):
                    file.write_from(source, 1)
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), self.data[:4096] + source + self.data[12288:])
        with weft.open(self.path) as file, self.assertRaises(OSError):
            file.write_from(source)

    def test_what_was_appended_is_read(self):
        more = os.urandom(8192)
        with weft.open(self.path, "r+") as file:
            end = -(-file.size // file.block_size) * file.block_size
            file.write_from(more, end)
            self.assertEqual(file.size, end + 8192)
            self.assertEqual(bytes(file.read(end)), more)
            self.assertEqual(bytes(file.read()), self.data + bytes(end - self.SIZE) + more)
            self.assertEqual(file.read_into(bytearray(4096), end + 8192).bytes, 0)

    def test_what_another_has_appended_is_read(self):
        more = os.urandom(10000)
        with weft.open(self.path) as file, open(self.path, "ab") as other:
            for wanted in (self.data, self.data + more, self.data + 2 * more):
                memory = bytearray(5000)
                self.assertEqual(file.read_into(memory, len(wanted) - 5000, 5000).bytes, 5000)
                self.assertEqual(memory, wanted[-5000:])
                self.assertEqual(bytes(file.read(len(wanted) - 5000)), wanted[-5000:])
                self.assertEqual(bytes(file.read()), wanted)
                file.gather(memory, [(len(wanted) - 5000, 5000)])
                self.assertEqual(memory, wanted[-5000:])
                self.assertEqual(file.size, len(wanted))
                self.assertEqual(file.read_into(memory, len(wanted)).bytes, 0)
                other.write(more)
                other.flush()
            self.assertEqual(file.read_into(memory, len(wanted)).bytes, 5000)

    def test_a_file_appears_whole(self):
        path = os.path.join(self.folder, "new")
        parts = [os.urandom(length) for length in (10, 5000, 4096, 100000, 1, 3)]
        with weft.create(path, sum(map(len, parts))) as file:
            at = 0
            for part in parts:
                file.write_from(part, at)
                at += len(part)
            self.assertFalse(os.path.exists(path))
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"".join(parts))
        self.assertEqual(sorted(os.listdir(self.folder)), ["data", "new"])
        umask = os.umask(0o27)
        os.umask(umask)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o666 & ~umask)

    def test_or_not_at_all(self):
        path = os.path.join(self.folder, "data")
        with self.assertRaises(KeyError), weft.create(path, 8192) as file:
            file.write_from(bytes(4096))
            raise KeyError("a mistake of the program's")
        with self.assertRaisesRegex(ValueError, "not within a file of 10 bytes"), weft.create(path, 10) as file:
            file.write_from(bytes(11))
        with self.assertRaisesRegex(OSError, f"{1 << 60} bytes for .*/data: "), weft.create(path, 1 << 60):
            pass
        with self.assertRaises(FileNotFoundError):
            weft.create(os.path.join(self.folder, "no", "file"), 1)
        with self.assertRaisesRegex(FileExistsError, "is not a regular file"):
            weft.create(self.folder, 1)
        for wrong in (-1, 1 << 63, 1 << 64):
            with self.assertRaises(ValueError):
                weft.create(path, wrong)
        for use in (weft.open, lambda name: weft.create(name, 1)):
            with self.assertRaisesRegex(ValueError, "zero byte"):
                use(path + "\0x")
        with self.assertRaisesRegex(ValueError, "offset"), weft.create(path, 10) as file:
            file.write_from(bytes(5), -1)
        self.assertEqual(os.listdir(self.folder), ["data"])
        with open(path, "rb") as file:
            self.assertEqual(file.read(), self.data)

    def test_offsets_of_any_integer(self):
        class Five:
            def __index__(self):
                return 5
        path = os.path.join(self.folder, "new")
        with weft.create(path, 10) as file:
            file.write_from(b"world", Five())
            file.write_from(b"hello")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"helloworld")

    def test_a_file_that_another_thread_writes_is_not_whole(self):
        path, began, goes_on, wrote = os.path.join(self.folder, "new"), threading.Event(), threading.Event(), []

        class Slow:
            def write_file(self, *_):
                began.set()
                goes_on.wait(60)
                wrote.append(True)
        file = weft.create(path, 10)
        with unittest.mock.patch("weft._writer.engine", lambda gpu: Slow()):
            thread = threading.Thread(target=file.write_from, args=(bytes(10),))
            thread.start()
            self.assertTrue(began.wait(60))
            with self.assertRaisesRegex(ValueError, "another thread"):
                file.finish()
            goes_on.set()
            thread.join()
        self.assertEqual((wrote, os.listdir(self.folder)), ([True], ["data"]))


class Sharing(WeftTest):
    def test_threads(self):
        wrong = []

        def work(seed):
            choose = random.Random(seed)
            memory = bytearray(50000)
            try:
                for _ in range(20):
                    offset = choose.randrange(self.SIZE - len(memory))
                    file.read_into(memory, offset)
                    if bytes(memory) != self.data[offset:offset + len(memory)]:
                        wrong.append(offset)
            except BaseException as error:
                wrong.append(error)
        with weft.open(self.path) as file:
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def test_a_child_goes_on_with_its_parents_file(self):
        with weft.open(self.path) as file:
            buffer = weft.empty(4096)
            file.read_into(buffer)
            memory = bytearray(4096)
            registered = file.register(memory)
            child = os.fork()
            if not child:
                status = 1
                try:
                    file.read_into(buffer, 4096)
                    status = 2 if bytes(buffer) != self.data[4096:8192] else 0
                    try:
                        file.read_into(registered)
                        status = 3
                    except OSError as refusal:
                        status = status or (0 if refusal.errno == errno.ECHILD else 4)
                finally:
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            file.read_into(buffer, 8192)
            self.assertEqual(bytes(buffer), self.data[8192:12288])
            registered.end()


class Signals(WeftTest):
    def test_an_interrupted_creation_leaves_nothing(self):
        def interrupt(*_):
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, interrupt)
        interrupted, memory = 0, bytearray(8192)
        try:
            for turn in range(200):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + turn * 5e-6)
                    with weft.create(os.path.join(self.folder, "new"), 1 << 20) as file:
                        file.write_from(b"abc")
                        file.abandon()
                        file = weft.open(self.path)
                        for _ in range(50):
                            file.register(memory)
                        time.sleep(0.01)
                except KeyboardInterrupt:
                    interrupted += 1
                except ValueError:
                    pass
                file = None
                # It can grow: all have given it back.
                memory.append(0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        gc.collect()
        self.assertGreater(interrupted, 100)
        self.assertEqual(os.listdir(self.folder), ["data"])
        links = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
                 if os.path.islink(f"/proc/self/fd/{number}")]
        self.assertEqual([link for link in links if self.folder in link or "new" in link], [])

    def test_a_handler_that_reads_as_well(self):
        """While the thread is in a call."""
        inner = []

        def handler(*_):
            memory = bytearray(10000)
            file.read_into(memory, 12345)
            inner.append(bytes(memory) == self.data[12345:22345])
            # Not while this runs: on a slow machine nothing else would.
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        before = signal.signal(signal.SIGALRM, handler)
        memory = bytearray(self.SIZE)
        try:
            with weft.open(self.path) as file:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                for _ in range(30):
                    self.assertEqual(file.read_into(memory).bytes, self.SIZE)
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(bytes(memory), self.data)
        self.assertTrue(inner and all(inner))

    def test_what_another_thread_closes(self):
        """Its I/O comes to its end, with the right bytes, and the next one is refused."""
        # So that an I/O uses what was closed many times.
        small = unittest.mock.patch.object(weft._target, "_PIECE_BYTES", 4096)
        small.start()
        self.addCleanup(small.stop)
        for number in range(20):
            file, memory, started, ended = weft.open(self.path), bytearray(self.SIZE), threading.Event(), []
            registration = file.register(memory)

            def read(file=file, registration=registration, started=started, ended=ended):
                try:
                    while True:
                        started.set()
                        self.assertEqual(file.read_into(registration).bytes, self.SIZE)
                except ValueError as problem:
                    ended.append(str(problem))
            thread = threading.Thread(target=read)
            thread.start()
            started.wait()
            time.sleep(number * 0.001)
            if number % 2:
                registration.end()
            file.close()
            thread.join()
            self.assertRegex(ended[0], "has ended|is closed")
            registration.end()
            del thread, read, registration
            # Nothing has the memory any more.
            memory.append(1)

    def test_an_exception_leaves_nothing_in_flight(self):
        def handler(*_):
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, handler)
        buffer, caught = weft.empty(self.SIZE), 0
        try:
            with weft.open(self.path) as file:
                for number in range(100):
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0.0001 + number * 0.00002)
                        file.read_into(buffer)
                        signal.setitimer(signal.ITIMER_REAL, 0)
                    except KeyboardInterrupt:
                        caught += 1
                    self.assertEqual(weft._engine.engine()._done, {})
                self.assertEqual(file.read_into(buffer).bytes, self.SIZE)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(bytes(buffer), self.data)
        self.assertTrue(caught)


def _refuse_io_uring(number):
    """io_uring_setup fails with this error from now on in this process. False: this kernel has no filters."""
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD_W_ABS, BPF_JEQ_K, BPF_RET_K
    program = b"".join(struct.pack("=HBBI", *one) for one in (
        (load, 0, 0, 0), (equal, 0, 1, 425), (give, 0, 0, 0x00050000 | number), (give, 0, 0, 0x7fff0000)))
    code = ctypes.create_string_buffer(program)
    filters = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.addressof(filters), 0, 0)):  # no new privileges, a filter
        if libc.prctl(*map(ctypes.c_ulong, arguments)):
            if ctypes.get_errno() == errno.EINVAL:
                return False
            raise OSError(ctypes.get_errno(), "prctl")
    return True


class Errors(WeftTest):
    def test_what_cannot_be_opened(self):
        with self.assertRaisesRegex(FileNotFoundError, "/dev/weft/no-such-volume"):
            weft.open("no-such-volume")
        with self.assertRaisesRegex(ValueError, "neither 'r' nor"):
            weft.open(self.path, "w")
        with self.assertRaises(PermissionError if os.geteuid() else OSError):
            weft.open("/proc/self/mem/x")

    def test_what_is_closed(self):
        file = weft.open(self.path)
        file.close()
        file.close()
        for use in (lambda: file.read_into(bytearray(10)), lambda: file.read(0, 10), lambda: file.write_from(bytes(10)),
                    lambda: file.gather(bytearray(10), [(0, 10)]), file.flush):
            with self.assertRaisesRegex(ValueError, "is closed"):
                use()
        for end in ("finish", "abandon"):
            new = weft.create(os.path.join(self.folder, end), 10)
            getattr(new, end)()
            with self.assertRaisesRegex(ValueError, f"{end} is closed"):
                new.write_from(bytes(10))
        self.assertEqual(sorted(os.listdir(self.folder)), ["data", "finish"])

    def test_a_seccomp_filter_that_refuses_io_uring(self):
        """As that of a container. EPERM, or as if the kernel did not have it."""
        def use():
            for wanted in (lambda: weft.open(self.path).read(0, 10), self._write):
                try:
                    wanted()
                    return 1
                except OSError as wrong:
                    if "a seccomp filter, such as that of a container" not in str(wrong):
                        return 2
            return 0 if os.listdir(self.folder) == ["data"] else 3
        for number in (errno.EPERM, errno.ENOSYS):
            child = os.fork()
            if not child:
                status = 4
                try:
                    status = use() if _refuse_io_uring(number) else 5
                finally:
                    os._exit(status)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status == 5:
                self.skipTest("this kernel has no seccomp filters")
            self.assertEqual(status, 0)

    def _write(self):
        with weft.create(os.path.join(self.folder, "new"), 8192) as file:
            file.write_from(bytes(8192))

    def test_ranges_that_are_none(self):
        memory = bytearray(100)
        with weft.open(self.path) as file:
            for arguments in ((-1,), (0, -1), (0, 101), (0, 50, 51), (1 << 64,)):
                with self.assertRaises(ValueError):
                    file.read_into(memory, *arguments)
            for extents in ([(0, 101)], [(0, 50), (0, 51)], [(0, 10, 91)], [(0, 5 << 30)]):
                with self.assertRaises(ValueError):
                    file.gather(memory, extents)
            for extents in ([(1 << 63, 1)], [(-1, 1)], [(0, -1)], [(0, 1, -1)], [(0, 1 << 63)], [(1 << 70, 1)]):
                with self.subTest(extents), self.assertRaisesRegex(ValueError, "cannot be an offset or a length"):
                    file.gather(memory, extents)
            for extents in ([(1.5, 1)], [(None, 1)], [(0, 1.5)]):
                with self.subTest(extents), self.assertRaises(TypeError):
                    file.gather(memory, extents)
            with self.assertRaises(ValueError):
                file.gather(bytearray(), [(0, 10)])
            with self.assertRaises(TypeError):
                file.read_into(memory, 1.5)
            self.assertEqual(file.read_into(memory, self.SIZE + 5).bytes, 0)
            self.assertEqual(file.read_into(memory, self.SIZE - 5).bytes, 5)

    def test_large_pages(self):
        """They are asked for where some of them fit."""
        if not os.path.exists("/sys/kernel/mm/transparent_hugepage"):
            self.skipTest("this kernel has no large pages")
        for size, wanted in ((8 << 20, True), (3 << 20, False)):
            with mmap.mmap(-1, size) as memory:
                here = ctypes.c_char.from_buffer(memory)
                address = ctypes.addressof(here)
                weft._memory.ask_for_large_pages(address + 1, size - 1)
                with open("/proc/self/smaps", encoding="ascii") as maps:
                    flags = next(part for part in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", maps.read())
                                 if int(part.split("-")[0], 16) <= address + 4096 < int(re.split("[- ]", part)[1], 16))
                self.assertEqual(" hg" in flags.split("VmFlags:")[1], wanted)
                del here

    def test_a_file_that_became_shorter(self):
        with weft.open(self.path) as file:
            os.truncate(self.path, 4096)
            memory = bytearray(16384)
            self.assertEqual(file.read_into(memory).bytes, 4096)
            with self.assertRaisesRegex(OSError, "before its size"):
                file.read(0, 8192)
            with self.assertRaises(OSError):
                file.gather(memory, [(8192, 10)])


if __name__ == "__main__":
    assert ctypes.sizeof(weft._library.Io) == 48
    unittest.main()
