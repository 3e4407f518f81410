# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads samples of a packed dataset. Opening it reads its header and its names; the index stays where it is."""
import ctypes
import operator
import os
import uuid
import weakref
from collections import OrderedDict

import numpy

from .. import _library as lib
from .._pool import SMALLEST
from .._stamp import Stamp, path_of
from .._target import NOTHING_READ, _Lent
from .._target import open as open_target
from . import _format as form
from ._crc import crc32c, first_wrong
from ._error import PackError
from ._volume import is_sealed, volume_of

_EXTENT = numpy.dtype([("offset", "<u8"), ("memory_offset", "<u8"), ("length", "<u4"), ("order", "<u4")])
assert _EXTENT.itemsize == ctypes.sizeof(lib.Extent)
_INDEX_CACHE_BYTES = 16 << 20
# Alignment of memory that any target reads into directly.
_PAGE = 4096
# The reason of a route.
_FROM_CELLS = "small samples share cells with others, and are copied out of them"
# What a read of the whole file has in memory.
_SCAN_BYTES = 8 << 20


class _Cache:
    """The pieces of the file that were used last, up to a size."""

    def __init__(self, most):
        self._most, self._pieces = most, OrderedDict()

    def get(self, key):
        piece = self._pieces.get(key)
        if piece is not None:
            self._pieces.move_to_end(key)
        return piece

    def put(self, key, piece):
        self._pieces[key] = piece
        if len(self._pieces) > self._most:
            self._pieces.popitem(last=False)

    def clear(self):
        self._pieces.clear()


class Pack:
    """An open packed dataset. A context manager; a sequence of samples as bytes, or as dictionaries of named parts.

    name: the path of a file or a block device, or the name of a weft volume that has the dataset from its first byte on.
    verify: compare checksums of all that is read. Small samples are read by their whole cells, which have checksums; a larger
    one has a checksum of its own, or its cells are read. False reads just the samples.
    bound: refuse a dataset that is bound to another weft volume than the one on which it is. False reads it anyway.
    strict: only the direct route. cache: bytes of cells that stay in memory; the index has 16 MiB besides.

    PackError: the dataset is not whole, or has changed since it was opened. Threads have a Pack each; a child of fork() may
    use its parent's.
    """

    def __init__(self, name, *, verify=True, bound=True, strict=False, cache=form.CELL_CACHE_BYTES):
        self.name, self.verify, self.bound, self.strict = os.fspath(name), verify, bound, strict
        self._cache, self._target, self._process, self._known = cache, None, None, None
        self._open()

    # --- The file

    def _stamp(self):
        try:
            return Stamp.of(path_of(self.name))
        except OSError as wrong:
            raise PackError(self.name, f"it is gone: {os.strerror(wrong.errno)}") from None

    def _open(self):
        """The target, in this process. Another file than before is refused."""
        if self._target is not None and self._process == os.getpid():
            return self._target
        stamp = self._stamp()
        target = open_target(path_of(self.name), strict=self.strict)
        try:
            raw = self._pread(target, 0, form.HEADER_BYTES) if target.size >= form.HEADER_BYTES else b""
            header = form.parse(raw, self.name, target.size, bool(stamp.inode))
            text = self._pread(target, header.text_offset, header.text_bytes)
            names, attributes = form.parse_text(text, header, self.name)
            self._check_volume(header)
            known = (stamp, header)
            if self._known not in (None, known):
                raise PackError(self.name, "it has changed since it was opened; open it again")
        except BaseException:
            target.close()
            raise
        self._known, self.header, self.names, self.attributes = known, header, names, attributes
        self._uuid_check = crc32c(header.uuid)
        self._pages = _Cache(_INDEX_CACHE_BYTES // form.PAGE_BYTES)
        self._cells = _Cache(max(1, self._cache // header.cell_bytes))
        self._sums = _Sums(self) if header.has_sums and not header.has_lengths else None
        # Direct reads are of whole blocks. All parts of the file end at multiples of a page.
        self._unit = min(max(target.block_size, 1), form.PAGE_BYTES)
        self._is_whole = not header.has_lengths and header.fixed_bytes % max(header.align, self._unit) == 0
        self._target, self._process = target, os.getpid()
        return target

    @staticmethod
    def _pread(target, offset, length):
        return bytes(target.read(offset, length))

    def _check_volume(self, header):
        if not any(header.volume_uuid) or not self.bound:
            return
        file = os.open(path_of(self.name), os.O_RDONLY)
        try:
            volume = volume_of(file)
        finally:
            os.close(file)
        wanted = _uuid_text(header.volume_uuid)
        if volume is None:
            raise PackError(self.name, f"it is bound to the weft volume {wanted}, and is on none here: it is a copy. weft-pack "
                                       "seal binds it to its place, and bound=False reads it anyway")
        if volume.uuid != header.volume_uuid:
            raise PackError(self.name, f"it is bound to the weft volume {wanted}, and is on {volume.name}, "
                                       f"{_uuid_text(volume.uuid)}: it is a copy. weft-pack seal binds it to its place, and "
                                       "bound=False reads it anyway")
        if volume.generation < header.volume_generation:
            raise PackError(self.name, f"the volume {volume.name} has generation {volume.generation}, and the dataset was "
                                       f"written at {header.volume_generation}: the volume is an older copy of itself. "
                                       "Assemble it from its newest members")

    def check_unchanged(self):
        """PackError: the file is not the one that was opened, or was written to since. All reads call this, as they end."""
        stamp = self._stamp()
        if self._known and stamp != self._known[0]:
            raise PackError(self.name, stamp.difference(self._known[0]))

    # --- Where samples are

    def __len__(self):
        return self.header.samples

    def _numbers(self, indices):
        numbers, count = numpy.asarray(indices), self.header.samples
        if numbers.ndim != 1:
            raise ValueError("indices have one dimension")
        if numbers.size and numbers.dtype.kind not in "iu":
            # Python's integers have no size. An array of them that numpy has no integers for is of objects, or of floats.
            known = [] if hasattr(indices, "dtype") else list(map(operator.index, indices))
            outside = [number for number in known if not -count <= number < count]
            if outside:
                raise IndexError(f"{self.name}: sample {outside[0]} of {count}")
            raise TypeError(f"indices are integers, and not of type {numbers.dtype}")
        # One that is larger than an int64 says is behind the last sample. numpy 2 takes no number beyond a narrow type.
        if numbers.dtype.kind == "u":
            numbers = numpy.minimum(numbers.astype(numpy.uint64), numpy.uint64(count))
        numbers = numbers.astype(numpy.int64)
        if len(numbers) and (int(numbers.min()) < -count or int(numbers.max()) >= count):
            raise IndexError(f"{self.name}: sample {int(numbers[(numbers < -count) | (numbers >= count)][0])} of {count}")
        return numpy.where(numbers < 0, numbers + count, numbers)

    def _load(self, kind, numbers, begin, keep=True):
        """The bytes of pages of that kind, by their numbers, those that the cache lacks by one gather. keep: in the cache."""
        self._open()
        found, missing = {}, []
        for number in numbers:
            page = self._pages.get((kind, number))
            if page is None:
                missing.append(number)
            else:
                found[number] = page
        if missing:
            memory, raw = self._take(len(missing) * form.PAGE_BYTES)
            extents = numpy.zeros(len(missing), _EXTENT)
            extents["offset"] = begin + numpy.asarray(missing, numpy.uint64) * form.PAGE_BYTES
            extents["memory_offset"] = numpy.arange(len(missing), dtype=numpy.uint64) * form.PAGE_BYTES
            extents["length"] = form.PAGE_BYTES
            self._gather(memory, extents)
            for at, number in enumerate(missing):
                page = raw[at * form.PAGE_BYTES:(at + 1) * form.PAGE_BYTES].copy()
                self._trusted(form.check_page, page, kind, self._uuid_check, number, self.name, begin + number * form.PAGE_BYTES)
                if keep:
                    self._pages.put((kind, number), page)
                found[number] = page
        return found

    def _trusted(self, check, *arguments):
        """Damage in a file that was written to meanwhile is reported as that."""
        try:
            check(*arguments)
        except PackError:
            self.check_unchanged()
            raise

    def _entries(self, numbers, field, kind, begin):
        """One row of the field for each number, from the pages that hold them; and the pages."""
        each = form.PER_PAGE[kind]
        which, inverse = numpy.unique(numbers // each, return_inverse=True)
        pages = self._load(kind, which.tolist(), begin)
        stacked = numpy.concatenate([pages[number] for number in which.tolist()]).view(form.PAGES[kind])
        inverse = inverse.reshape(-1)
        return stacked, inverse, stacked[field][inverse, numbers % each]

    def places(self, numbers):
        """Offsets in the data, lengths, and checksums (None: there are none) of samples, as arrays of int64. numbers: such an
        array, of samples that there are."""
        # A process that was spawned has no caches yet.
        self._open()
        header, sums = self.header, None
        if not len(numbers):
            return numbers, numbers, numbers if header.has_sums else None
        if not header.has_lengths:
            offsets = form.fixed_place(numbers, header.fixed_bytes, header.cell_bytes, header.align)
            if self._sums and self.verify:
                sums = self._sums.of(numbers)
            return offsets, numpy.full(len(numbers), header.fixed_bytes, numpy.int64), sums
        kind = header.index_kind
        each = form.PER_PAGE[kind]
        pages, inverse, lengths = self._entries(numbers, "length", kind, header.index_offset)
        if header.has_sums:
            sums = pages["sum"][inverse, numbers % each]
        group, within = numbers % each // form.GROUP, numbers % form.GROUP
        bases = pages["base"][inverse, group]
        rows = pages["length"].reshape(len(pages), -1, form.GROUP)[inverse, group].astype(numpy.int64)
        lengths = lengths.astype(numpy.int64)
        if int(bases.max()) > header.data_bytes or int(lengths.max()) > min(header.longest, form.SAMPLE_MAX):
            self._refuse_index()
        offsets = form.places(bases.astype(numpy.int64), rows, within, header.cell_bytes, header.align)
        if int((offsets + lengths).max()) > header.data_bytes:
            self._refuse_index()
        return offsets, lengths, sums

    def _refuse_index(self):
        self.check_unchanged()
        raise PackError(self.name, "its index has valid checksums and places outside of the data: it was made by a broken or "
                                   "hostile program")

    # --- Reading

    @property
    def pool(self):
        """Memory of the host for what is read."""
        return self._open().pool

    def _take(self, length):
        """Memory from the pool, and an array of its bytes."""
        memory, view = self.pool.take(length)
        return memory, numpy.frombuffer(view, numpy.uint8)

    def _gather(self, memory, extents):
        """Reads extents, an array of _EXTENT, into memory. One behind the end of the file is an error. Returns a Result."""
        return self._into(memory, lambda target, lent: target._gather_extents(
            lent, (lib.Extent * len(extents)).from_buffer(extents), len(extents), int(extents["length"].sum())))

    def _into(self, memory, read):
        """Calls read(target, lent) to read into memory, and returns what it does."""
        target = self._open()
        with _Lent(target, memory, True) as lent:
            try:
                return read(target, lent)
            except OSError:
                self.check_unchanged()
                raise

    def _cell_pieces(self, numbers):
        """Whole cells by their numbers, verified, those that the cache lacks by one gather."""
        self._open()
        header, found, missing = self.header, {}, []
        for number in numbers:
            piece = self._cells.get(number)
            if piece is None:
                missing.append(number)
            else:
                found[number] = piece
        if not missing:
            return found
        cell, wanted = header.cell_bytes, numpy.asarray(missing, numpy.int64)
        lengths = numpy.minimum(cell, header.data_bytes - wanted * cell)
        memory, raw = self._take(len(missing) * cell)
        extents = numpy.zeros(len(missing), _EXTENT)
        extents["offset"] = header.data_offset + wanted * cell
        extents["memory_offset"] = numpy.arange(len(missing), dtype=numpy.uint64) * cell
        extents["length"] = lengths
        self._gather(memory, extents)
        _, _, sums = self._entries(wanted, "sum", form.CELLS, header.cells_offset)
        for at, (number, length, check) in enumerate(zip(missing, lengths.tolist(), sums.tolist())):
            piece = raw[at * cell:at * cell + length]
            if crc32c(piece) != check:
                self.check_unchanged()
                raise PackError(self.name, f"cell {number}, at byte {header.data_offset + number * cell}, is damaged: its "
                                           "checksum is wrong. Copy the dataset again")
            # A copy, so that a cell in the cache does not keep registered memory.
            found[number] = piece.copy()
            self._cells.put(number, found[number])
        return found

    def plan(self, indices, *, reachable=True, trust_large=False):
        """How samples are read: an object for read_planned(), whose `bytes` says how much memory that needs.

        reachable: the CPU can compute checksums in that memory; if it cannot, samples that are verified go through cells.
        trust_large: those that do not share a cell are not verified."""
        # A process that was spawned has no caches yet.
        self._open()
        numbers, has_sums = self._numbers(indices), bool(self.verify and reachable and self._sums)
        if self._is_whole and (has_sums or trust_large or not self.verify):
            return _WholePlan(self, numbers, has_sums)
        return _Plan(self, numbers, reachable, trust_large)

    def read_planned(self, plan, memory, tail, address=None):
        """Reads the samples of a plan. Sample i is at plan.starts[i] of memory then, if it is below plan.direct_bytes; the
        others are in tail, an array of bytes that stands for the memory from there on. The memory should begin at a page,
        so that no byte is copied. address: of the memory, if the CPU reaches it. Returns a Result."""
        self._open()
        result = plan.read(self, memory)
        wrong = plan.first_wrong(address) if plan.has_sums else None
        if wrong is not None:
            self.check_unchanged()
            raise PackError(self.name, f"sample {int(plan.numbers[wrong])}, at byte "
                                       f"{self.header.data_offset + int(plan.offsets[wrong])}, is damaged: its checksum is "
                                       "wrong. Copy the dataset again")
        if plan.bytes > plan.direct_bytes:
            self._copy_from_cells(plan, tail)
            if result.route == "direct":
                result = result._replace(route="staged", reason=_FROM_CELLS)
            elif result.reason:
                result = result._replace(reason=f"{result.reason}; {_FROM_CELLS}")
        self.check_unchanged()
        # Without what whole blocks have beside the samples.
        return result._replace(bytes=sum(plan.lengths))

    def _copy_from_cells(self, plan, tail):
        cell = self.header.cell_bytes
        # Some cells at a time, because a batch may need more of them than fit in memory.
        order = numpy.flatnonzero(~plan.direct & (numpy.asarray(plan.lengths) > 0))
        if not len(order):
            return
        order = order[numpy.argsort(plan.offsets[order], kind="stable")]
        most = max(1, self._cache // cell)
        begin = 0
        while begin < len(order):
            wanted, end = {}, begin
            while end < len(order):
                at = order[end]
                first = int(plan.offsets[at]) // cell
                last = (int(plan.offsets[at]) + plan.lengths[at] - 1) // cell
                more = [number for number in range(first, last + 1) if number not in wanted]
                if wanted and len(wanted) + len(more) > most:
                    break
                wanted.update(dict.fromkeys(more))
                end += 1
            pieces = self._cell_pieces(list(wanted))
            for at in order[begin:end].tolist():
                offset, to, left = int(plan.offsets[at]), plan.starts[at] - plan.direct_bytes, plan.lengths[at]
                while left:
                    piece = pieces[offset // cell][offset % cell:offset % cell + left]
                    tail[to:to + len(piece)] = piece
                    offset, to, left = offset + len(piece), to + len(piece), left - len(piece)
            begin = end

    def read_many(self, indices):
        """The samples as memoryviews of one allocation, by one gather and what the index and small samples need."""
        plan = self.plan(indices)
        if plan.bytes < SMALLEST:
            raw = numpy.empty(plan.bytes + _PAGE, numpy.uint8)
            start = -raw.ctypes.data % _PAGE
            memory = raw = raw[start:start + plan.bytes]
        else:
            memory, raw = self._take(plan.bytes)
        self.read_planned(plan, memory, raw[plan.direct_bytes:], raw.ctypes.data)
        view = raw.data
        return [view[start:start + length] for start, length in zip(plan.starts, plan.lengths)]

    def parts_of(self, head, number, size):
        """The parts of a sample as a dictionary from names to (offset, bytes). head: its first head_bytes, or all of it, of
        `size` bytes."""
        return form.decode_parts(head, self.names, self.name, number, size)

    @property
    def head_bytes(self):
        """How long the table of parts of a sample can be."""
        return form.table_bytes(self.names)

    def decoded(self, data, number):
        """A dictionary from the names of a sample's parts to views of them, for a dataset of parts; else the data."""
        if not self.header.is_parts:
            return data
        parts = self.parts_of(data, number, len(data))
        return {name: data[at:at + length] for name, (at, length) in parts.items()}

    def __getitem__(self, index):
        data = self.decoded(self.read_many([index])[0], index)
        return {name: bytes(part) for name, part in data.items()} if isinstance(data, dict) else bytes(data)

    def scan(self, begin=0):
        """All samples in their order, as (number, data). For copies of the whole: it reads many at a time."""
        count = self.header.samples
        while begin < count:
            # So many that they fill the memory about, by their average, and fewer where the longest are together.
            step = max(1, min(4096, _SCAN_BYTES * count // max(self.header.payload_bytes, 1)))
            numbers = range(begin, min(begin + step, count))
            while len(numbers) > 1 and self.plan(numbers).bytes > 4 * _SCAN_BYTES:
                numbers = numbers[:len(numbers) // 2]
            for number, data in zip(numbers, self.read_many(numbers)):
                yield number, data
            begin += len(numbers)

    def problems(self, progress=None):
        """Reads all bytes of the dataset, and yields a sentence for each that is damaged. progress: is called with the bytes
        of the data that were read so far."""
        header = self.header
        for kind, first, pages in ((header.index_kind, header.index_offset, header.index_pages),
                                   (form.CELLS, header.cells_offset, header.cells_pages)):
            for number in range(pages if kind else 0):
                try:
                    self._load(kind, [number], first)
                except PackError as wrong:
                    yield wrong.reason
        each = max(1, _SCAN_BYTES // header.cell_bytes)
        for first in range(0, header.cells, each):
            for number in range(first, min(first + each, header.cells)):
                try:
                    self._cell_pieces([number])
                except PackError as wrong:
                    yield wrong.reason
            if progress:
                progress(min((first + each) * header.cell_bytes, header.data_bytes))
        yield from self._sample_problems()
        self.check_unchanged()

    def _sample_problems(self):
        """Places that overlap, parts that are not whole, and checksums of samples."""
        header, end, total = self.header, 0, 0
        for first in range(0, header.samples, 512):
            numbers = numpy.arange(first, min(first + 512, header.samples))
            try:
                offsets, lengths, _ = self.places(numbers)
                ends = numpy.concatenate(([end], (offsets + lengths)[:-1]))
                if (offsets < ends).any():
                    yield f"samples from {first} on overlap"
                end, total = int(offsets[-1] + lengths[-1]), total + int(lengths.sum())
            except PackError as wrong:
                yield wrong.reason
                continue
            if header.is_parts or header.has_sums:
                yield from self._content_problems(numbers.tolist())
        if total != header.payload_bytes:
            yield f"its samples have {total} bytes, and the header says {header.payload_bytes}"

    def _content_problems(self, numbers):
        """Of these samples, some at a time."""
        try:
            if self.plan(numbers).bytes <= 4 * _SCAN_BYTES:
                for number, data in zip(numbers, self.read_many(numbers)):
                    self.decoded(data, number)
                return
        except PackError:
            # Which of them, is found below.
            pass
        if len(numbers) == 1:
            try:
                self.decoded(self.read_many(numbers)[0], numbers[0])
            except PackError as wrong:
                yield wrong.reason
            return
        half = len(numbers) // 2
        yield from self._content_problems(numbers[:half])
        yield from self._content_problems(numbers[half:])

    def info(self):
        """What weft-pack info shows, as a dictionary for JSON."""
        header = self.header
        file = os.open(path_of(self.name), os.O_RDONLY)
        try:
            sealed, volume = is_sealed(file), volume_of(file)
        finally:
            os.close(file)
        return {
            "path": self.name, "uuid": _uuid_text(header.uuid), "version": header.version, "created": header.created,
            "samples": header.samples, "parts": self.names if header.is_parts else None,
            "fixed_bytes": header.fixed_bytes or None, "longest_bytes": header.longest,
            "payload_bytes": header.payload_bytes, "file_bytes": header.file_bytes, "cell_bytes": header.cell_bytes,
            "align": header.align, "cells": header.cells, "index_bytes": header.index_pages * form.PAGE_BYTES,
            "sample_checksums": header.has_sums, "sealed": sealed, "volume": volume.name if volume else None,
            "volume_uuid": _uuid_text(header.volume_uuid) if any(header.volume_uuid) else None,
            "volume_generation": header.volume_generation if any(header.volume_uuid) else None, "attributes": self.attributes}

    def close(self):
        """Closes the file in this process. The next read opens it again, if it has not changed."""
        target, self._target = self._target, None
        if target and self._process == os.getpid():
            target.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getstate__(self):
        kept = {**self.__dict__, "_target": None}
        # A process that is spawned has caches of its own.
        for name in ("_pages", "_cells", "_sums"):
            kept.pop(name, None)
        return kept


class _Plan:
    """Where the samples of a batch are in the file, and where they go in memory: each at the start of a page of the file's
    alignment, if it is read directly, because then no byte is copied."""

    size = None

    def __init__(self, pack, numbers, reachable, trust_large):
        header = pack.header
        offsets, lengths, sums = pack.places(numbers)
        self.numbers, self.offsets = numbers, offsets
        # The checksums of samples that are read directly are compared.
        self.has_sums = pack.verify and reachable and sums is not None
        if not pack.verify:
            self.direct = lengths > 0
        else:
            # A sample that cannot be verified by itself is verified by its cells.
            self.direct = (lengths >= header.align) & (self.has_sums or trust_large)
        unit = pack._unit
        skip = offsets % unit
        room = numpy.where(self.direct, -(-(skip + lengths) // unit) * unit, lengths)
        align = max(unit, 64)
        room_aligned = numpy.where(self.direct, -(-room // align) * align, -(-room // 16) * 16)
        # Those that are read directly come first, so that each begins at a multiple of the alignment.
        order = numpy.argsort(~self.direct, kind="stable")
        starts = numpy.zeros(len(numbers), numpy.int64)
        sizes = room_aligned[order]
        starts[order] = numpy.cumsum(sizes) - sizes
        self.bytes, self.direct_bytes = int(sizes.sum()), int(sizes[:int(self.direct.sum())].sum())
        self.extents = numpy.zeros(int(self.direct.sum()), _EXTENT)
        self.extents["offset"] = header.data_offset + (offsets - skip)[self.direct]
        self.extents["memory_offset"] = starts[self.direct]
        self.extents["length"] = room[self.direct]
        self.starts, self.lengths = (starts + numpy.where(self.direct, skip, 0)).tolist(), lengths.tolist()
        self.sums = sums if self.has_sums else None

    def read(self, pack, memory):
        """What is read directly. Returns a Result."""
        return pack._gather(memory, self.extents) if len(self.extents) else NOTHING_READ

    def first_wrong(self, address):
        """The number in the batch of the first sample whose checksum is another, or None."""
        direct = numpy.flatnonzero(self.direct)
        starts, lengths = (numpy.asarray(numbers)[direct] for numbers in (self.starts, self.lengths))
        wrong = first_wrong(address, starts, lengths, self.sums[direct])
        return None if wrong is None else int(direct[wrong])


class _WholePlan:
    """The same for samples of one size that fill whole units, so that nothing but samples is read: they are records.

    size: of each, in bytes."""

    def __init__(self, pack, numbers, has_sums):
        header, count = pack.header, len(numbers)
        self.numbers, self.has_sums, self.size = numbers, has_sums, header.fixed_bytes
        self.bytes = self.direct_bytes = count * self.size
        self.starts, self.lengths = range(0, self.bytes, self.size), [self.size] * count
        self.sums = pack._sums.of(numbers) if has_sums else None

    @property
    def direct(self):
        """Of each, whether it is read directly."""
        return numpy.ones(len(self.numbers), bool)

    @property
    def offsets(self):
        """Of each in the data."""
        return self.numbers * self.size

    def read(self, pack, memory):
        """All of them. Returns a Result."""
        header, count = pack.header, len(self.numbers)
        if not count:
            return NOTHING_READ
        records = lib.Records(offset=header.data_offset, count=header.samples, length=self.size)
        numbers = (ctypes.c_int64 * count).from_buffer(self.numbers)
        return pack._into(memory, lambda target, lent: target._gather_records(lent, records, numbers))

    def first_wrong(self, address):
        """The number in the batch of the first sample whose checksum is another, or None."""
        count = len(self.numbers)
        return first_wrong(address, numpy.arange(0, self.bytes, self.size), numpy.full(count, self.size), self.sums)


class _Sums:
    """The checksums of samples from an index that has nothing else. Those of pages that were read stay, up to a size."""

    def __init__(self, pack):
        header = pack.header
        self._pack, self._each = weakref.proxy(pack), form.PER_PAGE[header.index_kind]
        self._kept = None
        if header.index_pages * form.PAGE_BYTES <= _INDEX_CACHE_BYTES:
            self._known = numpy.zeros(header.index_pages, bool)
            self._kept = numpy.zeros((header.index_pages, self._each), numpy.uint32)

    def of(self, numbers):
        """Of samples that there are."""
        pack, header = self._pack, self._pack.header
        if not len(numbers):
            return numpy.zeros(0, numpy.uint32)
        if self._kept is None:
            return pack._entries(numbers, "sum", header.index_kind, header.index_offset)[2]
        pages = numbers // self._each
        known = self._known[pages]
        if not known.all():
            lacking = numpy.unique(pages[~known]).tolist()
            for number, page in pack._load(header.index_kind, lacking, header.index_offset, False).items():
                self._kept[number] = page.view(form.PAGES[header.index_kind])["sum"][0]
                self._known[number] = True
        return self._kept.reshape(-1)[numbers]


def _uuid_text(raw):
    return str(uuid.UUID(bytes=raw))
