# SPDX-License-Identifier: LGPL-2.1-or-later
"""The order of an epoch, computed and not stored: a keyed permutation of the samples' numbers.

A Feistel network over pairs (left, right) of a x b numbers, a and b close to the square root of the count, and a walk along
the cycle for the few numbers that are beyond the count. Each round adds a hash of one half to the other one, modulo its size,
so each round, and the whole, has an inverse: it is a permutation for each key.
"""
import math
import struct

import numpy

from ._format import CELL_CACHE_BYTES

_ROUNDS = 8
_CHUNK = 4096
_STATE = struct.Struct("<QQQ")
_MASK = (1 << 64) - 1


def _mix(value):
    """The finalizer of splitmix64, on an array of uint64."""
    value = (value ^ (value >> numpy.uint64(30))) * numpy.uint64(0xbf58476d1ce4e5b9)
    value = (value ^ (value >> numpy.uint64(27))) * numpy.uint64(0x94d049bb133111eb)
    return value ^ (value >> numpy.uint64(31))


def _mix_one(value):
    return int(_mix(numpy.array([value & _MASK], numpy.uint64))[0])


def _keys(*words):
    """A key for each round, from numbers of 64 bits."""
    key = 0
    for word in words:
        key = _mix_one(key * 3 + word + 0x9e3779b97f4a7c15)
    return [_mix_one(key + (number + 1) * 0x9e3779b97f4a7c15) for number in range(_ROUNDS)]


def _permute(values, count, keys):
    """The permuted numbers of an array of uint64 below count."""
    wide = math.isqrt(count - 1) + 1 if count > 1 else 1
    a, b = numpy.uint64(wide), numpy.uint64(-(-count // wide))
    result, left_over = values.copy(), slice(None)
    while True:
        left, right = result[left_over] // b, result[left_over] % b
        for number, key in enumerate(keys):
            if number % 2:
                right = (right + _mix(left ^ numpy.uint64(key)) % b) % b
            else:
                left = (left + _mix(right ^ numpy.uint64(key)) % a) % a
        result[left_over] = left * b + right
        left_over = numpy.flatnonzero(result >= count)
        if not len(left_over):
            return result


class Order:
    """The order of one epoch of `count` samples: a permutation that depends on seed and epoch alone.

    block: so many samples that follow one another stay near each other, and window: so many blocks are mixed with one another.
    The blocks are permuted as well. For small samples, whose cells are read whole: a block is about a cell.
    """

    def __init__(self, count, seed, epoch, block=1, window=1):
        if count < 0 or count >= 1 << 62 or block < 1 or window < 1:
            raise ValueError(f"{count} samples in blocks of {block}, {window} at a time: block and window must be 1 or more")
        self.count, self._block, self._window = count, block, window
        self._seed, self._epoch = seed & _MASK, epoch & _MASK
        self._keys = _keys(self._seed, self._epoch, 0)

    def samples(self, positions):
        """The samples at these positions of the order, as an array of int64."""
        values = numpy.asarray(positions, numpy.uint64)
        if len(values) and int(values.max()) >= self.count:
            raise IndexError(f"position {int(values.max())} of {self.count}")
        if self._block == 1:
            return _permute(values, self.count, self._keys).astype(numpy.int64) if len(values) else values.astype(numpy.int64)
        result, left_over = values.copy(), numpy.arange(len(values))
        while len(left_over):
            result[left_over] = self._blocks(result[left_over])
            left_over = left_over[result[left_over] >= self.count]
        return result.astype(numpy.int64)

    def _blocks(self, values):
        """One step of the permutation of whole blocks, the last of which may have fewer samples than the others."""
        blocks = -(-self.count // self._block)
        room = self._window * self._block
        mixed = numpy.empty_like(values)
        which = values // numpy.uint64(room)
        for number in numpy.unique(which).tolist():
            inside = which == number
            have = min(self._window, blocks - number * self._window) * self._block
            keys = _keys(self._seed, self._epoch, 1, number)
            mixed[inside] = number * room + _permute(values[inside] - numpy.uint64(number * room), have, keys)
        block = numpy.uint64(self._block)
        return _permute(mixed // block, blocks, self._keys) * block + mixed % block


class Sampler:
    """The numbers of samples for one of `world` ranks, in the order of an epoch. No cost at the start of an epoch.

    Ranks take turns in one order of all: sample p of it is for rank p % world. So the order does not depend on the number of
    ranks, and an epoch that was begun with some ranks goes on with others. uneven: "wrap" gives each rank the same number of
    samples, with some from the start of the order again; "drop" leaves the last ones out; "keep" gives some ranks one more.
    block, window: as of Order.

        sampler = Sampler(len(pack), seed=1, rank=rank, world=world)
        sampler.set_epoch(3)
        state = sampler.state(consumed=step * batch_size)        # 24 bytes; of any rank, they are the same
        sampler.resume(state)
    """

    def __init__(self, count, *, seed=0, rank=0, world=1, uneven="wrap", block=1, window=1):
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of {world}")
        if uneven not in ("wrap", "drop", "keep"):
            raise ValueError(f"uneven is '{uneven}': it is 'wrap', 'drop' or 'keep'")
        if not 0 <= seed <= _MASK:
            raise ValueError(f"seed {seed} is not a number of 64 bits")
        self.count, self.seed, self.rank, self.world, self.uneven = count, seed, rank, world, uneven
        self.epoch = self.start = 0
        self._block, self._window = block, window
        Order(count, seed, 0, block, window)

    def set_epoch(self, epoch):
        """Begins with the first sample of that epoch. The epoch of resume() goes on where it was."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def __len__(self):
        left = self.count - self.start
        if self.uneven == "keep":
            return max(0, -(-(left - self.rank) // self.world))
        return max(0, -(-left // self.world) if self.uneven == "wrap" else left // self.world)

    def __iter__(self):
        order, start = Order(self.count, self.seed, self.epoch, self._block, self._window), self.start
        for first in range(0, len(self), _CHUNK):
            turns = numpy.arange(first, min(first + _CHUNK, len(self)), dtype=numpy.uint64)
            positions = numpy.uint64(start + self.rank) + turns * numpy.uint64(self.world)
            yield from order.samples(positions % numpy.uint64(self.count)).tolist()

    def state(self, consumed=0):
        """24 bytes from which resume() goes on. consumed: samples that this rank has used since the epoch began or was
        resumed, which are fewer than a loader with workers has taken."""
        return _STATE.pack(self.seed, self.epoch, min(self.start + consumed * self.world, self.count))

    def resume(self, state):
        """Goes on from a state(), also with another number of ranks."""
        if len(state) != _STATE.size:
            raise ValueError(f"a state has {_STATE.size} bytes, and this has {len(state)}")
        seed, epoch, start = _STATE.unpack(state)
        if start > self.count:
            raise ValueError(f"the state is at sample {start}, and the dataset has {self.count}")
        self.seed, self.epoch, self.start = seed, epoch, start


def locality(pack):
    """block and window for Order and Sampler, as keywords, with which a reader with the usual cache reads each cell about
    once: for a dataset of small samples. A dataset of larger ones is shuffled as a whole. Another cache changes nothing here:
    the order has to be the same for all."""
    header = pack.header
    if not header.samples or header.longest >= header.align:
        return {}
    block = max(1, header.samples // max(header.cells, 1))
    # Half of the cache, because cells and blocks do not end at the same samples.
    return {"block": block, "window": max(1, CELL_CACHE_BYTES // header.cell_bytes // 2)} if block > 1 else {}
