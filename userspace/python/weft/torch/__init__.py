# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of a weft volume or file for PyTorch's DataLoader: a batch is one gather.

    dataset = weft.torch.Dataset("/mnt/data/tokens.bin", record=4096 * 2, dtype=torch.uint16)
    loader = torch.utils.data.DataLoader(dataset, batch_size=256, shuffle=True, num_workers=4)

A loader makes views of the samples of a batch, and copies them into a new tensor. Neither is needed if it gets whole batches:

    sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(dataset), 256, drop_last=False)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=4)

Workers may be started by fork or spawn. Each has an engine of its own, and opens the file when it reads first.

PackedDataset reads the packed datasets of weft.pack, and Shuffle is a sampler for any dataset. They need numpy.
"""
import ctypes
import errno
import operator
import os
import struct

import torch as _torch

from .. import _library as _lib
from .._stamp import Stamp, path_of
from .._target import LARGEST_EXTENT, _Lent, _number, _rows, int64s
from .._target import open as open_target
from ._memory import Reads, for_batch


class Dataset(Reads, _torch.utils.data.Dataset):
    """Records of one size, or extents of several sizes.

    name: of a volume, or the path of a file or block device.
    record: bytes of each sample, which begin at `offset`, one behind the other, `count` of them (to the end without it).
    extents: instead of that, a sequence of (offset, length) for each sample.
    dtype: of the tensors, which have one dimension. The samples of a batch are views of one tensor.
    device: where the bytes are read to. A GPU's is for loaders without workers, or with spawn.
    strict: only the direct route.

    OSError with ESTALE: the file was written to, or another one has its name, since the dataset was made.
    """

    def __init__(self, name, record=None, *, offset=0, count=None, extents=None, dtype=_torch.uint8, device="cpu", strict=False):
        if (record is None) == (extents is None):
            raise ValueError("either record says how long all samples are, or extents where each is")
        self._name, self._strict, self._device, self._dtype = os.fspath(name), strict, _torch.device(device), dtype
        self._record, self._offset, self._extents = record, offset, extents
        self._target, self._process = None, None
        self._path = path_of(self._name)
        self._stamp = Stamp.of(self._path)
        if extents is not None:
            self._count = len(extents)
            return
        if record <= 0 or record % dtype.itemsize or offset < 0:
            raise ValueError(f"records of {record} bytes at {offset} are not whole elements of {dtype}")
        if record > LARGEST_EXTENT:
            raise ValueError(f"records must be below 2 GiB, not {record} bytes: use read_into()")
        if count is not None and count < 0:
            raise ValueError(f"count is {count}, and has to be 0 or more")
        have = max(0, self._open().size - offset) // record
        if count is not None and count > have:
            raise ValueError(f"{self._name} has {have} records of {record} bytes from {offset} on, and {count} were requested")
        self._count = have if count is None else count

    def _open(self):
        # A child of fork() opens it for itself: its parent may close its own.
        if self._target is None or self._process != os.getpid():
            self._target, self._process = open_target(self._name, strict=self._strict), os.getpid()
        return self._target

    def _check_unchanged(self):
        """All reads call this as they end, so that an epoch never has records of two files."""
        difference = Stamp.of(self._path).difference(self._stamp)
        if difference:
            raise OSError(errno.ESTALE, f"{self._name}: {difference}")

    def __getstate__(self):
        return {**self.__dict__, "_target": None}

    def __len__(self):
        return self._count

    def _index(self, index):
        if index < -self._count or index >= self._count:
            raise IndexError(f"sample {index} of {self._count}")
        return index % self._count

    def _extent(self, index):
        offset, length = map(_number, self._extents[index])
        if length % self._dtype.itemsize:
            raise ValueError(f"sample {index} has {length} bytes, which are not whole elements of {self._dtype}")
        return offset, length

    def __getitem__(self, index):
        """A sample; for a list of indices and records of one size, a tensor with a row for each."""
        try:
            len(index)
        except TypeError:
            return self.__getitems__([operator.index(index)])[0]
        if self._extents is not None:
            raise TypeError("samples of different sizes cannot be rows of a tensor: read them one by one")
        return self._records(index)

    def __getitems__(self, indices):
        """The samples of a batch, read at once into one allocation."""
        if self._extents is None:
            return list(self._records(indices).unbind()) if len(indices) else []
        places = [self._extent(self._index(operator.index(index))) for index in indices]
        rows = _rows(places)
        data = self._read(lambda target, lent: target._gather(lent, rows), sum(length for _, length in places))
        # Each begins at a multiple of the elements' size, because the lengths are.
        samples, at = [], 0
        for _, length in places:
            samples.append(data[at:at + length // self._dtype.itemsize])
            at += length // self._dtype.itemsize
        return samples

    def _records(self, indices):
        # All of a batch at once: a step of Python for each sample costs more than its read.
        indices = indices.tolist() if hasattr(indices, "tolist") else list(indices)
        if indices and isinstance(indices[0], bool):
            raise TypeError("indices are numbers of samples: for a mask, use mask.nonzero()")
        records = _lib.Records(offset=self._offset, count=self._count, length=self._record)
        numbers = (ctypes.c_int64 * len(indices))()

        def read(target, lent):
            try:
                return target._gather_records(lent, records, int64s(indices, numbers))
            except (IndexError, struct.error):
                # Some count from the end, or are outside, or are no integers.
                known = [self._index(operator.index(index)) for index in indices]
                return target._gather_records(lent, records, int64s(known, numbers))
        return self._read(read, self._record * len(indices)).view(len(indices), self._record // self._dtype.itemsize)

    def _read(self, read, length):
        """A tensor of that many bytes, which read(target, lent) fills. It returns a Result."""
        target = self._open()
        memory, data = for_batch(target.pool, length, self._device)
        try:
            with _Lent(target, memory, True) as lent:
                self._came_by(read(target, lent))
        finally:
            # A read that failed, because the file is shorter, as well.
            self._check_unchanged()
        return data if self._dtype is _torch.uint8 else data.view(self._dtype)

    def close(self):
        """Closes the file in this process. The next read opens it again, if it has not changed."""
        target, self._target = self._target, None
        if target and self._process == os.getpid():
            target.close()


def __getattr__(name):
    # What needs numpy is imported when it is used.
    if name in ("PackedDataset", "Shuffle"):
        from . import packed
        return getattr(packed, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
