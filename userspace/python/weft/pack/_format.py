# SPDX-License-Identifier: LGPL-2.1-or-later
"""The bytes of a packed dataset; docs/packed.md describes them. Nothing else knows them.

    header, 4 KiB | hole up to one cell | data: cells | index: pages | checksums of the cells: pages | text

All numbers are little endian. A page has 4 KiB, its number, its kind and a checksum, which starts from the dataset's UUID: a
page of another dataset, or at another place, is not taken for this one's.
"""
import json
import struct
from typing import NamedTuple

import numpy

from ._crc import crc32c
from ._error import PackError

MAGIC, VERSION = b"WEFTPACK", 1
HEADER_BYTES = PAGE_BYTES = 4096
# Samples whose index entry has a base of their own: one of these, and up to 63 behind it.
GROUP = 64
CELL_MIN, CELL_MAX = 64 << 10, 1 << 20
ALIGN_MIN, ALIGN_MAX = 512, 64 << 10
# What a reader keeps of cells, if nothing else is said. The usual order of an epoch depends on it.
CELL_CACHE_BYTES = 64 << 20
# A gather reads ranges below 2 GiB, in whole units of the alignment.
SAMPLE_MAX = (1 << 31) - (1 << 17)
TEXT_MAX = 1 << 20
NAMES_MAX = 4096

PARTS = 1       # incompatible flag: samples have named parts
_KNOWN = PARTS

# Kinds of pages.
LENGTHS, LENGTHS_AND_SUMS, SUMS, CELLS = 1, 2, 3, 4
_TRAILER = [("number", "<u8"), ("kind", "<u4"), ("check", "<u4")]
PAGES = {
    LENGTHS: numpy.dtype([("base", "<u8", 15), ("length", "<u4", 960), ("zero", "u1", 120), *_TRAILER]),
    LENGTHS_AND_SUMS: numpy.dtype([("base", "<u8", 7), ("length", "<u4", 448), ("sum", "<u4", 448), ("zero", "u1", 440),
                                   *_TRAILER]),
    SUMS: numpy.dtype([("sum", "<u4", 1020), *_TRAILER]),
    CELLS: numpy.dtype([("sum", "<u4", 1020), *_TRAILER]),
}
assert all(page.itemsize == PAGE_BYTES for page in PAGES.values())
PER_PAGE = {LENGTHS: 960, LENGTHS_AND_SUMS: 448, SUMS: 1020, CELLS: 1020}

_FIELDS = struct.Struct("<8sIIII16s" + 10 * "Q" + "IIIIII" + "QQQ" + "16sQ")
assert _FIELDS.size == 192


def round_up(value, unit):
    return -(-value // unit) * unit


class Header(NamedTuple):
    """The header's fields, in their order. Sizes and offsets are in bytes."""
    magic: bytes
    version: int
    header_bytes: int
    incompatible: int       # a reader refuses flags that it does not know
    compatible: int
    uuid: bytes
    file_bytes: int
    samples: int
    data_offset: int
    data_bytes: int
    index_offset: int
    index_pages: int
    cells_offset: int
    cells_pages: int
    text_offset: int
    text_bytes: int
    fixed_bytes: int        # of each sample; 0: the index has the lengths
    cell_bytes: int
    align: int
    index_kind: int         # 0: no index
    text_check: int
    reserved: int
    created: int            # seconds since 1970
    payload_bytes: int      # of all samples
    longest: int            # bytes of the longest sample
    volume_uuid: bytes      # 0: bound to no volume
    volume_generation: int

    def pack(self):
        raw = _FIELDS.pack(*self).ljust(HEADER_BYTES - 4, b"\0")
        return raw + struct.pack("<I", crc32c(raw))

    @property
    def cells(self):
        return -(-self.data_bytes // self.cell_bytes)

    @property
    def is_parts(self):
        return bool(self.incompatible & PARTS)

    @property
    def has_lengths(self):
        return self.index_kind in (LENGTHS, LENGTHS_AND_SUMS)

    @property
    def has_sums(self):
        return self.index_kind in (LENGTHS_AND_SUMS, SUMS)

    @property
    def is_small(self):
        """All samples are of one length that is below the alignment."""
        return 0 < self.fixed_bytes < self.align


def check_geometry(cell, align):
    """ValueError: a cell or an alignment that the format does not have."""
    for name, value, low, high in (("cell", cell, CELL_MIN, CELL_MAX), ("align", align, ALIGN_MIN, ALIGN_MAX)):
        if not low <= value <= high or value & (value - 1):
            raise ValueError(f"{name} is {value} bytes; it must be a power of two from {low} to {high}")


def fixed_place(number, length, cell, align):
    """Where sample `number` of samples of one length begins in the data; an int, or an array of int64."""
    if length >= align:
        return number * round_up(length, align)
    each = cell // length
    return number // each * cell + number % each * length


def layout(**fields):
    """The header of a dataset: what follows from the other fields is computed here."""
    samples, cell = fields["samples"], fields["cell_bytes"]
    data_offset = max(cell, HEADER_BYTES)
    index_offset = round_up(data_offset + fields["data_bytes"], PAGE_BYTES)
    kind = fields["index_kind"]
    index_pages = -(-samples // PER_PAGE[kind]) if kind else 0
    cells_offset = index_offset + index_pages * PAGE_BYTES
    cells_pages = -(-(-(-fields["data_bytes"] // cell)) // PER_PAGE[CELLS])
    text_offset = cells_offset + cells_pages * PAGE_BYTES
    computed = {"magic": MAGIC, "version": VERSION, "header_bytes": HEADER_BYTES, "data_offset": data_offset,
                "index_offset": index_offset, "index_pages": index_pages, "cells_offset": cells_offset,
                "cells_pages": cells_pages, "text_offset": text_offset, "reserved": 0,
                "file_bytes": round_up(text_offset + fields["text_bytes"], PAGE_BYTES)}
    return Header(**{"compatible": 0, **fields, **computed})


def parse(raw, path, size, exact):
    """The header, all of whose fields are sound. size: bytes of the file; exact: it has no more than the dataset."""
    def refuse(reason):
        raise PackError(path, reason)

    if len(raw) < HEADER_BYTES or raw[:8] != MAGIC:
        refuse("it is not a packed dataset: its first 8 bytes are not WEFTPACK")
    if struct.unpack_from("<I", raw, 8)[0] != VERSION:
        refuse(f"it has version {struct.unpack_from('<I', raw, 8)[0]} of the format, and this weft reads version {VERSION}")
    if struct.unpack_from("<I", raw, HEADER_BYTES - 4)[0] != crc32c(bytes(raw[:HEADER_BYTES - 4])):
        refuse("its header is damaged: the checksum is wrong")
    header = Header(*_FIELDS.unpack_from(raw))
    if header.incompatible & ~_KNOWN:
        refuse(f"it uses features {header.incompatible & ~_KNOWN:#x}, which this weft does not know: use a newer one")
    try:
        check_geometry(header.cell_bytes, header.align)
    except ValueError as wrong:
        refuse(f"its header is not valid: {wrong}")
    if header.index_kind not in (0, LENGTHS, LENGTHS_AND_SUMS, SUMS):
        refuse(f"its header is not valid: index kind {header.index_kind}")
    if bool(header.fixed_bytes) == header.has_lengths or max(header.fixed_bytes, header.longest) > SAMPLE_MAX:
        refuse("its header is not valid: the index does not match the length of the samples")
    if header != layout(**{name: value for name, value in header._asdict().items()}) or header.text_bytes > TEXT_MAX or \
            header.data_bytes % header.align or header.file_bytes >= 1 << 63 or header.samples >= 1 << 63:
        refuse("its header is not valid: the parts of the file do not follow one another")
    if header.fixed_bytes and header.samples:
        end = fixed_place(header.samples - 1, header.fixed_bytes, header.cell_bytes, header.align) + header.fixed_bytes
        if round_up(end, header.align) != header.data_bytes:
            refuse(f"its header is not valid: {header.samples} samples of {header.fixed_bytes} bytes are not in "
                   f"{header.data_bytes} bytes")
    if size < header.file_bytes:
        refuse(f"it is truncated: it has {size} of {header.file_bytes} bytes; copy it again")
    if exact and size > header.file_bytes:
        refuse(f"it has {size - header.file_bytes} bytes more than the dataset: something was appended to it")
    return header


def parse_text(raw, header, path):
    """The names of parts, and the attributes."""
    if crc32c(raw) != header.text_check:
        raise PackError(path, f"its text at {header.text_offset} is damaged: the checksum is wrong")
    try:
        text = json.loads(raw)
        names, attributes = text["names"], text["attributes"]
        if not (isinstance(attributes, dict) and isinstance(names, list) and len(names) <= NAMES_MAX and
                all(isinstance(name, str) for name in names)):
            raise ValueError("names or attributes are of another type")
    except (ValueError, KeyError, TypeError, RecursionError) as wrong:
        raise PackError(path, f"its text at {header.text_offset} is not valid: {wrong}") from None
    return names, attributes


def seal_pages(pages, kind, uuid, first):
    """Fills in the ends of an array of pages of one kind, whose first one has that number."""
    pages["number"], pages["kind"] = numpy.arange(first, first + len(pages), dtype=numpy.uint64), kind
    seed = crc32c(uuid)
    for number in range(len(pages)):
        pages["check"][number] = crc32c(pages[number:number + 1].view(numpy.uint8)[:PAGE_BYTES - 4], seed)


def check_page(raw, kind, uuid_check, number, path, offset):
    """PackError: it is damaged. raw: an array of its bytes. uuid_check: the checksum of the dataset's UUID."""
    page = raw.view(PAGES[kind])[0]
    if int(page["check"]) != crc32c(raw[:PAGE_BYTES - 4], uuid_check):
        what = "checksums of cells" if kind == CELLS else "index"
        raise PackError(path, f"its {what} is damaged: page {number}, at byte {offset}, has a wrong checksum")
    if int(page["number"]) != number or int(page["kind"]) != kind:
        raise PackError(path, f"page {number}, at byte {offset}, is another page of the file: it was written to a wrong place")


def places(bases, lengths, within, cell, align):
    """Where samples begin in the data. One row for each: the base of its group, the lengths of the samples in the group, and
    which of them it is. Arrays of int64."""
    count = int(within.max()) + 1 if len(within) else 0
    lengths = lengths[:, :count]
    if count and int(lengths.min()) >= align:
        steps = -(-lengths // align) * align
        before = numpy.cumsum(steps, axis=1) - steps
        return bases + before[numpy.arange(len(within)), within]
    found, end = numpy.zeros(len(within), numpy.int64), bases.copy()
    for column in range(count):
        length = lengths[:, column]
        crosses = (length > 0) & (end // cell != (end + length - 1) // cell)
        unit = numpy.where(length >= align, align, numpy.where(crosses, cell, 1))
        begin = -(-end // unit) * unit
        found = numpy.where(within == column, begin, found)
        end = begin + length
    return found


# --- Parts of a sample: their number, (name, bytes) of each, and their bytes.

_COUNT, _PART = struct.Struct("<I"), struct.Struct("<II")


def encode_parts(parts, number_of):
    """A sample of named parts. number_of: the number of a name."""
    table = [_COUNT.pack(len(parts)), *(_PART.pack(number_of(name), len(data)) for name, data in parts.items())]
    return b"".join(table + list(parts.values()))


def table_bytes(names):
    """How long the table of a sample's parts can be."""
    return _COUNT.size + len(names) * _PART.size


def decode_parts(data, names, path, number, size=None):
    """The parts of a sample, as a dictionary from names to (offset, bytes). data: the sample, or its first table_bytes(), of
    `size` bytes in all."""
    def refuse(reason):
        raise PackError(path, f"sample {number} is not valid: {reason}")

    size = len(data) if size is None else size
    count = _COUNT.unpack_from(data)[0] if len(data) >= _COUNT.size else len(names) + 1
    at = _COUNT.size + count * _PART.size
    if count > len(names) or at > len(data):
        refuse(f"it has {size} bytes, which do not hold a table of its parts")
    parts = {}
    for name, length in _PART.iter_unpack(bytes(data[_COUNT.size:at])):
        if name >= len(names) or names[name] in parts:
            refuse(f"its parts have the name number {name}, which is unknown or there twice")
        parts[names[name]] = at, length
        at += length
    if at != size:
        refuse(f"its parts have {at} bytes, and the sample has {size}")
    return parts
