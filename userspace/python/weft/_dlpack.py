# SPDX-License-Identifier: LGPL-2.1-or-later
"""DLPack, by ctypes: the protocol by which libraries of tensors lend each other memory (dlpack.h, version 0.8).

Memory is borrowed here. What weft lends is in capsules that NumPy, PyTorch or CuPy make: a capsule's destructor may run while an
exception is on its way, so it has to be in C.
"""
import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, py_object

CPU, CUDA, CUDA_HOST, ROCM, CUDA_MANAGED = 1, 2, 3, 10, 13
# A consumer renames the capsule. A capsule that still has the first name was not consumed.
_UNTAKEN, _TAKEN = b"dltensor", b"used_dltensor"


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int), ("device_id", c_int), ("ndim", c_int), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Managed(Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _DELETER)]


def _api(name, result, *arguments):
    """A function of Python itself; each has a prototype of its own here, as other users of ctypes set others."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _api("PyCapsule_IsValid", c_int, py_object, c_char_p)
_pointer = _api("PyCapsule_GetPointer", c_void_p, py_object, c_char_p)
_rename = _api("PyCapsule_SetName", c_int, py_object, c_char_p)


class Borrowed:
    """The memory of an object that has __dlpack__(): address, length in bytes and device."""

    def __init__(self, lender):
        capsule = lender.__dlpack__()
        if not _is_valid(capsule, _UNTAKEN):
            raise TypeError(f"{type(lender).__name__}.__dlpack__() gives no DLPack capsule")
        self._managed = ctypes.cast(_pointer(capsule, _UNTAKEN), POINTER(_Managed))
        _rename(capsule, _TAKEN)
        tensor = self._managed.contents.tensor
        shape = [tensor.shape[i] for i in range(tensor.ndim)]
        if not _is_dense(shape, tensor.strides):
            self.end()
            raise ValueError("the tensor is not contiguous: use a copy by .contiguous()")
        bits = tensor.bits * tensor.lanes
        if not bits or bits % 8:
            self.end()
            raise ValueError(f"the tensor has elements of {bits} bits, and weft moves whole bytes: use a view of it as bytes")
        self.length = bits // 8
        for size in shape:
            self.length *= size
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.device = (tensor.device_type, tensor.device_id)

    def end(self):
        managed, self._managed = self._managed, None
        if managed and managed.contents.deleter:
            managed.contents.deleter(managed)

    def __del__(self):
        if getattr(self, "_managed", None):
            self.end()


def _is_dense(shape, strides):
    if not strides or 0 in shape:
        return True
    wanted = 1
    for i in range(len(shape) - 1, -1, -1):
        if shape[i] != 1 and strides[i] != wanted:
            return False
        wanted *= shape[i]
    return True
