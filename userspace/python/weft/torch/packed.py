# SPDX-License-Identifier: LGPL-2.1-or-later
"""Packed datasets for PyTorch's DataLoader.

    dataset = weft.torch.PackedDataset("/mnt/data/train.weft")
    sampler = weft.torch.Shuffle(dataset, seed=1)
    loader = torch.utils.data.DataLoader(dataset, batch_size=256, sampler=sampler, num_workers=4)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for step, batch in enumerate(loader): ...
"""
import torch as _torch

from .. import pack as _pack
from ._memory import for_batch


class PackedDataset(_torch.utils.data.Dataset):
    """Samples of a packed dataset: tensors, or dictionaries of them with the names of their parts. A batch is one gather, and
    what the index and small samples need; its samples are views of one tensor. The part "__key__" is a string.

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
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        """The samples of a batch, read at once into one allocation."""
        on_cpu = self._device.type == "cpu"
        plan = self.pack.plan(indices, reachable=on_cpu, trust_large=not on_cpu and self._verify is None)
        memory, data = for_batch(self.pack.pool, plan.bytes, self._device)
        if on_cpu:
            self.pack.read_planned(plan, memory, data.numpy()[plan.direct_bytes:], data.data_ptr())
        else:
            tail = _torch.empty(plan.bytes - plan.direct_bytes, dtype=_torch.uint8)
            self.pack.read_planned(plan, memory, tail.numpy())
            data[plan.direct_bytes:].copy_(tail)
        samples = [self._sample(data[start:start + length], int(number))
                   for start, length, number in zip(plan.starts, plan.lengths, plan.numbers)]
        return samples if self._decode is None else [self._decode(sample) for sample in samples]

    def _sample(self, data, number):
        if not self.pack.header.is_parts:
            if data.numel() % self._dtype.itemsize:
                raise ValueError(f"sample {number} has {data.numel()} bytes, which are no whole elements of {self._dtype}")
            return data.view(self._dtype)
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
            options = {**options, **_pack.locality(dataset.pack)}
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
