# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that I/O goes to and comes from."""
import ctypes
import errno
import mmap
import operator
import sys
from ctypes import Structure, c_char_p, c_int, c_ssize_t, c_void_p, py_object

from . import _dlpack
from . import _library as lib

_WRITABLE, _SIMPLE = 1, 0
_HOST = (_dlpack.CPU, _dlpack.CUDA_HOST)
_GPU = (_dlpack.CUDA, _dlpack.CUDA_MANAGED)


class _Buffer(Structure):
    """Py_buffer. It gives back what it has with its last reference, and no line of Python runs then: an interrupt loses none."""
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p), ("strides", c_void_p), ("suboffsets", c_void_p),
                ("internal", c_void_p)]


_get_buffer = ctypes.PYFUNCTYPE(c_int, py_object, ctypes.POINTER(_Buffer), c_int)(("PyObject_GetBuffer", ctypes.pythonapi))
# Does nothing with one that was not filled in.
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Buffer))(("PyBuffer_Release", ctypes.pythonapi))
_Buffer.__del__ = lib.method(_release_buffer)


_PAGE, _LARGE_PAGE = 4096, 2 << 20
_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = (c_void_p, ctypes.c_size_t, c_int)


def ask_for_large_pages(address, length):
    """Asks the kernel for large pages where memory of the host is new: to make small ones costs more than to read into them. A
    kernel that has none does without."""
    begin, end = -(-address // _PAGE) * _PAGE, (address + length) // _PAGE * _PAGE
    if end - begin >= 2 * _LARGE_PAGE:
        _madvise(begin, end - begin, mmap.MADV_HUGEPAGE)


class _View:
    """The memory of an object with the buffer protocol. Its owner cannot resize it meanwhile."""

    def __init__(self, owner, writable):
        self._view = _Buffer()
        # Raises what the object has to say: that it is read-only, or not contiguous.
        _get_buffer(owner, ctypes.byref(self._view), _WRITABLE if writable else _SIMPLE)
        self.address, self.length, self.device = self._view.buf or 0, self._view.len, (_dlpack.CPU, 0)

    def end(self):
        self._view = None


class _Tensor:
    """A tensor of PyTorch. Its storage stays as long as this."""

    def __init__(self, tensor):
        if not tensor.is_contiguous():
            raise ValueError("the tensor is not contiguous: use a copy by .contiguous()")
        kind = tensor.device.type
        if tensor.is_conj() or tensor.is_neg():
            raise ValueError("the tensor is conjugated or negated lazily: call .resolve_conj().resolve_neg() first")
        if kind not in ("cpu", "cuda"):
            raise ValueError(f"the tensor is on device {kind}: weft reads and writes memory of the CPU and of CUDA")
        # Of its own: somebody may give the tensor another storage.
        self._tensor = tensor.detach()
        self.address, self.length = tensor.data_ptr(), tensor.numel() * tensor.element_size()
        self.device = (_dlpack.CPU, 0) if kind == "cpu" else (_dlpack.CUDA, tensor.device.index or 0)

    def end(self):
        self._tensor = None


def borrow(owner, writable):
    """The memory of any object: its address, length and device, until its end()."""
    # Of PyTorch without importing it. Its __dlpack__() refuses tensors that need a gradient, and waits for a stream.
    if hasattr(owner, "data_ptr") and hasattr(owner, "is_contiguous") and hasattr(owner, "element_size"):
        return _Tensor(owner)
    if writable and type(owner).__module__.partition(".")[0] in ("jax", "jaxlib"):
        raise BufferError("arrays of JAX are immutable: read into an array of CuPy or numpy, and give that to JAX by DLPack")
    try:
        memoryview(owner).release()
    # Arrays of JAX have the buffer protocol, and refuse it for memory of a GPU.
    except (TypeError, BufferError) as problem:
        if hasattr(owner, "__dlpack__"):
            borrowed = _dlpack.Borrowed(owner)
            if borrowed.device[0] not in _HOST + _GPU:
                device = borrowed.device[0]
                borrowed.end()
                raise ValueError(f"its memory is on DLPack device {device}: weft reads and writes memory of the CPU and "
                                 "of CUDA") from None
            return borrowed
        if isinstance(problem, BufferError):
            raise
        raise TypeError(f"{type(owner).__name__} has no memory that weft can use: give a tensor, an array, or an object "
                        "that has the buffer protocol or DLPack") from None
    return _View(owner, writable)


class Memory:
    """A memory of libweft's for one that was borrowed, or of its own."""

    def __init__(self, handle, length, device, borrowed=None):
        self.handle, self.length, self.device, self._borrowed = handle, length, device, borrowed

    @property
    def gpu(self):
        """Its number in CUDA, or None."""
        return self.device[1] if self.device[0] in _GPU else None

    def wait_for_gpu(self):
        """What PyTorch has begun with the memory is done before devices beside the GPU use it. Other libraries' users wait
        themselves."""
        torch = sys.modules.get("torch")
        if self.device[0] in _GPU and torch and torch.cuda.is_initialized():
            torch.cuda.current_stream(self.device[1]).synchronize()

    @classmethod
    def of(cls, owner, writable):
        borrowed = borrow(owner, writable)
        if not borrowed.length:
            return cls(None, 0, borrowed.device, borrowed)
        make = lib.memory_from_cuda if borrowed.device[0] in _GPU else lib.memory_of
        return cls(make(borrowed.address, borrowed.length), borrowed.length, borrowed.device, borrowed)

    def end(self):
        self.handle = None
        if self._borrowed:
            self._borrowed.end()
            self._borrowed = None

    def __del__(self):
        self.end()


class Buffer:
    """Bytes that libweft has allocated: pages of the host, or memory of a GPU.

    Other libraries use them without a copy, by DLPack (numpy.from_dlpack(buffer), torch.from_dlpack(buffer)); by `view`, as
    torch.frombuffer(buffer.view, dtype=...); and a GPU's by __cuda_array_interface__, as torch.as_tensor(buffer, device="cuda").
    """

    def __init__(self, length, gpu=None):
        # ctypes would take their lower bits.
        if not 0 <= operator.index(length) < 1 << 63:
            raise ValueError(f"a buffer cannot have {length} bytes")
        if gpu is not None and not -(1 << 31) <= operator.index(gpu) < 1 << 31:
            raise OSError(errno.ENOENT, f"there is no GPU {gpu}")
        handle = lib.memory_allocate(max(length, 1)) if gpu is None else lib.memory_allocate_cuda(gpu, max(length, 1))
        device = (_dlpack.CPU, 0) if gpu is None else (_dlpack.CUDA, gpu)
        # A pool does not use it again.
        self.is_spoiled = False
        self.memory = Memory(handle, length, device)
        self.address = lib.memory_data(handle) if gpu is None else lib.memory_device_pointer(handle)

    def __len__(self):
        return self.memory.length

    @property
    def view(self):
        """A memoryview of the bytes, which keeps the buffer."""
        if self.memory.device[0] != _dlpack.CPU:
            raise BufferError("the CPU cannot reach memory of a GPU: use bytes() for a copy")
        array = (ctypes.c_ubyte * len(self)).from_address(self.address)
        array.owner = self
        return memoryview(array).cast("B")

    @property
    def __cuda_array_interface__(self):
        if self.memory.device[0] != _dlpack.CUDA:
            raise AttributeError("this is host memory, without a CUDA array interface")
        return {"shape": (len(self),), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def __dlpack_device__(self):
        return self.memory.device

    def __dlpack__(self, **options):
        """A capsule, which keeps the buffer. Another library makes it, because its destructor has to be in C: it may run while
        an exception is on its way. BufferError: no such library is here."""
        if self.memory.device[0] == _dlpack.CPU:
            try:
                import numpy  # pylint: disable=import-outside-toplevel
            except ImportError:
                raise BufferError("DLPack of a host buffer needs numpy: install it, or use the buffer's view") from None
            return numpy.frombuffer(self.view, numpy.uint8).__dlpack__(**options)
        # Who wants a GPU's memory has imported one of them.
        for name, borrowed in (("torch", "as_tensor"), ("cupy", "asarray")):
            if name in sys.modules:
                device = {"device": f"cuda:{self.memory.device[1]}"} if name == "torch" else {}
                return getattr(sys.modules[name], borrowed)(self, **device).__dlpack__(**options)
        raise BufferError("DLPack of a GPU's buffer needs torch or cupy: import one of them")

    def __bytes__(self):
        data = ctypes.create_string_buffer(len(self))
        wrong = lib.memory_copy_out(self.memory.handle, 0, data, len(self)) if len(self) else 0
        if wrong:
            raise OSError(-wrong, "the buffer cannot be copied to the host")
        return data.raw


def empty(length, gpu=None):
    """A new Buffer of so many bytes: of the host, or of that GPU by its number in CUDA. Host pages are zero."""
    return Buffer(operator.index(length), gpu)
