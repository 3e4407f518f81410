# SPDX-License-Identifier: LGPL-2.1-or-later
"""CRC32C by libweft: a loop in Python is 10,000 times slower."""
from ctypes import c_size_t, c_uint32, c_void_p

import numpy

from .. import _library as lib

_crc32c = lib._does("weft_crc32c", c_uint32, c_uint32, c_void_p, c_size_t)
_compare = lib._does("weft_crc32c_compare", c_size_t, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t)


def crc32c(data, crc=0):
    """Of the bytes of any object with the buffer protocol. crc: 0, or the checksum of the bytes before."""
    if isinstance(data, bytes):
        return _crc32c(crc, data, len(data))
    view = numpy.frombuffer(data, numpy.uint8)
    return _crc32c(crc, view.ctypes.data, view.size)


def first_wrong(address, offsets, lengths, sums):
    """Of pieces of the bytes at an address, which the caller keeps: the number of the first whose checksum is another, or None.
    Arrays of integers."""
    offsets, lengths = (numpy.ascontiguousarray(numbers, numpy.uint64) for numbers in (offsets, lengths))
    sums, count = numpy.ascontiguousarray(sums, numpy.uint32), len(sums)
    wrong = _compare(address, offsets.ctypes.data, lengths.ctypes.data, sums.ctypes.data, count)
    return wrong if wrong < count else None
