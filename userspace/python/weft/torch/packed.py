# SPDX-License-Identifier: LGPL-2.1-or-later
"""Packed datasets for PyTorch's DataLoader.

    dataset = weft.torch.PackedDataset("/mnt/data/train.weft")
    sampler = weft.torch.Shuffle(dataset, seed=1)
    loader = torch.utils.data.DataLoader(dataset, batch_size=256, sampler=sampler, num_workers=4)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for step, batch in enumerate(loader): ...
"""
import operator

import numpy
import torch as _torch

from .. import pack as _pack
from ._memory import Reads, for_batch


class PackedDataset(Reads, _torch.utils.data.Dataset):
    """Samples of a packed dataset: tensors, or dictionaries of them with the names of their parts. A batch is one gather, and
    what the index and small samples need; its samples are views of one tensor. The part "__key__" is a string. Samples of one
    size can be read as rows of one tensor, by a list of indices, as of weft.torch.Dataset.

    dtype: of the tensors of a dataset without parts; they have one dimension. Parts are of uint8.
    device: where the bytes are read to. A GPU's is for loaders without workers, or with spawn.
    verify: compare all checksums (True), none (False), or those of small samples, and of larger ones if the device is the CPU
    (None): a checksum is computed by the CPU, so a large sample would go to a GPU through host memory.
    decode: is called with each sample, for example to decode a picture; its result is the sample.
    bound, strict, cache: as of weft.pack.Pack.

    weft.pack.PackError: the dataset is damaged, or has changed since it was opened.
    """

    def __init__(self, name, *, dtype=_torch.uint8, device="cpu", verify=None, decode=None, **options):
        self._device, self._dtype, self._verify, self._decode = _torch.device(device), dtype, verify, decode
        self.pack = _pack.Pack(name, verify=verify is not False, **options)
        if self.pack.header.is_parts and dtype != _torch.uint8:
            raise ValueError(f"{self.pack.name} has samples of parts, which are of uint8")

    def __len__(self):
        return len(self.pack)

    def __getitem__(self, index):
        """A sample; for a list of indices of samples of one size, a tensor with a row for each."""
        try:
            len(index)
        except TypeError:
            return self.__getitems__([operator.index(index)])[0]
        if self.pack.header.is_parts:
            raise TypeError("samples of parts cannot be rows of a tensor: read them one by one")
        if self._decode is not None:
            raise TypeError("decode works only on samples one by one, and not on rows of a tensor")
        plan, data = self._read(index)
        return self._rows(plan, data)

    def __getitems__(self, indices):
        """The samples of a batch, read at once into one allocation."""
        plan, data = self._read(indices)
        if self.pack.header.is_parts:
            samples = [self._parts(data[start:start + length], int(number))
                       for start, length, number in zip(plan.starts, plan.lengths, plan.numbers)]
        else:
            samples = self._split(plan, data)
        return samples if self._decode is None else [self._decode(sample) for sample in samples]

    def _read(self, indices):
        """The plan of a batch, and its bytes."""
        on_cpu = self._device.type == "cpu"
        plan = self.pack.plan(indices, reachable=on_cpu, trust_large=not on_cpu and self._verify is None)
        memory, data = for_batch(self.pack.pool, plan.bytes, self._device)
        if on_cpu:
            self._came_by(self.pack.read_planned(plan, memory, data.numpy()[plan.direct_bytes:], data.data_ptr()))
        else:
            tail = _torch.empty(plan.bytes - plan.direct_bytes, dtype=_torch.uint8)
            self._came_by(self.pack.read_planned(plan, memory, tail.numpy()))
            data[plan.direct_bytes:].copy_(tail)
        return plan, data

    def _elements(self, plan):
        """Starts and lengths in elements, of which the samples consist."""
        size, lengths, starts = self._dtype.itemsize, numpy.asarray(plan.lengths), numpy.asarray(plan.starts)
        wrong = numpy.flatnonzero(lengths % size)
        if len(wrong):
            raise ValueError(f"sample {int(plan.numbers[wrong[0]])} has {lengths[wrong[0]]} bytes, which are not whole "
                             f"elements of {self._dtype}")
        return (None if (starts % size).any() else starts // size), lengths // size

    def _split(self, plan, data):
        """A tensor for each sample: all views by one call, because one for each costs more than its read."""
        if plan.size is not None:
            return list(self._rows(plan, data).unbind())
        starts, lengths = self._elements(plan)
        if starts is None:
            # Copies: the elements of a tensor begin at multiples of their size.
            return [data[start:start + length].clone().view(self._dtype) for start, length in zip(plan.starts, plan.lengths)]
        data, samples = data.view(self._dtype), [None] * len(starts)
        # Of two at one place, the first has no bytes.
        order = numpy.lexsort((lengths, starts))
        room = numpy.diff(starts[order], append=data.numel())
        exact = (room == lengths[order]).tolist()
        for at, piece, fits in zip(order.tolist(), data.tensor_split(starts[order].tolist())[1:], exact):
            samples[at] = piece if fits else piece[:int(lengths[at])]
        return samples

    def _rows(self, plan, data):
        if plan.size is not None:
            return data.view(self._dtype).view(len(plan.numbers), plan.size // self._dtype.itemsize)
        starts, lengths = self._elements(plan)
        count = len(lengths)
        if count and (lengths != lengths[0]).any():
            raise TypeError("samples of different sizes cannot be rows of a tensor: read them one by one")
        length = int(lengths[0]) if count else 0
        stride = int(starts[1] - starts[0]) if starts is not None and count > 1 else length
        if not count or starts is None or (numpy.diff(starts) != stride).any() or stride < length:
            samples = self._split(plan, data)
            return _torch.stack(samples) if samples else _torch.empty(0, 0, dtype=self._dtype, device=self._device)
        flat = data.view(self._dtype)
        return flat.as_strided((count, length), (stride, 1), flat.storage_offset() + int(starts[0]))

    def _parts(self, data, number):
        places = self.pack.parts_of(data[:self.pack.head_bytes].cpu().numpy(), number, data.numel())
        parts = {name: data[at:at + length] for name, (at, length) in places.items()}
        key = parts.get(_pack.sources.KEY)
        if key is not None:
            parts[_pack.sources.KEY] = key.cpu().numpy().tobytes().decode("utf-8", "surrogateescape")
        return parts

    def close(self):
        """Closes the file in this process. The next read opens it again, if it has not changed."""
        self.pack.close()


class Shuffle(_torch.utils.data.Sampler):
    """The order of an epoch for DataLoader's `sampler`, computed as it goes; see weft.pack.Sampler, whose options these are.

    dataset: a PackedDataset, or any with a length. Without rank and world, they are those of torch.distributed if it is
    initialized. For a dataset of small samples, block and window are by default those of weft.pack.locality().

        sampler.set_epoch(epoch)                                 # at the start of each
        state = sampler.state_dict(consumed=step * batch_size)   # what this rank has used; of any rank
        sampler.load_state_dict(state)                           # goes on there, also with another number of ranks
    """

    def __init__(self, dataset, *, rank=None, world=None, **options):
        distributed = _torch.distributed.is_available() and _torch.distributed.is_initialized()
        if (rank is None) != (world is None):
            raise ValueError("rank and world belong together")
        if rank is None:
            rank, world = (_torch.distributed.get_rank(), _torch.distributed.get_world_size()) if distributed else (0, 1)
        if "block" not in options and isinstance(dataset, PackedDataset):
            options = {**_pack.locality(dataset.pack), **options}
        self._sampler = _pack.Sampler(len(dataset), rank=rank, world=world, **options)

    def set_epoch(self, epoch):
        """Begins with the first sample of that epoch, unless load_state_dict() was within it."""
        self._sampler.set_epoch(epoch)

    def __len__(self):
        return len(self._sampler)

    def __iter__(self):
        return iter(self._sampler)

    def state_dict(self, consumed=0):
        """consumed: samples that this rank has used since the epoch began or was resumed. The state has 24 bytes."""
        return {"state": self._sampler.state(consumed)}

    def load_state_dict(self, state):
        self._sampler.resume(state["state"])


__all__ = ["PackedDataset", "Shuffle"]
