# SPDX-License-Identifier: GPL-2.0-only
"""weft.pack and weft-pack: the file, damage, interruptions, sources, the order of an epoch."""
import contextlib
import errno
import fcntl
import io
import itertools
import json
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

try:
    import numpy
except ModuleNotFoundError:
    raise unittest.SkipTest("numpy is missing: apt-get install python3-numpy") from None

import sparse_index

import weft.pack
from weft.pack import Order, Pack, PackError, Sampler, Writer, _format, _volume, sources
from weft.pack.__main__ import main


def unsealed(folder):
    """Files of a folder may be removed again."""
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                file = os.open(os.path.join(path, name), os.O_RDONLY | os.O_NONBLOCK)
                _volume.seal(file, False)
                os.close(file)


class PackTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER", "."))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(unsealed, self.folder)
        self.choose = random.Random(1)
        self.file = self.path("data.weft")
        # Hundreds of datasets are made here, and no power is cut.
        for name in ("fsync", "fdatasync"):
            self.addCleanup(setattr, os, name, getattr(os, name))
            setattr(os, name, lambda _file: None)

    def path(self, name):
        return os.path.join(self.folder, name)

    def samples(self, count, lengths):
        return [self.choose.randbytes(self.choose.choice(lengths)) for _ in range(count)]

    def made(self, samples, **options):
        return weft.pack.pack(samples, self.file, seal=False, replace=True, **options)

    def command(self, *arguments):
        """Exit status, standard output and standard error of weft-pack."""
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            try:
                status = main(arguments)
            except SystemExit as ended:
                status = ended.code
        return status, out.getvalue(), error.getvalue()


LENGTHS = {"mixed": [0, 1, 10, 700, 4095, 4096, 4097, 20000, 300000], "small": [0, 1, 17, 900, 4095],
           "large": [4096, 5000, 70000], "same small": [700], "same odd": [4097], "same block": [8192], "same none": [0]}


class RoundTrip(PackTest):
    def test_every_sample_comes_back(self):
        for name, lengths in LENGTHS.items():
            for options in ({}, {"cell": 64 << 10, "align": 512}, {"cell": 1 << 20, "align": 65536, "sums": False}):
                with self.subTest(name, **options):
                    samples = self.samples(600, lengths)
                    made = self.made(samples, **options)
                    self.assertEqual((made.samples, made.bytes), (600, os.path.getsize(self.file)))
                    with Pack(self.file, cache=1 << 20) as pack:
                        self.assertEqual(len(pack), 600)
                        order = self.choose.sample(range(600), 600)
                        self.assertEqual([bytes(one) for one in pack.read_many(order)], [samples[one] for one in order])
                        self.assertEqual([bytes(one) for _, one in pack.scan()], samples)
                        self.assertEqual((pack[-1], pack[0]), (samples[-1], samples[0]))
                        self.assertEqual(list(pack.problems()), [])
                    with Pack(self.file, verify=False) as pack:
                        self.assertEqual([bytes(one) for one in pack.read_many(order)], [samples[one] for one in order])

    def test_the_places_that_the_format_promises(self):
        samples = self.samples(2000, LENGTHS["mixed"])
        self.made(samples)
        with open(self.file, "rb") as file:
            raw = file.read()
        with Pack(self.file) as pack:
            header = pack.header
            offsets, lengths, _ = pack.places(numpy.arange(2000))
            self.assertEqual(pack.read_many([]), [])
        for sample, offset, length in zip(samples, offsets.tolist(), lengths.tolist()):
            at = header.data_offset + offset
            self.assertEqual(raw[at:at + length], sample)
            if length >= header.align:
                self.assertEqual(at % header.align, 0)
            elif length:
                self.assertEqual(offset // header.cell_bytes, (offset + length - 1) // header.cell_bytes, "it shares one cell")
        self.assertEqual(header.index_pages, -(-2000 // 448))

    def test_the_size_of_the_index(self):
        self.made(self.samples(5000, LENGTHS["large"]), sums=False)
        with Pack(self.file) as pack:
            # 8 bytes for 64 samples and 4 for each, in pages with checksums.
            self.assertLess(pack.header.index_pages * 4096 / 5000, 4.3 + 1)
            self.assertEqual(pack.header.index_pages, -(-5000 // 960))
        for lengths in ("same small", "same block"):
            self.made(self.samples(5000, LENGTHS[lengths]), sums=False)
            with Pack(self.file) as pack:
                self.assertEqual((pack.header.index_kind, pack.header.index_pages), (0, 0))

    def test_checksums_of_a_large_index(self):
        """They are read from the index each time; those of a small one stay in memory, once."""
        samples = self.samples(2100, LENGTHS["same block"])
        self.made(samples)
        for most in (0, 16 << 20):
            with unittest.mock.patch.object(weft.pack._reader, "_INDEX_CACHE_BYTES", most), Pack(self.file) as pack:
                order = self.choose.sample(range(2100), 2100)
                self.assertEqual([bytes(one) for one in pack.read_many(order)], [samples[one] for one in order])
                self.assertEqual(pack.read_many([]), [])
                self.assertEqual(len(pack._pages._pieces), 0)
                self.assertEqual(list(pack.problems()), [])

    def test_parts(self):
        samples = [{"jpg": self.choose.randbytes(self.choose.randrange(9000)), "cls": b"%d" % number,
                    **({"json": b"{}"} if number % 3 else {})} for number in range(500)]
        self.made(samples, attributes={"from": "a test"})
        with Pack(self.file) as pack:
            self.assertEqual([pack[number] for number in range(500)], samples)
            self.assertEqual((pack.attributes, sorted(pack.names)), ({"from": "a test"}, ["cls", "jpg", "json"]))

    def test_empty(self):
        self.made([])
        with Pack(self.file) as pack:
            self.assertEqual((len(pack), list(pack.scan()), list(pack.problems())), (0, [], []))
            with self.assertRaisesRegex(IndexError, "sample 0 of 0"):
                pack[0]

    def test_what_is_no_sample(self):
        for samples in ([b"", {}], [{}, b""], ["text"], [1], [{"a": 1}], [None, b"x"], [b"x", None], [{}, None]):
            with self.subTest(samples), self.assertRaises(TypeError):
                self.made(samples, restart=True)
        with self.assertRaisesRegex(ValueError, "sample 1 has two parts"):
            self.made([{"1": b"a", "2": b"b"}, {"1": b"a", 1: b"b"}], restart=True)
        for wrong in ({"cell": 32768}, {"cell": 100000}, {"cell": 2 << 20}, {"align": 256}, {"align": 131072}):
            with self.assertRaisesRegex(ValueError, "power of two"):
                Writer(self.path("none"), **wrong)
        self.made([b"x"], restart=True)
        with Pack(self.file) as pack:
            for wrong in (1, -2):
                with self.assertRaises(IndexError):
                    pack[wrong]

    def test_a_name_that_is_taken(self):
        weft.pack.pack([b"a"], self.file)
        with self.assertRaisesRegex(FileExistsError, "--force"):
            weft.pack.pack([b"b"], self.file)
        weft.pack.pack([b"c"], self.file, replace=True)
        with Pack(self.file) as pack:
            self.assertEqual(pack[0], b"c")
        self.assertEqual(os.listdir(self.folder), ["data.weft"])

    def test_a_name_that_no_file_has(self):
        """Only a regular file is replaced: no device, pipe or folder, also not by a link's name."""
        taken = self.path("taken")
        for take in (os.mkfifo, os.mkdir, lambda name: os.symlink("/dev/null", name)):
            take(taken)
            for replace in (True, False):
                with self.assertRaisesRegex(FileExistsError, "taken is not a regular file"):
                    Writer(taken, replace=replace)
            writer = Writer(self.file, replace=True)
            os.rename(taken, self.file)
            with self.assertRaisesRegex(FileExistsError, "data.weft is not a regular file"):
                writer.finish()
            writer.abandon()
            self.assertEqual(os.listdir(self.folder), ["data.weft"])
            self.assertFalse(os.path.isfile(self.file))
            os.rename(self.file, self.path("gone"))
            (os.rmdir if take == os.mkdir else os.unlink)(self.path("gone"))

    def test_a_link_is_replaced_itself(self):
        os.symlink("nowhere", self.file)
        weft.pack.pack([b"a"], self.file, replace=True, seal=False)
        os.rename(self.file, self.path("other"))
        os.symlink("other", self.file)
        with unittest.mock.patch("weft.pack._writer._unseal") as unseal:
            weft.pack.pack([b"b"], self.file, replace=True, seal=False)
        unseal.assert_not_called()
        for name, sample in (("other", b"a"), ("data.weft", b"b")):
            self.assertFalse(os.path.islink(self.path(name)))
            with Pack(self.path(name)) as pack:
                self.assertEqual(pack[0], sample)

    def test_a_fork_reads_for_itself(self):
        samples = self.samples(300, LENGTHS["mixed"])
        self.made(samples)
        pack = Pack(self.file)
        self.assertEqual(pack[5], samples[5])
        child = os.fork()
        if not child:
            os._exit([bytes(one) for one in pack.read_many(range(300))] != samples)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(pack[7], samples[7])

    def test_a_process_that_is_spawned_reads_for_itself(self):
        samples = self.samples(300, LENGTHS["mixed"])
        self.made(samples)
        with Pack(self.file) as pack:
            self.assertEqual(pack[5], samples[5])
            with pickle.loads(pickle.dumps(pack)) as copy:
                self.assertEqual(copy.places(numpy.array([5]))[1].tolist(), [len(samples[5])])
            with pickle.loads(pickle.dumps(pack)) as copy:
                self.assertEqual(list(copy.problems()), [])
            with pickle.loads(pickle.dumps(pack)) as copy:
                self.assertEqual([bytes(one) for one in copy.read_many(range(300))], samples)
            os.utime(self.file, (1, 1))
            with self.assertRaisesRegex(PackError, "changed since it was opened"):
                pickle.loads(pickle.dumps(pack))[5]


class Indices(PackTest):
    def test_what_is_no_index(self):
        self.made(self.samples(10, [700]))
        with Pack(self.file) as pack:
            for wrong in ([1.7], ["3"], [True], numpy.array([1.0]), numpy.array([True])):
                with self.subTest(wrong), self.assertRaises(TypeError):
                    pack.read_many(wrong)
            for wrong in ([10], numpy.array([(1 << 64) - 1], numpy.uint64), [-11], [1 << 64], [1 << 63, -1], [-(1 << 70)]):
                with self.subTest(wrong), self.assertRaises(IndexError):
                    pack.read_many(wrong)
            self.assertEqual(pack.read_many([]), [])
            self.assertEqual(bytes(pack.read_many(numpy.array([9], numpy.uint8))[0]), pack[9])

    def test_narrow_types(self):
        samples = self.samples(70000, [1])
        self.made(samples)
        with Pack(self.file) as pack:
            for kind in (numpy.uint8, numpy.int8, numpy.uint16, numpy.int16, numpy.uint32, numpy.uint64):
                with self.subTest(kind):
                    self.assertEqual([bytes(one) for one in pack.read_many(numpy.array([9, 100], kind))],
                                     [samples[9], samples[100]])

    def test_samples_that_are_whole_blocks(self):
        samples = self.samples(40, LENGTHS["same block"])
        self.made(samples)
        frozen = numpy.array([3, 39])
        frozen.flags.writeable = False
        with Pack(self.file) as pack:
            for indices in (numpy.arange(40)[::-2], frozen, numpy.array([39, 0], numpy.uint8), range(3, 9), [-1, 0]):
                self.assertEqual([bytes(one) for one in pack.read_many(indices)], [samples[one] for one in indices])


class Damage(PackTest):
    """Each damaged file gives a PackError, or an OSError of its device, and never other data."""

    def setUp(self):
        super().setUp()
        self.all = {}
        for name, options in (("mixed", {}), ("same block", {}), ("large", {"sums": False}), ("same small", {})):
            samples = self.samples(700, [length for length in LENGTHS[name] if length < 100000])
            self.made(samples, **options)
            with open(self.file, "rb") as file:
                raw = file.read()
            with Pack(self.file) as pack:
                self.all[name] = samples, raw, pack.header

    def read(self, samples):
        """Whether the file is refused; if it is not, each sample of it is right."""
        try:
            with Pack(self.file) as pack:
                for first in range(0, len(samples), 100):
                    got = pack.read_many(range(first, min(first + 100, len(pack))))
                    self.assertEqual([bytes(one) for one in got], samples[first:first + 100])
                return list(pack.problems())
        except PackError as wrong:
            self.assertIn("data.weft: ", str(wrong))
            return [str(wrong)]

    def write(self, raw):
        with open(self.file, "wb") as file:
            file.write(raw)

    def test_flipped_bits(self):
        for name, (samples, raw, header) in self.all.items():
            index, cells, text = header.index_offset, header.cells_offset, header.text_offset
            regions = {"header": (0, 4096), "data": (header.data_offset, header.data_offset + header.data_bytes),
                       "index": (index, cells), "cells": (cells, text), "text": (text, text + header.text_bytes)}
            for region, (begin, end) in regions.items():
                for _ in range(6 if end > begin else 0):
                    at, bit = self.choose.randrange(begin, end), 1 << self.choose.randrange(8)
                    with self.subTest(name, region=region, at=at, bit=bit):
                        changed = bytearray(raw)
                        changed[at] ^= bit
                        self.write(changed)
                        self.assertTrue(self.read(samples))

    def test_which_sample_is_damaged(self):
        samples, raw, header = self.all["same block"]
        changed = bytearray(raw)
        at = header.data_offset + 5 * 8192
        changed[at + 17] ^= 1
        self.write(changed)
        with Pack(self.file) as pack:
            with self.assertRaisesRegex(PackError, f"sample 5, at byte {at}, is damaged"):
                pack.read_many([9, 5, 3])
            self.assertEqual(pack[4], samples[4])
        # A page of the index is refused each time.
        samples = self.samples(2100, LENGTHS["same block"])
        self.made(samples)
        with Pack(self.file) as pack:
            page = pack.header.index_offset + 4096
        with open(self.file, "r+b") as file:
            file.seek(page)
            file.write(b"x")
        with Pack(self.file) as pack:
            self.assertEqual(pack[0], samples[0])
            for _ in range(2):
                with self.assertRaisesRegex(PackError, "index is damaged: page 1"):
                    pack.read_many([0, 1500])
            self.assertEqual(pack[0], samples[0])

    def test_truncated_anywhere_and_extended(self):
        for name, (samples, raw, header) in self.all.items():
            ends = [0, 1, 4095, 4096, header.data_offset, header.index_offset, header.cells_offset, header.text_offset,
                    len(raw) - 1, *self.choose.sample(range(len(raw)), 6)]
            for end in ends:
                with self.subTest(name, end=end):
                    self.write(raw[:end])
                    with self.assertRaisesRegex(PackError, "truncated|not a packed dataset"):
                        Pack(self.file)
            self.write(raw + b"x")
            with self.assertRaisesRegex(PackError, "appended"):
                Pack(self.file)

    def test_pages_at_another_place(self):
        samples, raw, header = self.all["mixed"]
        one, two = header.index_offset, header.index_offset + 4096
        self.write(raw[:one] + raw[two:two + 4096] + raw[one:one + 4096] + raw[two + 4096:])
        with Pack(self.file) as pack, self.assertRaisesRegex(PackError, "another page"):
            pack[0]
        self.assertTrue(self.read(samples))
        # The page of another dataset.
        self.write(raw[:one] + self.all["mixed"][1][one:two] + raw[two:])
        self.made(samples)
        with open(self.file, "r+b") as file:
            file.seek(one)
            file.write(raw[one:two])
        with Pack(self.file) as pack, self.assertRaisesRegex(PackError, "index is damaged: page 0, at byte"):
            pack[0]

    def test_a_hostile_header(self):
        """All checksums are right, and the numbers are not."""
        samples, raw, header = self.all["mixed"]
        for field in header._fields:
            if field in ("magic", "uuid", "created", "payload_bytes", "volume_uuid", "volume_generation", "compatible"):
                continue
            top = 1 << (32 if field in ("version", "header_bytes", "incompatible", "fixed_bytes", "cell_bytes", "align",
                                        "index_kind", "text_check", "reserved") else 64)
            for value in (0, 1, 4096, (1 << 20) + 1, top // 2, top - 4096, top - 1):
                if value == getattr(header, field):
                    continue
                with self.subTest(field=field, value=value):
                    self.write(header._replace(**{field: value}).pack() + raw[4096:])
                    begun = time.process_time()
                    # A longest sample that is longer than any is no contradiction; a name that nobody uses is not, either.
                    self.assertTrue(self.read(samples) or field in ("longest", "incompatible"))
                    # No count of the header makes it read for long.
                    self.assertLess(time.process_time() - begun, 30)

    def test_a_hostile_index(self):
        _, raw, header = self.all["mixed"]
        for field, value in (("base", (1 << 64) - 4096), ("base", header.data_bytes), ("base", 1 << 63),
                             ("length", (1 << 32) - 1), ("length", header.longest), ("length", 0)):
            pages = numpy.frombuffer(raw[header.index_offset:header.cells_offset], _format.PAGES[header.index_kind]).copy()
            pages[field][0] = value
            _format.seal_pages(pages, header.index_kind, header.uuid, 0)
            self.write(raw[:header.index_offset] + pages.tobytes() + raw[header.cells_offset:])
            with self.subTest(field=field, value=value), Pack(self.file) as pack:
                # Who can forge checksums can forge samples. Reading ends with a reason, and the whole does not add up.
                with contextlib.suppress(PackError):
                    pack.read_many(range(100))
                self.assertTrue(list(pack.problems()))

    def test_hostile_parts(self):
        names = ["a"]
        for data in (b"", b"\1\0\0", struct.pack("<I", 1 << 31), struct.pack("<III", 1, 1, 0), struct.pack("<III", 1, 0, 1),
                     struct.pack("<IIIII", 2, 0, 0, 0, 0), struct.pack("<III", 1, 0, 0) + b"x"):
            with self.subTest(data), self.assertRaisesRegex(PackError, "sample 3 is not valid"):
                _format.decode_parts(data, names, "file", 3)
        for text in (b"", b"[]", b"{}", b'{"names": 1, "attributes": {}}', b'{"names": [1], "attributes": {}}', b"[" * 100000):
            header = self.all["mixed"][2]._replace(text_check=weft.pack._format.crc32c(text))
            with self.subTest(text[:50]), self.assertRaisesRegex(PackError, "not valid"):
                _format.parse_text(text, header, "file")

    def test_a_file_that_changes_in_an_epoch(self):
        samples, raw, header = self.all["mixed"]

        def appended():
            with open(self.file, "ab") as file:
                file.write(b"x")

        def written():
            with open(self.file, "r+b") as file:
                file.seek(header.data_offset)
                file.write(b"other")

        def truncated():
            os.truncate(self.file, header.data_offset)

        def replaced():
            os.rename(self.file, self.file + ".old")
            self.write(raw)

        for change, what in ((appended, "size"), (written, "time of the last"), (truncated, "size"),
                             (replaced, "file of this name"), (lambda: os.unlink(self.file), "it is gone")):
            self.write(raw)
            time.sleep(0.02)
            with self.subTest(what), Pack(self.file) as pack:
                self.assertEqual(pack[1], samples[1])
                change()
                with self.assertRaisesRegex(PackError, what):
                    for number in range(700):
                        pack[number]

    def test_what_verify_says(self):
        samples, raw, header = self.all["mixed"]
        changed = bytearray(raw)
        changed[header.data_offset + header.data_bytes // 2] ^= 1
        self.write(changed)
        status, _, error = self.command("verify", self.file)
        self.assertEqual(status, 1)
        self.assertRegex(error, r"data.weft: cell \d+, at byte \d+, is damaged")
        self.write(raw)
        status, out, _ = self.command("verify", self.file)
        self.assertEqual((status, out), (0, f"{self.file}: 700 samples in {header.cells} cells: no problem was found\n"))


class Binding(PackTest):
    def setUp(self):
        super().setUp()
        self.volume = None
        for module in (weft.pack._writer, weft.pack._reader):
            self.addCleanup(setattr, module, "volume_of", module.volume_of)
            module.volume_of = lambda _file: self.volume

    def test_another_volume(self):
        self.volume = _volume.Volume("data", b"a" * 16, 7)
        self.assertEqual(self.made([b"x"]).volume, "data")
        with Pack(self.file) as pack:
            self.assertEqual(pack.info()["volume_uuid"], "61616161-6161-6161-6161-616161616161")
        self.volume = _volume.Volume("data", b"a" * 16, 9)
        Pack(self.file).close()
        for volume, reason in ((_volume.Volume("other", b"b" * 16, 7), "is on other"), (None, "is on none here"),
                               (_volume.Volume("data", b"a" * 16, 6), "older copy")):
            self.volume = volume
            with self.assertRaisesRegex(PackError, reason):
                Pack(self.file)
            Pack(self.file, bound=False).close()
        self.volume = _volume.Volume("other", b"b" * 16, 7)
        self.assertEqual(weft.pack.seal(self.file).volume, "other")
        Pack(self.file).close()
        self.volume = None
        self.assertEqual(self.command("seal", "--unbind", self.file)[0], 0)
        Pack(self.file).close()

    @unittest.skipIf(os.geteuid(), "only root may seal files")
    def test_sealed(self):
        made = weft.pack.pack([b"x"], self.file)
        if not made.sealed:
            self.assertIn("cannot seal", made.reason)
            self.skipTest(made.reason)
        with self.assertRaises(PermissionError):
            open(self.file, "r+b").close()
        with Pack(self.file) as pack:
            self.assertTrue(pack.info()["sealed"])


class Interrupted(PackTest):
    def test_after_it_has_its_name(self):
        writer = Writer(self.file)
        writer.add(b"one")
        # As after a power cut: its folder stays.
        with unittest.mock.patch("weft.pack._writer.seal_file", side_effect=OSError(errno.EIO, "no disk")), \
                unittest.mock.patch("weft.pack._writer.shutil.rmtree"), self.assertRaisesRegex(OSError, "no disk"):
            writer.finish()
        with Pack(self.file) as opened:
            self.assertEqual(len(opened), 1)
        weft.pack.pack([b"a", b"b"], self.file, seal=False, replace=True)
        with Pack(self.file) as opened:
            self.assertEqual(len(opened), 2)

    def test_killed_and_gone_on_with(self):
        """A process is killed at its n-th change of a file, many times; the dataset is that of an undisturbed one."""
        program = """
import os, random, signal, sys, weft.pack
from weft.pack import _writer
_writer._CHECKPOINT_BYTES, _writer._FLUSH_BYTES = 1 << 20, 1 << 18
left = [int(sys.argv[2])]
def dying(real):
    def call(*arguments):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)
    return call
for name in ("pwrite", "replace", "ftruncate", "fdatasync", "fsync"):
    setattr(os, name, dying(getattr(os, name)))
choose = random.Random(7)
weft.pack.pack((choose.randbytes(choose.choice([10, 700, 4096, 5000])) for _ in range(4000)), sys.argv[1], seal=False)
"""
        stops, killed = [1, 5, *self.choose.sample(range(6, 160), 10), 1000000], 0
        for stop in stops:
            done = subprocess.run([sys.executable, "-B", "-c", program, self.file, str(stop)], check=False)
            killed += done.returncode == -signal.SIGKILL
            if not done.returncode:
                break
            self.assertFalse(os.path.exists(self.file))
        self.assertEqual(done.returncode, 0)
        self.assertGreaterEqual(killed, 3)
        choose = random.Random(7)
        wanted = [choose.randbytes(choose.choice([10, 700, 4096, 5000])) for _ in range(4000)]
        with Pack(self.file) as pack:
            self.assertEqual([bytes(one) for _, one in pack.scan()], wanted)
            self.assertEqual(list(pack.problems()), [])
        self.assertEqual(os.listdir(self.folder), ["data.weft"])

    def test_what_is_durable_before_what(self):
        calls = []

        def recorded(name, real=None):
            def call(*arguments):
                where = arguments[-1] if name == "replace" else os.readlink(f"/proc/self/fd/{arguments[0]}")
                calls.append((name, os.path.basename(where)))
                return real(*arguments) if real else None
            return call
        for name in ("fsync", "fdatasync"):
            setattr(os, name, recorded(name))
        self.addCleanup(setattr, os, "replace", os.replace)
        os.replace = recorded("replace", os.replace)
        self.made([b"x"] * 100)
        work, folder = ".data.weft.partial", os.path.basename(self.folder)
        self.assertEqual(calls, [("fdatasync", "data"), *[("fdatasync", name) for name in ("bases", "lengths", "sums", "cells")],
                                 ("fsync", "journal.new"), ("replace", "journal"), ("fsync", work),
                                 # All but the header, the header, the name.
                                 ("fsync", "data"), ("fsync", "data"), ("replace", "data.weft"), ("fsync", folder)])

    def failing(self, samples, after):
        yield from samples[:after]
        raise RuntimeError("the source fails")

    def test_a_source_that_fails(self):
        samples = self.samples(300, LENGTHS["mixed"])
        for after in (0, 1, 64, 200):
            with self.assertRaisesRegex(RuntimeError, "the source fails"):
                weft.pack.pack(self.failing(samples, after), self.file, seal=False)
            self.assertFalse(os.path.exists(self.file))
        with self.assertRaisesRegex(PackError, "gives only 100"):
            weft.pack.pack(samples[:100], self.file)
        with self.assertRaisesRegex(PackError, "give the same, or --restart"):
            weft.pack.pack(samples, self.file, cell=1 << 20)
        with Writer(self.file, seal=False) as writer:
            self.assertEqual(writer.count, 200)
            with self.assertRaisesRegex(PackError, "another process"):
                Writer(self.file)
            for sample in samples[200:]:
                writer.add(sample)
        with Pack(self.file) as pack:
            self.assertEqual([bytes(one) for _, one in pack.scan()], samples)

    def test_a_writer_that_ends_while_another_begins(self):
        """The lock that the other one then gets is of a folder that is gone."""
        work, real = self.path(".data.weft.partial"), fcntl.flock

        def late(file, how):
            real(file, how)
            shutil.rmtree(work)

        with unittest.mock.patch("fcntl.flock", late), self.assertRaisesRegex(PackError, "has just made it: try again"):
            Writer(self.file)
        weft.pack.pack([b"x"], self.file, seal=False)
        self.assertEqual(sorted(os.listdir(self.folder)), ["data.weft"])

    def test_a_damaged_journal(self):
        with self.assertRaises(RuntimeError):
            weft.pack.pack(self.failing([b"x"] * 10, 10), self.file)
        journal = self.path(".data.weft.partial/journal")
        with open(journal, "r+b") as file:
            file.seek(20)
            file.write(b"#")
        with self.assertRaisesRegex(PackError, "journal .* is damaged; --restart"):
            Writer(self.file)
        weft.pack.pack([b"y"], self.file, restart=True, seal=False)
        with Pack(self.file) as pack:
            self.assertEqual(pack[0], b"y")

    def test_a_full_filesystem(self):
        """By a limit on the size of files: the error is that of a full volume but for its number."""
        samples = self.samples(3000, [700, 5000])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGXFSZ, signal.SIG_DFL)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The first limit is met in the data, the second one in what is behind it.
        self.made(samples)
        with Pack(self.file) as pack:
            end = pack.header.data_offset + pack.header.data_bytes + 100
        os.unlink(self.file)
        for limit in (6 << 20, end):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                with self.assertRaisesRegex(OSError, r"no room after \d+ samples .*it goes on") as caught:
                    weft.pack.pack(samples, self.file, seal=False)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            self.assertEqual(caught.exception.errno, errno.EFBIG)
            self.assertFalse(os.path.exists(self.file))
        with Writer(self.file, seal=False) as writer:
            self.assertEqual(writer.count, 3000, "all samples had room; the index had not")
        with Pack(self.file) as pack:
            self.assertEqual([bytes(one) for _, one in pack.scan()], samples)
            self.assertEqual(list(pack.problems()), [])

    def test_an_interrupted_writer_goes_on_with_nothing(self):
        """Its buffer and its counts may not belong together."""
        for step in ("add", "checkpoint"):
            writer = Writer(self.path(f"{step}.weft"), seal=False)
            writer.add(b"x" * 100)
            writer.checkpoint()
            writer.add(b"y" * 300000)
            name = "crc32c" if step == "add" else "sync_folder"
            with unittest.mock.patch(f"weft.pack._writer.{name}", side_effect=KeyboardInterrupt), \
                    self.assertRaises(KeyboardInterrupt):
                writer.add(b"z") if step == "add" else writer.checkpoint()
            for again in (lambda: writer.add(b"z"), writer.checkpoint, writer.finish):
                with self.assertRaisesRegex(PackError, "was interrupted"):
                    again()
            writer.stop()
            with Writer(self.path(f"{step}.weft"), seal=False) as writer:
                self.assertIn(writer.count, (1, 2))
                for sample in (b"y" * 300000, b"z")[writer.count - 1:]:
                    writer.add(sample)
            with Pack(self.path(f"{step}.weft")) as pack:
                self.assertEqual([pack[number] for number in range(3)], [b"x" * 100, b"y" * 300000, b"z"])
                self.assertEqual(list(pack.problems()), [])


class Sources(PackTest):
    def tree(self):
        """A folder of samples of several files; its files by their paths."""
        files = {}
        for number in range(60):
            stem = f"{'sub/' if number % 3 else ''}{number:04d}"
            for part in (".jpg", ".cls", ".seg.png")[:1 + number % 3]:
                files[stem + part] = self.choose.randbytes(self.choose.randrange(9000))
        files.update({"README": b"no suffix", "sub/.hidden": b"h", "sub/deep/er/x.bin": b""})
        for name, data in files.items():
            path = self.path(f"tree/{name}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
        return files

    @staticmethod
    def files(folder):
        found = {}
        for path, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(path, name), "rb") as file:
                    found[os.path.relpath(os.path.join(path, name), folder)] = file.read()
        return found

    def tar(self, name, files, mode="w"):
        with tarfile.open(self.path(name), mode) as tar:
            for path, data in files:
                member = tarfile.TarInfo(path)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return self.path(name)

    def test_a_folder(self):
        files = self.tree()
        status, out, error = self.command("pack", self.path("tree"), self.file)
        self.assertEqual(status, 0, error)
        self.assertIn("63 samples", out)
        with Pack(self.file) as pack:
            keys = [bytes(pack[number]["__key__"]) for number in range(len(pack))]
            self.assertEqual((len(set(keys)), keys[0]), (63, b"0000"))
        self.assertEqual(self.command("unpack", self.file, self.path("out"))[0], 0)
        self.assertEqual(self.files(self.path("out")), files)
        self.assertEqual(self.command("unpack", self.file, self.path("out.tar"))[0], 0)
        # And from the tar file again.
        self.assertEqual(self.command("pack", self.path("out.tar"), self.path("two.weft"))[0], 0)
        self.assertEqual(self.command("unpack", self.path("two.weft"), self.path("two"))[0], 0)
        self.assertEqual(self.files(self.path("two")), files)
        status, _, error = self.command("unpack", self.file, self.path("out"))
        self.assertEqual((status, "is not empty" in error), (1, True))

    def test_what_a_folder_cannot_have(self):
        self.tree()
        os.symlink("sub", self.path("tree/link"))
        status, _, error = self.command("pack", self.path("tree"), self.file)
        self.assertEqual((status, "link to a folder" in error), (1, True))
        os.unlink(self.path("tree/link"))
        os.mkfifo(self.path("tree/pipe"))
        status, _, error = self.command("pack", self.path("tree"), self.file)
        self.assertEqual((status, "neither a file" in error), (1, True))

    def test_a_source_that_has_changed(self):
        self.tree()
        with open(self.path("tree/zz.fifo"), "w", encoding="ascii"):
            pass

        class Failing(sources.Folder):
            def entries(self, _skip=0):
                for number, entry in enumerate(super().entries()):
                    if number == 40:
                        raise RuntimeError("it fails")
                    yield entry
        with self.assertRaises(RuntimeError):
            weft.pack.pack(Failing(self.path("tree")), self.file, seal=False)
        os.utime(self.path("tree/0003.jpg"), (1, 1))
        with self.assertRaisesRegex(PackError, "the source has changed. --restart"):
            weft.pack.pack(sources.Folder(self.path("tree")), self.file, seal=False)
        weft.pack.pack(sources.Folder(self.path("tree")), self.file, seal=False, restart=True)

    def test_a_resumed_iterable_gives_the_same(self):
        parts = [{"x": b"a"}, {"x": b"b", "y": b""}, {"y": b"c"}]
        for samples, other in (([b"a" * 5000, b"b", b"c" * 70], b"d"), (parts, {"x": b"d"})):
            def interrupted(samples=samples):
                yield from samples[:2]
                raise RuntimeError
            with self.assertRaises(RuntimeError):
                weft.pack.pack(interrupted(), self.file, seal=False, replace=True)
            with self.assertRaisesRegex(PackError, "the first 2 samples .* the source has changed. --restart"):
                weft.pack.pack([samples[0], other, samples[2]], self.file, seal=False, replace=True)
            self.assertEqual(weft.pack.pack(samples, self.file, seal=False, replace=True).samples, 3)

    def test_resumed_sources_give_the_same(self):
        tree = self.tree()
        plain = self.tar("a.tar", sorted(tree.items()))
        packed = self.tar("b.tar.gz", [("x.a", b"1")], "w:gz")
        for source in (lambda: sources.Folder(self.path("tree")), lambda: sources.Tar(plain, packed)):
            weft.pack.pack(source(), self.path("whole.weft"), seal=False, replace=True)
            for stop in (1, 17, 62):
                writer = Writer(self.file, parts=True, seal=False, replace=True)
                with contextlib.suppress(KeyboardInterrupt), contextlib.closing(source().entries()) as entries, writer:
                    self.taken(entries, writer, stop)
                self.assertEqual(writer.count, stop)
                weft.pack.pack(source(), self.file, seal=False, replace=True)
                with Pack(self.file) as one, Pack(self.path("whole.weft")) as two:
                    self.assertEqual([bytes(data) for _, data in one.scan()], [bytes(data) for _, data in two.scan()])

    @staticmethod
    def taken(entries, writer, stop):
        import hashlib
        chain = b""
        for identity, load in entries:
            chain = hashlib.blake2b(chain + identity, digest_size=16).digest()
            writer.add(load(), chain.hex())
            if writer.count == stop:
                raise KeyboardInterrupt

    def test_tar_files(self):
        files = [(f"d/{number:03d}.{part}", self.choose.randbytes(number * 100 + len(part))) for number in range(50)
                 for part in ("jpg", "txt")]
        for name, mode in (("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tar.bz2", "w:bz2"), ("a.tar.xz", "w:xz")):
            path = self.tar(name, files, mode)
            weft.pack.pack(sources.Tar(path), self.file, seal=False, replace=True)
            with Pack(self.file) as pack:
                self.assertEqual(len(pack), 50)
                self.assertEqual(pack[7], {"__key__": b"d/007", "jpg": files[14][1], "txt": files[15][1]})
            # Truncated and damaged anywhere, it is refused, or gives the same.
            with open(path, "rb") as file:
                raw = file.read()
            for end in (0, 100, 512, 513, len(raw) // 2, len(raw) // 2 // 512 * 512):
                with self.subTest(name, end=end), open(self.path("cut"), "wb") as file:
                    file.write(raw[:end])
                    file.flush()
                    with self.assertRaises(PackError):
                        weft.pack.pack(sources.Tar(self.path("cut")), self.path("cut.weft"), restart=True)
        with tarfile.open(self.path("a.tar")) as tar:
            header = tar.getmember("d/020.txt").offset
        with open(self.path("a.tar"), "r+b") as file:
            file.seek(header)
            file.write(b"?")
        with self.assertRaisesRegex(PackError, f"damaged at byte {header}"):
            weft.pack.pack(sources.Tar(self.path("a.tar")), self.path("cut.weft"), restart=True)

    def test_what_a_tar_file_cannot_have(self):
        with tarfile.open(self.path("link.tar"), "w") as tar:
            member = tarfile.TarInfo("a.jpg")
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member)
        with self.assertRaisesRegex(PackError, "a.jpg in it is a link"):
            weft.pack.pack(sources.Tar(self.path("link.tar")), self.file)
        with tarfile.open(self.path("large.tar"), "w") as tar:
            member = tarfile.TarInfo("a.jpg")
            member.size = 1 << 40
            tar.fileobj.write(member.tobuf())
            tar.fileobj.write(bytes(1024))
        with self.assertRaisesRegex(PackError, "a.jpg in it has 1099511627776 bytes"):
            weft.pack.pack(sources.Tar(self.path("large.tar")), self.file, restart=True)
        with self.assertRaisesRegex(PackError, "there twice"):
            weft.pack.pack(sources.Tar(self.tar("twice.tar", [("a.b", b"1"), ("a.b", b"2")])), self.file, restart=True)

    def test_names_that_leave_the_folder(self):
        for name in ("../x", "/etc/x", "a/../../x", "a//x", "./x", "", "a\0b"):
            self.made([{"__key__": name.encode(), "": b"data"}], restart=True)
            for output in ("out", "out.tar"):
                with self.subTest(name, output=output):
                    status, _, error = self.command("unpack", self.file, self.path(output))
                    self.assertEqual((status, "not unpacked" in error), (1, True), error)
        self.assertEqual(self.files(self.path("out")), {})
        self.assertEqual(sorted(os.listdir(self.folder)), ["data.weft", "out"])
        for pair in ((b"a", b"a"), (b"a", b"a/b")):
            self.made([{"__key__": key, "": b"data"} for key in pair], restart=True)
            self.assertEqual(self.command("unpack", self.file, self.path(f"pair{len(pair[1])}"))[0], 1)

    def test_unpacking_into_a_tar_file(self):
        """It has its name when it is whole and on the medium. A file of another that has the draft's name stays."""
        self.made([b"one", b"two"])
        out, draft, calls = self.path("out.tar"), self.path("out.tar.partial"), []
        with open(self.path("mine"), "wb") as file:
            file.write(b"mine")
        for take in (os.symlink, os.link):
            take(os.path.abspath(self.path("mine")), draft)
            status, _, error = self.command("unpack", self.file, out)
            self.assertEqual((status, error.strip()), (1, f"weft-pack: {draft} exists already: remove it, or give another name"))
            with open(draft, "rb") as file:
                self.assertEqual(file.read(), b"mine")
            os.unlink(draft)

        def fail(*_):
            raise KeyError("a mistake of the program's")
        with Pack(self.file) as pack:
            with self.assertRaises(KeyError):
                weft.pack.unpack_tar(pack, out, fail)
            self.assertEqual(sorted(os.listdir(self.folder)), ["data.weft", "mine"])

            def sync(file):
                calls.append("fsync")
                with tarfile.open(f"/proc/self/fd/{file}") as tar:
                    self.assertEqual(len(tar.getmembers()), 2)
                # All of it: a tar file ends with zeros.
                self.assertEqual(os.fstat(file).st_size % tarfile.RECORDSIZE, 0)
            rename = os.rename
            with unittest.mock.patch("os.fsync", sync), \
                    unittest.mock.patch("os.rename", lambda *names: (calls.append("rename"), rename(*names))):
                self.assertEqual(weft.pack.unpack_tar(pack, out), 2)
        self.assertEqual(calls, ["fsync", "rename"])
        self.assertEqual(sorted(os.listdir(self.folder)), ["data.weft", "mine", "out.tar"])
        with tarfile.open(out) as tar:
            self.assertEqual([tar.extractfile(member).read() for member in tar], [b"one", b"two"])

    def shards(self, compression=None, count=25):
        """A folder of MDS, as its writer makes it, of a text, a number and bytes; and its samples."""
        folder = self.path(f"mds-{compression}")
        os.makedirs(folder)
        samples, shards = [], []
        for number in range(3):
            rows = [[struct.pack("<q", number * count + row), f"text {row}".encode() * row, self.choose.randbytes(row * 300)]
                    for row in range(count)]
            samples += rows
            encoded = [struct.pack("<II", len(row[1]), len(row[2])) + b"".join(row) for row in rows]
            config = json.dumps({"format": "mds"}).encode()
            at = [4 + 4 * (count + 1) + len(config)]
            for one in encoded:
                at.append(at[-1] + len(one))
            raw = struct.pack(f"<{count + 2}I", count, *at) + config + b"".join(encoded)
            name = f"shard.{number:05d}.mds"
            packed = None
            data = raw
            if compression == "gz":
                import gzip
                data, packed = gzip.compress(raw), {"basename": name + ".gz", "bytes": 1, "hashes": {}}
            elif compression == "zstd":
                data = subprocess.run(["zstd", "-q"], input=raw, stdout=subprocess.PIPE, check=True).stdout
                packed = {"basename": name + ".zstd", "bytes": len(data), "hashes": {}}
            with open(os.path.join(folder, packed["basename"] if packed else name), "wb") as file:
                file.write(data)
            shards.append({"column_encodings": ["int", "str", "bytes"], "column_names": ["id", "text", "raw"],
                           "column_sizes": [8, None, None], "compression": compression, "format": "mds", "hashes": [],
                           "raw_data": {"basename": name, "bytes": len(raw), "hashes": {}}, "samples": count,
                           "size_limit": 1 << 26, "version": 2, "zip_data": packed})
        self.index(folder, shards)
        return folder, samples, shards

    @staticmethod
    def index(folder, shards):
        with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
            json.dump({"shards": shards, "version": 2}, file)

    def test_mds(self):
        for compression in (None, "gz"):
            folder, samples, _ = self.shards(compression)
            self.assertEqual(self.command("pack", "--force", folder, self.file)[0], 0)
            with Pack(self.file) as pack:
                self.assertEqual([[pack[number][name] for name in ("id", "text", "raw")] for number in range(75)], samples)
                self.assertEqual(pack.attributes["mds"], {"column_names": ["id", "text", "raw"],
                                                          "column_encodings": ["int", "str", "bytes"]})
            os.rename(folder, folder + ".done")
        self.assertEqual(self.command("unpack", self.file, self.path("out"))[0], 0)
        self.assertEqual(self.files(self.path("out"))["000000003.text"], b"text 3" * 3)

    def test_zstd(self):
        if not shutil.which("zstd"):
            self.skipTest("the program zstd is missing: apt-get install zstd")
        folder, samples, _ = self.shards("zstd")
        try:
            import zstandard
        except ImportError:
            zstandard = None
        if zstandard is None:
            with self.assertRaisesRegex(PackError, "zstandard is missing: install"):
                weft.pack.pack(sources.Mds(folder), self.file)
        else:
            weft.pack.pack(sources.Mds(folder), self.file, seal=False)
            with Pack(self.file) as pack:
                self.assertEqual([[pack[number][name] for name in ("id", "text", "raw")] for number in range(75)], samples)

    def test_damaged_mds(self):
        folder, _, shards = self.shards()
        shard = os.path.join(folder, "shard.00001.mds")
        with open(shard, "rb") as file:
            raw = file.read()
        for changed in (raw[:-1], raw + b"x", b"", raw[:4] + struct.pack("<I", 1 << 31) + raw[8:],
                        struct.pack("<I", 24) + raw[4:], raw[:4] + raw[8:12] + raw[4:8] + raw[12:]):
            with open(shard, "wb") as file:
                file.write(changed)
            with self.assertRaises(PackError):
                weft.pack.pack(sources.Mds(folder), self.file, restart=True)
        for change in ({"format": "json"}, {"version": 1}, {"samples": -1}, {"samples": "x"}, {"column_sizes": [8]},
                       {"raw_data": {"basename": "../shard", "bytes": 1}}, {"raw_data": {"basename": "/shard", "bytes": 1}},
                       {"raw_data": {"basename": "shard", "bytes": 1 << 40}}, {"raw_data": None},
                       {"column_names": ["id", "raw", "raw"]}, {"column_names": ["id", "1", 1]}):
            self.index(folder, [{**shards[0], **change}])
            with self.subTest(change), self.assertRaisesRegex(PackError, "not an index of MDS"):
                sources.Mds(folder)
        for text in ("", "[]", "{", '{"shards": 1}', '{"shards": [1]}'):
            with open(os.path.join(folder, "index.json"), "w", encoding="ascii") as file:
                file.write(text)
            with self.subTest(text), self.assertRaisesRegex(PackError, "not an index of MDS"):
                sources.Mds(folder)


class Epochs(unittest.TestCase):
    def test_each_order_is_a_permutation(self):
        for count in [*range(0, 70), 100, 255, 256, 257, 1000, 4096, 65537, 100003]:
            for block, window in ((1, 1), (3, 2), (64, 5), (200, 1)):
                found = Order(count, 5, 6, block, window).samples(numpy.arange(count))
                self.assertTrue((numpy.sort(found) == numpy.arange(count)).all(), (count, block, window))

    def test_of_a_great_count(self):
        for count in (10**9, 10**12, (1 << 62) - 1):
            order = Order(count, 1, 2)
            found = order.samples(numpy.arange(100000))
            self.assertEqual(len(set(found.tolist())), 100000)
            self.assertTrue(0 <= found.min() and found.max() < count)
            # They are spread evenly: 16 parts with 6,250 samples each, five standard deviations.
            parts = numpy.bincount((found // (count // 16 + 1)).astype(int), minlength=16)
            self.assertLess(abs(parts - 6250).max(), 5 * 6250 ** 0.5, parts)

    def test_seeds_and_epochs_are_different(self):
        firsts = [Order(1000, seed, epoch).samples(range(1000)).tolist() for seed in range(8) for epoch in range(8)]
        self.assertEqual(len({tuple(one) for one in firsts}), 64)
        # A place has each sample about as often: no seed is like another one.
        here = numpy.array([Order(10, seed, 0).samples(range(10)) for seed in range(4000)])
        for place in range(10):
            self.assertLess(abs(numpy.bincount(here[:, place], minlength=10) - 400).max(), 5 * 20)
        # Neighbours in the order are no neighbours in the file.
        order = Order(10000, 3, 4).samples(range(10000))
        self.assertLess((abs(numpy.diff(order)) < 10).mean(), 0.01)

    def test_the_order_is_the_same_for_any_ranks(self):
        for count in (1, 7, 1000):
            whole = list(Sampler(count, seed=3))
            for world in (2, 3, 8):
                ranks = [list(Sampler(count, seed=3, rank=rank, world=world, uneven="keep")) for rank in range(world)]
                self.assertEqual([ranks[at % world][at // world] for at in range(count)], whole)
                wrapped = [list(Sampler(count, seed=3, rank=rank, world=world)) for rank in range(world)]
                self.assertEqual({len(one) for one in wrapped}, {-(-count // world)})
                self.assertEqual({number for one in wrapped for number in one}, set(range(count)))
                dropped = [list(Sampler(count, seed=3, rank=rank, world=world, uneven="drop")) for rank in range(world)]
                self.assertEqual({len(one) for one in dropped}, {count // world})

    def test_resumed_at_each_position_with_other_ranks(self):
        whole = list(Sampler(100, seed=9, block=7, window=2))
        for world in (1, 2, 4):
            for consumed in range(0, 100 // world + 1):
                before = Sampler(100, seed=9, rank=world - 1, world=world, block=7, window=2)
                state = before.state(consumed)
                self.assertEqual(len(state), 24)
                for now in (1, 3):
                    left = []
                    for rank in range(now):
                        after = Sampler(100, rank=rank, world=now, uneven="keep", block=7, window=2)
                        after.resume(state)
                        self.assertEqual(len(after), len(list(after)))
                        left.append(list(after))
                    self.assertEqual([left[at % now][at // now] for at in range(100 - consumed * world)],
                                     whole[consumed * world:])

    def test_epochs(self):
        sampler = Sampler(50, seed=1)
        first = list(sampler)
        sampler.set_epoch(1)
        second = list(sampler)
        self.assertNotEqual(first, second)
        sampler.resume(sampler.state(20))
        sampler.set_epoch(1)
        self.assertEqual(list(sampler), second[20:])
        sampler.set_epoch(2)
        self.assertEqual(len(sampler), 50)
        for wrong in (b"", bytes(23), struct.pack("<QQQ", 1, 0, 51)):
            with self.assertRaises(ValueError):
                sampler.resume(wrong)
        for wrong in ({"rank": 1}, {"rank": -1, "world": 2}, {"seed": -1}, {"uneven": "no"}, {"block": 0}):
            with self.assertRaises(ValueError):
                Sampler(50, **wrong)

    def test_blocks_stay_near(self):
        found = Order(10000, 1, 1, 100, 4).samples(range(10000))
        for first in range(0, 10000, 400):
            self.assertLessEqual(len(set((found[first:first + 400] // 100).tolist())), 4)

    def test_an_epoch_has_no_start(self):
        sampler = Sampler(10**9, seed=1)
        begun = time.process_time()
        sampler.set_epoch(5)
        iterator = iter(sampler)
        for _ in range(1000):
            next(iterator)
        self.assertLess(time.process_time() - begun, 5)


class Billions(PackTest):
    def test_ten_to_the_ninth(self):
        """It is opened in a process of its own, which reads some samples."""
        wanted = [0, 1, sparse_index.COUNT // 3, sparse_index.COUNT - 1]
        try:
            sparse_index.make(self.file, wanted)
        except OSError as wrong:
            if wrong.errno != errno.EFBIG:
                raise
            self.skipTest(f"this filesystem has no files of that size: {wrong}")
        opened = sparse_index.opened(self.file, wanted)
        if os.environ.get("MEASURE"):
            print(opened)
        self.assertLess(opened.cpu_seconds, 1)
        self.assertLess(opened.memory, 64 << 20)
        self.assertEqual((opened.count, opened.read), (sparse_index.COUNT, wanted))


class Command(PackTest):
    def test_info(self):
        self.made(self.samples(10, [700]))
        known = json.loads(self.command("info", "--json", self.file)[1])
        self.assertEqual((known["samples"], known["fixed_bytes"], known["parts"], known["volume"]), (10, 700, None, None))
        self.assertIn("samples              10\n", self.command("info", self.file)[1])

    def test_wrong_command_lines(self):
        for arguments in ((), ("pack",), ("pack", "a", "b", "--cell", "1G"), ("nothing",)):
            self.assertEqual(self.command(*arguments)[0], 2)
        for arguments, text in ((("info", "/no/where"), "it is gone: No such file"),
                                (("pack", "/no/where", self.file), "No such file"),
                                (("pack", self.folder, self.folder + ".weft", "--cell", "1K"), "power of two"),
                                (("pack", self.folder, self.file), "would contain itself")):
            status, out, error = self.command(*arguments)
            self.assertEqual((status, out), (1, ""))
            self.assertRegex(error, f"^weft-pack: .*{text}")
            self.assertNotIn("Traceback", error)

    def test_progress(self):
        """A line every ten seconds, also of few samples."""
        os.mkdir(self.path("source"))
        for number in range(5):
            with open(self.path(f"source/{number}.txt"), "wb") as file:
                file.write(b"%d" % number)
        for verb, text in (("pack", "[345] samples, "), ("verify", "of .* \\(100 %\\)"),
                           ("unpack", "4 of 5 samples \\(80 %\\)")):
            times = map(12.0.__mul__, itertools.count())
            with unittest.mock.patch("weft.pack.__main__.time.monotonic", lambda times=times: next(times)):
                arguments = {"pack": (self.path("source"), self.file), "verify": (self.file,),
                             "unpack": (self.file, self.path("out"))}[verb]
                status, _, error = self.command(verb, *arguments)
                self.assertEqual(status, 0)
                self.assertRegex(error, text)
                if verb != "verify":
                    self.assertGreaterEqual(len(error.splitlines()), 2)
        self.assertEqual(self.command("verify", "--quiet", self.file)[2], "")

    def test_interrupted(self):
        for number in range(200):
            with open(self.path(f"{number}.txt"), "wb") as file:
                file.write(b"%d" % number)
        os.mkdir(self.path("source"))
        for number in range(200):
            os.rename(self.path(f"{number}.txt"), self.path(f"source/{number}.txt"))
        real, calls = sources._Loader.__call__, []

        def interrupted(loader):
            calls.append(loader)
            if len(calls) == 100:
                raise KeyboardInterrupt
            return real(loader)
        sources._Loader.__call__ = interrupted
        try:
            status, _, error = self.command("pack", self.path("source"), self.file)
            self.assertEqual((status, "goes on" in error), (130, True))
            self.assertFalse(os.path.exists(self.file))
            self.assertEqual(self.command("pack", self.path("source"), self.file)[0], 0)
        finally:
            sources._Loader.__call__ = real
        # None was read twice: the 100th was not read before.
        self.assertEqual(len(calls), 201)
        with Pack(self.file) as pack:
            self.assertEqual(sorted(int(pack[number]["txt"]) for number in range(200)), list(range(200)))

    def test_the_program_and_its_page(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        program = os.path.join(root, "userspace/python/weft-pack")
        with open(os.path.join(root, "userspace/python/weft-pack.1"), encoding="ascii") as file:
            page = file.read().replace("\\-", "-")
        for verb in ("pack", "unpack", "info", "verify", "seal"):
            text = subprocess.run([sys.executable, "-B", program, verb, "--help"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
            for word in text.split():
                if word.startswith("--") and word != "--help":
                    self.assertIn(word.strip(",.)]"), page, f"the man page lacks an option of {verb}")


if __name__ == "__main__":
    unittest.main()
