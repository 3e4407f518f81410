# SPDX-License-Identifier: LGPL-2.1-or-later
"""Packed datasets: billions of small samples in one file, with checksums, read in any order.

    from weft import pack

    pack.pack(sources.Tar("train-000.tar"), "/mnt/data/train.weft")      # or an iterable of bytes, or weft-pack
    with pack.Pack("/mnt/data/train.weft") as data:
        sampler = pack.Sampler(len(data), seed=1, **pack.locality(data))
        for number in sampler:
            sample = data[number]

docs/packed.md describes the file. weft.torch.PackedDataset reads it for PyTorch's DataLoader. This package needs numpy.
"""
from . import sources
from ._convert import pack, unpack_folder, unpack_tar
from ._error import PackError
from ._reader import Pack
from ._shuffle import Order, Sampler, locality
from ._writer import Made, Writer, seal

__all__ = ["Made", "Order", "Pack", "PackError", "Sampler", "Writer", "locality", "pack", "seal", "sources", "unpack_folder",
           "unpack_tar"]
