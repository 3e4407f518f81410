# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of safetensors: tensors of PyTorch, read into the memory of their device."""
import json
import struct

from ._memory import ask_for_large_pages
from ._target import open as open_target

# A header is at most this long, as in safetensors itself.
_HEADER_BYTES_MAX = 100_000_000
_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "BOOL": "bool",
          "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def _header(target):
    """Names, types, shapes and places of the tensors, and where their data begins."""
    if target.size < 8:
        raise ValueError(f"{target.name} is not a file of safetensors: it has {target.size} bytes")
    length = struct.unpack("<Q", bytes(target.read(0, 8)))[0]
    if length > min(_HEADER_BYTES_MAX, target.size - 8):
        raise ValueError(f"{target.name} is not a file of safetensors: its header has {length} bytes")
    try:
        header = json.loads(bytes(target.read(8, length)))
        header.pop("__metadata__", None)
        tensors = [(name, one["dtype"], [int(size) for size in one["shape"]], *map(int, one["data_offsets"]))
                   for name, one in header.items()]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise ValueError(f"{target.name} is not a file of safetensors: {problem}") from None
    return tensors, 8 + length


def load_file(filename, device="cpu", *, strict=False):
    """Reads all tensors of the file into new tensors on the device: a dictionary from name to tensor, as
    safetensors.torch.load_file() gives it. They share one allocation, in the order of the file, so that the data is read in
    one piece. strict: only the direct route.

    ValueError: the file is not whole, or not of safetensors.
    """
    import torch

    with open_target(filename, strict=strict) as target:
        tensors, begin = _header(target)
        size = target.size - begin
        # Room to begin and end with a block, at an address of which its device has an alignment.
        block, align = target.block_size, max(target.alignment, 64)
        skip = begin % block
        raw = torch.empty(size + skip + block + align, dtype=torch.uint8, device=device)
        if raw.device.type == "cpu":
            ask_for_large_pages(raw.data_ptr(), raw.numel())
        start = -raw.data_ptr() % align
        aligned = raw[start:]
        data = aligned[skip:skip + size]
        covered = 0
        for number, (name, kind, shape, first, last) in enumerate(sorted(tensors, key=lambda one: one[3:])):
            if not isinstance(kind, str) or kind not in _TYPES or not hasattr(torch, _TYPES[kind]):
                raise ValueError(f"{filename}: tensor {name} is of type {kind}, which this PyTorch does not have")
            length = getattr(torch, _TYPES[kind]).itemsize
            for one in shape:
                length *= one
            # A tensor without bytes may have any other sizes, which PyTorch has to take.
            if first != covered or last - first != length or min(shape, default=0) < 0 or max(shape, default=0) >> 63:
                raise ValueError(f"{filename}: tensor {number}, {name}, is at bytes {first} to {last}, and not at {covered} to "
                                 f"{covered + length}")
            covered = last
        if covered != size:
            raise ValueError(f"{filename} has {size} bytes of data, and its tensors have {covered}")
        whole = -(-(skip + size) // block) * block
        got = target.read_into(aligned, begin - skip, whole).bytes if size else 0
        if got < skip + size:
            raise ValueError(f"{filename} ends after {max(got - skip, 0)} of {size} bytes of data")
    found = {}
    for name, kind, shape, first, last in tensors:
        dtype, part = getattr(torch, _TYPES[kind]), data[first:last]
        # A type's tensors begin at multiples of its size.
        part = part.clone() if part.data_ptr() % dtype.itemsize else part
        found[name] = part.view(dtype).reshape(shape)
    return found
