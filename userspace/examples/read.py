#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libweft from Python, by ctypes alone: reads a range of a weft volume, or of any block device or file.

usage: read.py VOLUME-OR-FILE OFFSET LENGTH

What it gets has a DLPack capsule's protocol, so that numpy, PyTorch or JAX take it without a copy:
numpy.from_dlpack(buffer), torch.from_dlpack(buffer).
"""
import ctypes
import hashlib
import sys

lib = ctypes.CDLL("libweft.so.0")


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


class Geometry(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("block_size", ctypes.c_uint32), ("alignment", ctypes.c_uint32),
                ("chunk_size", ctypes.c_uint32), ("member_count", ctypes.c_uint32), ("reserved", ctypes.c_uint64 * 5)]


class Completion(ctypes.Structure):
    _fields_ = [("token", ctypes.c_uint64), ("result", ctypes.c_int64), ("route", ctypes.c_int),
                ("reserved", ctypes.c_uint32 * 3)]


class Io(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("offset", ctypes.c_uint64), ("memory_offset", ctypes.c_uint64),
                ("length", ctypes.c_uint64), ("token", ctypes.c_uint64), ("deadline", ctypes.c_int64)]


for name in ("weft_open", "weft_memory_allocate", "weft_register", "weft_engine_create", "weft_memory_data"):
    getattr(lib, name).restype = ctypes.c_void_p
lib.weft_wait.restype = ctypes.c_size_t
READ, ALLOW_STAGED = 1, 4


def made(function, *arguments):
    """An object of the library, or its sentence as an exception."""
    error = Error()
    made_object = function(*arguments, ctypes.byref(error))
    if not made_object:
        raise OSError(error.code, error.text.decode())
    return ctypes.c_void_p(made_object)


# DLPack: dlpack.h, version 0.8.
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class ManagedTensor(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedTensor))
ManagedTensor._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]
CPU, UINT = 1, 1
# A consumer renames the capsule. A capsule that still has this name was not consumed.
UNTAKEN = b"dltensor"
CAPSULE_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
for name, result, *arguments in (
        ("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, CAPSULE_DESTRUCTOR),
        ("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p),
        ("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)):
    getattr(ctypes.pythonapi, name).restype = result
    getattr(ctypes.pythonapi, name).argtypes = arguments
# The exported tensors by address: the buffer, and its description. Keeps both until the consumer frees the tensor.
lent = {}


@DELETER
def release(managed):
    lent.pop(ctypes.addressof(managed.contents), None)


@CAPSULE_DESTRUCTOR
def end_capsule(capsule):
    if ctypes.pythonapi.PyCapsule_IsValid(capsule, UNTAKEN):
        lent.pop(ctypes.pythonapi.PyCapsule_GetPointer(capsule, UNTAKEN), None)


class Buffer:
    """Host memory of the library's, as bytes."""

    def __init__(self, length):
        self.memory = made(lib.weft_memory_allocate, ctypes.c_size_t(length))
        self.length = length
        self.address = lib.weft_memory_data(self.memory)

    def __del__(self):
        if hasattr(self, "memory"):
            lib.weft_memory_free(self.memory)

    def __bytes__(self):
        return ctypes.string_at(self.address, self.length)

    def __dlpack_device__(self):
        return CPU, 0

    def __dlpack__(self, **_):
        managed = ManagedTensor()
        shape = (ctypes.c_int64 * 1)(self.length)
        managed.tensor = Tensor(self.address, CPU, 0, 1, UINT, 8, 1, shape, None, 0)
        managed.deleter = release
        lent[ctypes.addressof(managed)] = (self, managed, shape)
        return ctypes.pythonapi.PyCapsule_New(ctypes.addressof(managed), UNTAKEN, end_capsule)


def read(name, offset, length):
    target = made(lib.weft_open, name.encode(), READ)
    buffer = Buffer(length)
    registration = made(lib.weft_register, target, buffer.memory, ALLOW_STAGED)
    engine = made(lib.weft_engine_create, None)
    lib.weft_read(engine, target, registration, ctypes.byref(Io(ctypes.sizeof(Io), offset, 0, length)), None)
    completion = Completion()
    lib.weft_wait(engine, ctypes.byref(completion), ctypes.c_size_t(1), ctypes.c_int64(-1))
    lib.weft_engine_destroy(engine)
    lib.weft_unregister(registration)
    lib.weft_close(target)
    if completion.result < 0:
        raise OSError(-completion.result, f"{length} bytes at {offset} of {name}")
    return buffer, completion.result


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    buffer, got = read(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(f"{got} bytes, sha256 {hashlib.sha256(bytes(buffer)[:got]).hexdigest()}")


if __name__ == "__main__":
    main()
