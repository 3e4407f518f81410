# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of libweft, as weft.h declares them."""
import ctypes
import os
from ctypes import (POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p,
                    py_object)

READ, WRITE, READ_WRITE, SHARED = 1, 2, 3, 4
ALLOW_VMAP, ALLOW_BOUNCE, ALLOW_STAGED, READ_ONLY, PERSISTENT = 1, 2, 4, 8, 16


class Error(Structure):
    _fields_ = [("code", c_int), ("text", c_char * 512)]


class Geometry(Structure):
    _fields_ = [("size", c_uint64), ("block_size", c_uint32), ("alignment", c_uint32), ("chunk_size", c_uint32),
                ("member_count", c_uint32), ("reserved", c_uint64 * 5)]


class Io(Structure):
    _fields_ = [("size", c_size_t), ("offset", c_uint64), ("memory_offset", c_uint64), ("length", c_uint64),
                ("token", c_uint64), ("deadline", c_int64)]


class Completion(Structure):
    _fields_ = [("token", c_uint64), ("result", c_int64), ("route", c_int), ("reserved", c_uint32 * 3)]


class EngineOptions(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("entries", c_uint32), ("staging_slots", c_uint32),
                ("staging_bytes", c_uint32), ("stream", c_void_p)]


class Extent(Structure):
    # Three numbers of 64 bits where the lowest byte is the first: the order is zero, and filled in by the library.
    _fields_ = [("offset", c_uint64), ("memory_offset", c_uint64), ("length", c_uint32), ("order", c_uint32)]


class GatherOptions(Structure):
    _fields_ = [("size", c_size_t), ("capacity", c_uint32), ("depth", c_uint32), ("largest", c_uint32)]


class Records(Structure):
    _fields_ = [("offset", c_uint64), ("count", c_uint64), ("length", c_uint32), ("reserved", c_uint32)]


class Gathered(Structure):
    _fields_ = [("bytes", c_uint64), ("failed", c_uint32), ("reads", c_uint32), ("route", c_int), ("reserved", c_uint32 * 3)]


_lib = ctypes.CDLL(os.environ.get("WEFT_LIBRARY", "libweft.so.0"))


def _does(name, result, *arguments):
    function = getattr(_lib, name)
    function.restype, function.argtypes = result, list(arguments)
    return function


# What makes a method of a callable that is not written in Python.
method = ctypes.PYFUNCTYPE(py_object, py_object)(("PyInstanceMethod_New", ctypes.pythonapi))


def _owned(end):
    """The type of objects that end with their last reference; `end` takes NULL, too. ctypes makes them before a signal's handler
    can run, and no line of Python runs when they end, so an interrupt loses none."""
    return type("Owned", (c_void_p,), {"__del__": method(end)})


def _makes(name, *arguments, end=None):
    """A function that makes an object, or raises the reason why not. end: what ends the object; its caller without that."""
    function = _does(name, _owned(end) if end else c_void_p, *arguments, POINTER(Error))

    def make(*given):
        error = Error()
        made = function(*given, ctypes.byref(error))
        if not made:
            raise OSError(error.code, error.text.decode(errors="replace"))
        return made
    return make


def _tries(name, *arguments):
    """A function that does something, or raises the reason why not."""
    function = _does(name, c_int, *arguments, POINTER(Error))

    def do(*given):
        error = Error()
        if function(*given, ctypes.byref(error)):
            raise OSError(error.code, error.text.decode(errors="replace"))
    return do


route_name = _does("weft_route_name", c_char_p, c_int)

_close = _does("weft_close", None, c_void_p)
open_target = _makes("weft_open", c_char_p, c_int, end=_close)
file_create = _makes("weft_file_create", c_char_p, c_uint64, end=_close)
file_write = _tries("weft_file_write", c_void_p, c_void_p, c_void_p, c_uint64, c_uint64, c_uint64)
file_finish = _tries("weft_file_finish", c_void_p)
target_geometry = _does("weft_target_geometry", None, c_void_p, POINTER(Geometry))
target_reason = _does("weft_target_reason", c_char_p, c_void_p)

_free = _does("weft_memory_free", None, c_void_p)
memory_allocate = _makes("weft_memory_allocate", c_size_t, end=_free)
memory_allocate_cuda = _makes("weft_memory_allocate_cuda", c_int, c_size_t, end=_free)
memory_of = _makes("weft_memory_of", c_void_p, c_size_t, end=_free)
memory_from_cuda = _makes("weft_memory_from_cuda", c_uint64, c_size_t, end=_free)
memory_data = _does("weft_memory_data", c_void_p, c_void_p)
memory_device_pointer = _does("weft_memory_device_pointer", c_uint64, c_void_p)
memory_copy_out = _does("weft_memory_copy_out", c_int, c_void_p, c_size_t, c_void_p, c_size_t)

register = _makes("weft_register", c_void_p, c_void_p, c_uint, end=_does("weft_unregister", None, c_void_p))
registration_route = _does("weft_registration_route", c_int, c_void_p)
registration_reason = _does("weft_registration_reason", c_char_p, c_void_p)

engine_create = _makes("weft_engine_create", POINTER(EngineOptions))
engine_destroy = _does("weft_engine_destroy", None, c_void_p)
read = _does("weft_read", c_int, c_void_p, c_void_p, c_void_p, POINTER(Io), c_void_p)
write = _does("weft_write", c_int, c_void_p, c_void_p, c_void_p, POINTER(Io), c_void_p)
flush = _does("weft_flush", c_int, c_void_p, c_void_p, c_uint64)
wait = _does("weft_wait", c_size_t, c_void_p, POINTER(Completion), c_size_t, c_int64)

gather_create = _makes("weft_gather_create", c_void_p, POINTER(GatherOptions))
gather_run = _does("weft_gather_run", c_int, c_void_p, c_void_p, c_void_p, POINTER(Extent), c_size_t, POINTER(c_int32),
                   POINTER(Gathered), POINTER(Error))
gather_run_records = _does("weft_gather_run_records", c_int, c_void_p, c_void_p, c_void_p, POINTER(Records), POINTER(c_int64),
                           c_size_t, c_uint64, POINTER(c_int32), POINTER(Gathered), POINTER(Error))
gather_destroy = _does("weft_gather_destroy", None, c_void_p)


def sized(kind, **fields):
    """A struct of options or an I/O, with its size."""
    return kind(size=ctypes.sizeof(kind), **fields)
