# SPDX-License-Identifier: LGPL-2.1-or-later
"""CRC32C by libweft: a loop in Python is 10,000 times slower."""
from ctypes import c_size_t, c_uint32, c_void_p

import numpy

from .. import _library as lib

_crc32c = lib._does("weft_crc32c", c_uint32, c_uint32, c_void_p, c_size_t)


def crc32c(data, crc=0):
    """Of the bytes of any object with the buffer protocol. crc: 0, or the checksum of the bytes before."""
    if isinstance(data, bytes):
        return _crc32c(crc, data, len(data))
    view = numpy.frombuffer(data, numpy.uint8)
    return _crc32c(crc, view.ctypes.data, view.size)


def crc32c_at(address, length, crc=0):
    """Of bytes at an address, which the caller keeps."""
    return _crc32c(crc, address, length)
