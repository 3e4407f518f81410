# SPDX-License-Identifier: GPL-2.0-only
"""weft.torch, its checkpoints, and weft.safetensors, beside PyTorch's and safetensors' own. FOLDER of the environment is where
the files are; the current folder without it."""
import collections
import contextlib
import dataclasses
import inspect
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import torch
import torch.distributed
from safetensors.torch import load_file, save_file
from torch.distributed import checkpoint
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, default_collate

import weft
import weft.pack
import weft.safetensors
import weft.torch
from weft.torch.checkpoint import WeftReader, WeftWriter, checkpoints, remove


class TorchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER", "."))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        torch.manual_seed(1)

    def path(self, name):
        return os.path.join(self.folder, name)


class Tensors(TorchTest):
    def test_reading_and_writing(self):
        source = torch.randn(1000, 333)
        with weft.create(self.path("data"), source.nbytes) as file:
            file.write_from(source)
        with weft.open(self.path("data")) as file:
            copy = torch.empty_like(source)
            self.assertEqual(file.read_into(copy).bytes, source.nbytes)
            self.assertTrue(torch.equal(copy, source))
            wanted = torch.empty(333, dtype=torch.float32, requires_grad=True)
            file.read_into(wanted.detach(), offset=333 * 4 * 7)
            self.assertTrue(torch.equal(wanted.detach(), source[7]))
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                file.read_into(copy.T)
            with self.assertRaisesRegex(ValueError, "on device meta"):
                file.read_into(torch.empty(5, device="meta"))
            lent = torch.frombuffer(file.read(0, 4096).view, dtype=torch.float32)
            self.assertTrue(torch.equal(lent, source.flatten()[:1024]))
            lent = torch.from_dlpack(file.read(0, 4096)).view(torch.float32)
            self.assertTrue(torch.equal(lent, source.flatten()[:1024]))
            with self.assertRaisesRegex(ValueError, "conjugated or negated"):
                file.read_into(torch.randn(4, dtype=torch.complex64).conj())
            self.assertEqual(file.read_into(source.numpy()[:2], 0).bytes, 2 * 333 * 4)


class Examples(TorchTest):
    """The short programs."""

    def run_one(self, name, *arguments):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../userspace/examples")
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", os.path.join(folder, name + ".py"), *map(str, arguments)],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def test_they_run(self):
        path = self.path("tensors")
        self.assertEqual(self.run_one("save_tensors", path, 5000, 4096, 1000001), f"{path}: 1009097 bytes are on the medium")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"\x01" * 5000 + b"\x02" * 4096 + b"\x03" * 1000001)
        self.assertRegex(self.run_one("read_range", path, 4097, 8191), "^8191 bytes by the route [a-z]+$")
        self.assertEqual(self.run_one("gather_samples", path, 3000), "a tensor of (3000, 4096)")


class Samples(TorchTest):
    RECORD, COUNT = 1000, 2000

    def setUp(self):
        super().setUp()
        self.all = torch.randint(0, 256, (self.COUNT, self.RECORD), dtype=torch.uint8)
        with open(self.path("samples"), "wb") as file:
            file.write(bytes(10) + self.all.numpy().tobytes())
        self.dataset = weft.torch.Dataset(self.path("samples"), self.RECORD, offset=10)

    def test_records(self):
        self.assertEqual(len(self.dataset), self.COUNT)
        self.assertIsNone(self.dataset.result)
        self.assertTrue(torch.equal(self.dataset[5], self.all[5]))
        self.assertTrue(torch.equal(self.dataset[-1], self.all[-1]))
        choose = random.Random(1).sample(range(self.COUNT), 500)
        self.assertTrue(torch.equal(torch.stack(self.dataset.__getitems__(choose)), self.all[choose]))
        with self.assertRaises(TypeError):
            self.dataset[torch.ones(self.COUNT, dtype=torch.bool)]
        for wrong in (self.COUNT, [0, self.COUNT], [-self.COUNT - 1], [1 << 70]):
            with self.assertRaises(IndexError):
                self.dataset[wrong]
        self.assertTrue(torch.equal(self.dataset[choose], self.all[choose]))
        self.assertEqual(self.dataset.result.bytes, len(choose) * self.RECORD)
        self.assertIn(self.dataset.result.route, ("staged", "cached"))
        with unittest.mock.patch("os.getpid", lambda: 1):
            self.assertIsNone(self.dataset.result, "it is of the process that has read")
        self.assertTrue(torch.equal(self.dataset[[-1, 0]], self.all[[-1, 0]]))
        self.assertTrue(torch.equal(self.dataset[torch.tensor(choose)], self.all[choose]))
        narrow = weft.torch.Dataset(self.path("samples"), 100, offset=10)
        rows = torch.tensor([3, 19999, 700], dtype=torch.int16)
        self.assertTrue(torch.equal(narrow[rows], self.all.view(-1, 100)[rows.long()]))
        self.assertTrue(torch.equal(narrow[rows.numpy()], self.all.view(-1, 100)[rows.long()]))
        self.assertEqual((list(self.dataset[[]].shape), self.dataset.__getitems__([])), ([0, self.RECORD], []))
        for wrong in ([1.5], [None], ["1"], [True, False]):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.dataset[wrong]
        self.assertTrue(torch.equal(self.dataset[[rows.numpy()[0], torch.tensor(-1)]], self.all[[3, -1]]))

    def test_a_loader_of_whole_batches(self):
        sampler = BatchSampler(RandomSampler(self.dataset), 64, drop_last=False)
        for workers in (0, 2):
            batches = list(DataLoader(self.dataset, batch_size=None, sampler=sampler, num_workers=workers))
            self.assertEqual([list(batch.shape) for batch in batches[:-1]], [[64, self.RECORD]] * (self.COUNT // 64))
            self.assertEqual(sorted(map(bytes, torch.cat(batches).numpy())), sorted(map(bytes, self.all.numpy())))

    def test_a_loader_with_workers(self):
        for context in (None, "fork", "spawn"):
            loader = DataLoader(self.dataset, batch_size=64, shuffle=True, num_workers=2 if context else 0,
                                multiprocessing_context=context, collate_fn=default_collate)
            rows = torch.cat(list(loader))
            self.assertEqual(sorted(map(bytes, rows.numpy())), sorted(map(bytes, self.all.numpy())), context)

    def test_extents(self):
        extents = [(10, 8), (1010, 400), (10, 0), (2010, 12)]
        dataset = weft.torch.Dataset(self.path("samples"), extents=extents, dtype=torch.int32)
        for sample, (offset, length) in zip(dataset.__getitems__(range(4)), extents):
            self.assertEqual(sample.numpy().tobytes(), self.all.numpy().tobytes()[offset - 10:offset - 10 + length])
        with self.assertRaisesRegex(ValueError, "cannot be an offset or a length"):
            weft.torch.Dataset(self.path("samples"), extents=[(0, 1 << 63)])[0]

    def test_what_is_none(self):
        for wrong in ({"record": 0}, {"record": 3, "dtype": torch.int16}, {}, {"record": 8, "extents": [(0, 8)]},
                      {"record": 8, "count": 1 << 40}, {"record": 8, "count": -1}, {"record": 1 << 32}):
            with self.assertRaises(ValueError):
                weft.torch.Dataset(self.path("samples"), **wrong)

    def test_a_file_that_changes(self):
        """No record of the new file is given out as one of the old."""
        path, extents = self.path("samples"), [(10, self.RECORD)] * 3

        def replace():
            with open(path + ".new", "wb") as file:
                file.write(bytes(10 + self.COUNT * self.RECORD))
            os.rename(path + ".new", path)

        def rewrite():
            with open(path, "r+b") as file:
                file.write(bytes(10 + self.COUNT * self.RECORD))
        for what, change in (("file of this name", replace), ("time of the last write", rewrite),
                             ("size", lambda: os.truncate(path, 10 + 5 * self.RECORD))):
            records, some = weft.torch.Dataset(path, self.RECORD, offset=10), weft.torch.Dataset(path, extents=extents)
            loader = iter(DataLoader(records, batch_size=1, num_workers=1, prefetch_factor=1))
            next(loader)
            records[4]
            change()
            for read in (lambda: records[4], lambda: records[[1999]], lambda: some[2], lambda: list(loader)):
                with self.assertRaisesRegex(OSError, f"samples: it has changed since it was opened: the {what} is another"):
                    read()
            records.close()
            with self.assertRaisesRegex(OSError, "has changed"):
                records[4]
        os.unlink(path)
        with self.assertRaises(FileNotFoundError):
            weft.torch.Dataset(path, self.RECORD)


class Sealed(TorchTest):
    """Files that are read without their filesystem: those on a weft volume alone."""

    def setUp(self):
        super().setUp()
        # In whole blocks, which are read directly.
        self.rows = torch.randint(0, 1 << 15, (1000, 2560), dtype=torch.int16)
        with open(self.path("rows"), "wb") as file:
            file.write(self.rows.numpy().tobytes())
            file.flush()
            os.fsync(file.fileno())
        weft.pack.pack((row.numpy().tobytes() for row in self.rows), self.path("rows.weft"))
        self._seal("rows", True)
        for name in ("rows", "rows.weft"):
            self.addCleanup(self._seal, name, False)

    def _seal(self, name, sealed):
        file = os.open(self.path(name), os.O_RDONLY)
        weft.pack._volume.seal(file, sealed)
        os.close(file)

    def test_loaders(self):
        records = weft.torch.Dataset(self.path("rows"), 5120, dtype=torch.int16, strict=True)
        self.assertEqual(records._open().reason, "")
        for dataset in (records, weft.torch.PackedDataset(self.path("rows.weft"), dtype=torch.int16)):
            # The parent has read.
            self.assertTrue(torch.equal(dataset[7], self.rows[7]))
            sampler = weft.torch.Shuffle(dataset, seed=4)
            wanted = self.rows[list(sampler)]
            for context in (None, "fork", "spawn"):
                loader = DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=4 if context else 0,
                                    multiprocessing_context=context)
                self.assertTrue(torch.equal(torch.cat(list(loader)), wanted), context)


class Packed(TorchTest):
    """Packed datasets under DataLoader."""

    def setUp(self):
        super().setUp()
        choose = random.Random(3)
        self.samples = [choose.randbytes(choose.choice([8, 800, 4096, 9000])) for _ in range(1500)]
        weft.pack.pack(self.samples, self.path("mixed.weft"), seal=False)
        self.rows = torch.randint(0, 1 << 15, (1000, 2500), dtype=torch.int16)
        weft.pack.pack((row.numpy().tobytes() for row in self.rows), self.path("rows.weft"), seal=False)
        self.parts = [{"__key__": b"%d" % number, "cls": b"%d" % (number % 10), "jpg": choose.randbytes(5000)}
                      for number in range(200)]
        weft.pack.pack(self.parts, self.path("parts.weft"), seal=False)

    def test_samples(self):
        for verify in (None, True, False):
            dataset = weft.torch.PackedDataset(self.path("mixed.weft"), verify=verify)
            self.assertEqual(len(dataset), 1500)
            chosen = random.Random(1).sample(range(1500), 700)
            for number, sample in zip(chosen, dataset.__getitems__(chosen)):
                self.assertEqual(sample.numpy().tobytes(), self.samples[number])
            dataset.close()
            self.assertEqual(dataset[3].numpy().tobytes(), self.samples[3])
        rows = weft.torch.PackedDataset(self.path("rows.weft"), dtype=torch.int16)
        self.assertTrue(torch.equal(torch.stack(rows.__getitems__([5, 999, 0])), self.rows[[5, 999, 0]]))
        with self.assertRaises(IndexError):
            rows[1000]

    def test_rows(self):
        for verify in (None, False):
            rows = weft.torch.PackedDataset(self.path("rows.weft"), dtype=torch.int16, verify=verify)
            chosen = random.Random(4).sample(range(1000), 300)
            self.assertTrue(torch.equal(rows[chosen], self.rows[chosen]))
            self.assertEqual(rows.result.bytes, len(chosen) * 5000)
            self.assertTrue(torch.equal(rows[torch.tensor([7])], self.rows[[7]]))
            self.assertEqual((len(rows[[]]), rows.__getitems__([])), (0, []))
        with self.assertRaisesRegex(ValueError, "not whole elements"):
            weft.torch.PackedDataset(self.path("mixed.weft"), dtype=torch.complex128).__getitems__(range(1500))
        small = [bytes([number % 256]) * 6 for number in range(500)] + [b""] * 3 + [b"123456"]
        weft.pack.pack(small, self.path("small.weft"), seal=False)
        for verify in (None, False):
            dataset = weft.torch.PackedDataset(self.path("small.weft"), verify=verify)
            self.assertEqual([bytes(sample.numpy()) for sample in dataset.__getitems__(range(504))], small)
            self.assertEqual([bytes(row.numpy()) for row in dataset[range(100)]], small[:100])
            if verify is None:
                self.assertEqual(dataset.result[:2], (600, "staged"))
                self.assertIn("share cells", dataset.result.reason)
            with self.assertRaisesRegex(TypeError, "different sizes"):
                dataset[[1, 501]]
            with self.assertRaisesRegex(TypeError, "one by one"):
                weft.torch.PackedDataset(self.path("small.weft"), decode=len)[[1, 2]]
            values = weft.torch.PackedDataset(self.path("small.weft"), dtype=torch.int16, verify=verify)
            self.assertEqual([sample.numpy().tobytes() for sample in values.__getitems__([3, 501, 503, 0])],
                             [small[3], b"", b"123456", small[0]])

    def test_rows_that_are_whole_blocks(self):
        rows = torch.randint(0, 1 << 15, (500, 2048), dtype=torch.int16)
        weft.pack.pack((row.numpy().tobytes() for row in rows), self.path("whole.weft"), seal=False)
        for verify in (None, True, False):
            dataset = weft.torch.PackedDataset(self.path("whole.weft"), dtype=torch.int16, verify=verify)
            records = weft.torch.Dataset(self.path("mixed.weft"), 4096)
            chosen = random.Random(4).sample(range(500), 300)
            self.assertTrue(torch.equal(dataset[chosen], rows[chosen]))
            self.assertEqual(dataset.result.bytes, len(chosen) * 4096)
            self.assertIn(dataset.result.route, ("direct", "cached"))
            self.assertTrue(torch.equal(dataset[[3, -1, 3]], rows[[3, -1, 3]]))
            self.assertTrue(torch.equal(dataset[torch.tensor([7])], rows[[7]]))
            self.assertTrue(torch.equal(torch.stack(dataset.__getitems__([5, 499])), rows[[5, 499]]))
            self.assertEqual((list(dataset[[]].shape), dataset.__getitems__([])), ([0, 2048], []))
            self.assertEqual(len(records[0]), 4096)
        wide = weft.torch.PackedDataset(self.path("whole.weft"), dtype=torch.complex128)
        self.assertEqual(list(wide[[1, 2]].shape), [2, 256])

    def test_memory_that_the_cpu_does_not_reach(self):
        """As with a GPU: what is verified goes through cells, and small samples are copied behind the others."""
        weft.pack.pack([bytes([number]) * 4096 for number in range(99)], self.path("whole.weft"), seal=False)
        with weft.pack.Pack(self.path("whole.weft")) as whole:
            for trust in (True, False):
                plan = whole.plan([7, 98], reachable=False, trust_large=trust)
                self.assertEqual((plan.direct.tolist(), plan.direct_bytes), ([trust] * 2, 8192 if trust else 0))
        pack = weft.pack.Pack(self.path("mixed.weft"))
        chosen = random.Random(2).sample(range(1500), 300)
        for trust in (True, False):
            plan = pack.plan(chosen, reachable=False, trust_large=trust)
            self.assertEqual(bool(plan.direct.any()), trust)
            data = torch.zeros(plan.bytes, dtype=torch.uint8)
            tail = torch.zeros(plan.bytes - plan.direct_bytes, dtype=torch.uint8)
            pack.read_planned(plan, data, tail.numpy())
            data[plan.direct_bytes:].copy_(tail)
            for number, start, length in zip(chosen, plan.starts, plan.lengths):
                self.assertEqual(data[start:start + length].numpy().tobytes(), self.samples[number])

    def test_parts(self):
        dataset = weft.torch.PackedDataset(self.path("parts.weft"))
        with self.assertRaisesRegex(TypeError, "samples of parts"):
            dataset[[7]]
        sample = dataset[7]
        self.assertEqual((sample["__key__"], sample["cls"].tolist()), ("7", [ord("7")]))
        self.assertEqual(sample["jpg"].numpy().tobytes(), self.parts[7]["jpg"])
        decoded = weft.torch.PackedDataset(self.path("parts.weft"), decode=_class_of)
        self.assertEqual(next(iter(DataLoader(decoded, batch_size=20))).tolist(), list(range(10)) * 2)
        with self.assertRaisesRegex(ValueError, "parts"):
            weft.torch.PackedDataset(self.path("parts.weft"), dtype=torch.int32)

    def test_a_loader_with_workers(self):
        dataset = weft.torch.PackedDataset(self.path("rows.weft"), dtype=torch.int16)
        # The parent has read: its caches and its file are its own.
        dataset[0]
        sampler = weft.torch.Shuffle(dataset, seed=4)
        wanted = None
        for context in (None, "fork", "spawn"):
            loader = DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=2 if context else 0,
                                multiprocessing_context=context)
            rows = torch.cat(list(loader))
            wanted = rows if wanted is None else wanted
            self.assertTrue(torch.equal(rows, wanted), context)
        self.assertEqual(sorted(map(bytes, wanted.numpy())), sorted(map(bytes, self.rows.numpy())))

    def test_a_restart_at_a_step(self):
        dataset = weft.torch.PackedDataset(self.path("rows.weft"), dtype=torch.int16)
        sampler = weft.torch.Shuffle(dataset, seed=4)
        sampler.set_epoch(2)
        batches = list(DataLoader(dataset, batch_size=50, sampler=sampler, num_workers=2))
        state = sampler.state_dict(consumed=7 * 50)
        self.assertEqual(len(state["state"]), 24)
        again = weft.torch.Shuffle(dataset)
        again.load_state_dict(state)
        again.set_epoch(2)
        for context in ("fork", "spawn"):
            left = list(DataLoader(dataset, batch_size=50, sampler=again, num_workers=2, multiprocessing_context=context))
            self.assertEqual((len(again), len(left)), (650, 13))
            self.assertTrue(torch.equal(torch.cat(left), torch.cat(batches[7:])), context)
        # With two ranks.
        ranks = []
        for rank in range(2):
            one = weft.torch.Shuffle(dataset, rank=rank, world=2)
            one.load_state_dict(state)
            ranks.append(torch.cat(list(DataLoader(dataset, batch_size=25, sampler=one))))
        self.assertTrue(torch.equal(torch.stack(ranks, 1).flatten(0, 1), torch.cat(left)))

    def test_a_file_that_changes_under_a_loader(self):
        dataset = weft.torch.PackedDataset(self.path("rows.weft"), dtype=torch.int16)
        loader = iter(DataLoader(dataset, batch_size=10, sampler=weft.torch.Shuffle(dataset), num_workers=1, prefetch_factor=1))
        next(loader)
        os.utime(self.path("rows.weft"), (1, 1))
        with self.assertRaisesRegex(weft.pack.PackError, "rows.weft.*has changed since it was opened"):
            for _ in loader:
                pass


def _class_of(sample):
    return int(bytes(sample["cls"].numpy()))


class Safetensors(TorchTest):
    def test_the_same_dictionary(self):
        tensors = {"a": torch.randn(3, 5), "b.c": torch.randint(0, 9, (7,), dtype=torch.int8), "empty": torch.empty(0, 4),
                   "scalar": torch.tensor(1.5, dtype=torch.float64), "half": torch.randn(33, 2).to(torch.bfloat16),
                   "flag": torch.tensor([True, False, True]), "big": torch.randn(1 << 20)}
        save_file(tensors, self.path("model"), metadata={"format": "pt"})
        stock, ours = load_file(self.path("model")), weft.safetensors.load_file(self.path("model"), strict=True)
        self.assertEqual(set(ours), set(stock))
        for name, tensor in stock.items():
            self.assertEqual((ours[name].dtype, ours[name].shape), (tensor.dtype, tensor.shape))
            self.assertTrue(torch.equal(ours[name], tensor), name)

    def test_files_that_are_none(self):
        save_file({"a": torch.randn(100)}, self.path("model"))
        with open(self.path("model"), "rb") as file:
            good = file.read()
        for bad in (b"", good[:4], good[:-1], good + b"x", b"\xff" * 8 + good[8:], good[:8] + b"[" + good[9:],
                    good.replace(b"F32", b"F99"), good.replace(b"[0,400]", b"[4,400]")):
            with open(self.path("bad"), "wb") as file:
                file.write(bad)
            with self.assertRaises(ValueError):
                weft.safetensors.load_file(self.path("bad"))


def as_ranks(count, work, *arguments):
    """Runs work(rank, *arguments) in so many processes of one group."""
    rendezvous = tempfile.mktemp(dir=os.environ.get("FOLDER", "."))
    context = multiprocessing.get_context("fork")
    finished = context.Barrier(count)
    ranks = [context.Process(target=_rank, args=(rank, count, rendezvous, finished, work, arguments)) for rank in range(count)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if os.path.exists(rendezvous):
        os.unlink(rendezvous)
    return [rank.exitcode for rank in ranks]


def _rank(rank, count, rendezvous, finished, work, arguments):
    torch.distributed.init_process_group("gloo", init_method=f"file://{os.path.abspath(rendezvous)}", rank=rank, world_size=count)
    work(rank, *arguments)
    finished.wait(600)
    # PyTorch 2.6's destroy_process_group() may wait for ever: for a thread that waits for the interpreter's lock.
    os._exit(0)


def whole(step):
    """The state of all ranks at a step. Its rows are no multiple of the ranks, and a save of it takes a moment."""
    generator = torch.Generator().manual_seed(step)
    return {"weight": torch.randn(1025, 2050, generator=generator), "bias": torch.randn(97, generator=generator),
            "half": torch.randn(97, 63, generator=generator).to(torch.bfloat16)}


def sharded(state):
    """A shard of each tensor: by rows, as FSDP has it, and one by columns, as tensor parallelism has it."""
    from torch.distributed._tensor import DeviceMesh, Shard, distribute_tensor
    mesh = DeviceMesh("cpu", list(range(torch.distributed.get_world_size())))
    return {name: distribute_tensor(tensor, mesh, [Shard(1 if name == "half" else 0)]) for name, tensor in state.items()}


def save_step(_rank_number, path, step, overwrite=False):
    checkpoint.save({"model": sharded(whole(step)), "step": step}, storage_writer=WeftWriter(path, overwrite=overwrite))


def save_beside(_rank_number, path, step):
    """While the program goes on, and changes its tensors."""
    state = {"model": sharded(whole(step)), "step": step}
    saving = checkpoint.async_save(state, storage_writer=WeftWriter(path))
    for tensor in state["model"].values():
        tensor.to_local().zero_()
    saving.result()


def any_bits():
    """Floating-point numbers of all kinds, also NaNs with payloads and subnormals."""
    generator = torch.Generator().manual_seed(7)
    return torch.randint(-1 << 31, 1 << 31, (97, 41), generator=generator, dtype=torch.int32).view(torch.float32)


def save_by_each(_rank_number, folder, step):
    """One state by weft's writer, by the same in async_save(), and by PyTorch's own."""
    state = {"model": sharded({**whole(step), "bits": any_bits()}), "step": step}
    checkpoint.save(state, storage_writer=WeftWriter(os.path.join(folder, "weft")))
    checkpoint.async_save(state, storage_writer=WeftWriter(os.path.join(folder, "async"))).result()
    checkpoint.save(state, storage_writer=checkpoint.FileSystemWriter(os.path.join(folder, "stock")))


def load_by_each(_rank_number, folder, step):
    """This rank gets the same bits from all three: those of the state that was saved."""
    source = {**whole(step), "bits": any_bits()}
    wanted = sharded(source)
    for reader in (WeftReader(os.path.join(folder, "weft")), WeftReader(os.path.join(folder, "async")),
                   checkpoint.FileSystemReader(os.path.join(folder, "stock"))):
        state = {"model": sharded({name: torch.zeros_like(one) for name, one in source.items()}), "step": 0}
        checkpoint.load(state, storage_reader=reader)
        assert state["step"] == step, reader.path
        for name, tensor in wanted.items():
            assert torch.equal(local_bytes(state["model"][name]), local_bytes(tensor)), (reader.path, name)


def local_bytes(tensor):
    """The bytes of this rank's shard."""
    return tensor.to_local().contiguous().view(torch.uint8)


def load_step(_rank_number, path, step):
    state = {"model": sharded({name: torch.zeros_like(one) for name, one in whole(step).items()}), "step": 0}
    checkpoint.load(state, storage_reader=WeftReader(path))
    assert state["step"] == step
    for name, tensor in whole(step).items():
        assert torch.equal(state["model"][name].full_tensor(), tensor), name


class PlanOfTheFirst(DefaultSavePlanner):
    """Gives all saves the plan of the first one, as newer versions of PyTorch do with enable_plan_caching=True."""
    first = None

    def finish_plan(self, new_plan):
        self.first = self.first or new_plan
        return super().finish_plan(self.first)


def save_and_lose_a_rank(rank, path, planner):
    """Two saves by one writer. In the second one a rank ends before it has written, and the other one has written."""
    writer, planner = WeftWriter(path, overwrite=True), planner()

    def save(step):
        checkpoint.save({"model": sharded(whole(step)), "step": step}, storage_writer=writer, planner=planner)
    save(1)
    if rank == 1:
        writer.write_data = lambda *_: os._exit(1)
    try:
        save(2)
    finally:
        # Without the other one.
        os._exit(1)


def save_apart(path, step, overwrite=False):
    """Two ranks in a process group of Unix of their own."""
    os.setsid()
    sys.exit(any(as_ranks(2, save_step, path, step, overwrite)))


def rank_files(path):
    return sorted(name for name in os.listdir(path) if name.endswith(".weft") and name[0].isdigit())


class Checkpoints(TorchTest):
    def test_one_process(self):
        state = {"a": torch.randn(1000, 7), "b": {"c": torch.arange(5), "step": 17, "name": "x"}, "t": torch.randn(6, 5).T,
                 "scalar": torch.tensor(3)}
        checkpoint.save(state, storage_writer=WeftWriter(self.path("one")))
        empty = {"a": torch.zeros(1000, 7), "b": {"c": torch.zeros(5, dtype=torch.int64), "step": 0, "name": ""},
                 "t": torch.zeros(5, 6), "scalar": torch.tensor(0)}
        checkpoint.load(empty, storage_reader=WeftReader(self.path("one")))
        self.assertTrue(torch.equal(empty["a"], state["a"]) and torch.equal(empty["b"]["c"], state["b"]["c"]))
        self.assertTrue(torch.equal(empty["t"], state["t"]) and torch.equal(empty["scalar"], state["scalar"]))
        self.assertEqual((empty["b"]["step"], empty["b"]["name"]), (17, "x"))
        with self.assertRaises(checkpoint.api.CheckpointException):
            checkpoint.save(state, storage_writer=WeftWriter(self.path("one")))
        before = rank_files(self.path("one"))
        state["scalar"] += 1
        checkpoint.save(state, storage_writer=WeftWriter(self.path("one"), overwrite=True))
        after = rank_files(self.path("one"))
        self.assertTrue(len(before) == len(after) == 1 and before != after)
        checkpoint.load(empty, storage_reader=WeftReader(self.path("one")))
        self.assertEqual(empty["scalar"], 4)

    def test_async(self):
        state = {"a": torch.randn(100000)}
        store = os.path.abspath(self.path("store"))
        torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
        try:
            saving = checkpoint.async_save(state, storage_writer=WeftWriter(self.path("async")))
            saved = state["a"].clone()
            state["a"].zero_()
            saving.result()
        finally:
            torch.distributed.destroy_process_group()
        empty = {"a": torch.zeros(100000)}
        checkpoint.load(empty, storage_reader=WeftReader(self.path("async")))
        self.assertTrue(torch.equal(empty["a"], saved))

    def test_other_numbers_of_ranks(self):
        """Beside PyTorch's own writer and reader, bit by bit."""
        self.assertEqual(as_ranks(4, save_by_each, self.folder, 1), [0] * 4)
        for name in ("weft", "async"):
            self.assertEqual([file.split("-")[0] for file in rank_files(self.path(name))], ["0", "1", "2", "3"])
        for count in (2, 4, 8, 1):
            self.assertEqual(as_ranks(count, load_by_each, self.folder, 1), [0] * count)

    def test_async_of_two_ranks(self):
        self.assertEqual(as_ranks(2, save_beside, self.path("two"), 3), [0, 0])
        self.assertEqual(as_ranks(2, load_step, self.path("two"), 3), [0, 0])

    def test_a_failed_save_of_a_used_writer(self):
        """It leaves the checkpoint before whole."""
        for planner in (DefaultSavePlanner, PlanOfTheFirst):
            path = self.path(planner.__name__)
            self.assertEqual(as_ranks(2, save_and_lose_a_rank, path, planner), [1, 1])
            self.assertEqual(as_ranks(2, load_step, path, 1), [0, 0])
            self.assertEqual([name.split("-")[0] for name in rank_files(path)], ["0", "0", "1"])

    def test_metadata_that_cannot_be_looked_at(self):
        """Nothing is removed then."""
        path = self.path("one")
        checkpoint.save({"a": torch.ones(5000)}, storage_writer=WeftWriter(path))
        metadata, apart, files = os.path.join(path, ".metadata"), self.path("apart"), rank_files(path)
        os.rename(metadata, apart)
        os.symlink(".metadata", metadata)
        for overwrite in (False, True):
            with self.assertRaises(checkpoint.api.CheckpointException):
                checkpoint.save({"a": torch.zeros(5000)}, storage_writer=WeftWriter(path, overwrite=overwrite))
            self.assertEqual(rank_files(path), files)
        with unittest.mock.patch("os.lstat", side_effect=OSError(5, "Input/output error")), \
                self.assertRaises(checkpoint.api.CheckpointException):
            checkpoint.save({"a": torch.zeros(5000)}, storage_writer=WeftWriter(path))
        self.assertEqual(rank_files(path), files)
        os.replace(apart, metadata)
        loaded = {"a": torch.zeros(5000)}
        checkpoint.load(loaded, storage_reader=WeftReader(path))
        self.assertTrue(torch.equal(loaded["a"], torch.ones(5000)))

    def test_two_saves_into_one_folder(self):
        """The second begins before the first has ended: the first fails, and does not replace a checkpoint."""
        class First(WeftWriter):
            def finish(self, metadata, results):
                WeftWriter(self.path, overwrite=True).set_up_storage_writer(True)
                super().finish(metadata, results)

        path = self.path("one")
        checkpoint.save({"a": torch.ones(5000)}, storage_writer=WeftWriter(path))
        with self.assertRaisesRegex(checkpoint.api.CheckpointException, "another save into this folder has removed it"):
            checkpoint.save({"a": torch.zeros(5000)}, storage_writer=First(path, overwrite=True))
        loaded = {"a": torch.zeros(5000)}
        checkpoint.load(loaded, storage_reader=WeftReader(path))
        self.assertTrue(torch.equal(loaded["a"], torch.ones(5000)))

    def test_a_checkpoint_that_changes_under_a_load(self):
        """Ranks that have read the metadata of two checkpoints do not load."""
        path, plans = self.path("one"), []
        for value in (0, 1):
            checkpoint.save({"a": torch.full([5000], value)}, storage_writer=WeftWriter(path, overwrite=True))
            reader = WeftReader(path)
            reader.set_up_storage_reader(reader.read_metadata(), False)
            plans.append(reader.prepare_local_plan(checkpoint.planner.LoadPlan([])))
        self.assertEqual(reader.prepare_global_plan(plans[1:] * 2), plans[1:] * 2)
        with self.assertRaisesRegex(ValueError, "replaced the checkpoint while the ranks read"):
            reader.prepare_global_plan(plans)

    def test_quantized(self):
        state = {"a": torch.quantize_per_tensor(torch.ones(5000), 0.5, 0, torch.qint8)}
        with self.assertRaisesRegex(checkpoint.api.CheckpointException, "a is quantized"):
            checkpoint.save(state, storage_writer=WeftWriter(self.path("one")))

    def test_a_full_filesystem(self):
        """FULL of the environment is a folder of a small one."""
        if "FULL" not in os.environ:
            self.skipTest("FULL does not name the folder of a small filesystem")
        state, folder = {"a": torch.randn(4 << 20)}, os.environ["FULL"]
        one, two = os.path.join(folder, "one"), os.path.join(folder, "two")
        checkpoint.save(state, storage_writer=WeftWriter(one))
        with open(os.path.join(folder, "fill"), "wb") as file:
            room = os.statvfs(folder)
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - (8 << 20))
        for writer in (WeftWriter(two), WeftWriter(one, overwrite=True)):
            with self.assertRaisesRegex(checkpoint.api.CheckpointException, "bytes for .*/0-[0-9a-f]{8}.weft: No space left"):
                checkpoint.save(state, storage_writer=writer)
        self.assertEqual(checkpoints(folder), [one])
        self.assertEqual(os.listdir(two) if os.path.exists(two) else [], [])
        os.unlink(os.path.join(folder, "fill"))
        checkpoint.save(state, storage_writer=WeftWriter(two))
        for path in (one, two):
            empty = {"a": torch.zeros(4 << 20)}
            checkpoint.load(empty, storage_reader=WeftReader(path))
            self.assertTrue(torch.equal(empty["a"], state["a"]))
            remove(path)

    def test_killed_ranks(self):
        """What is listed is whole, whenever a rank is killed. KILLS of the environment is how often, FAULTS_SEED when."""
        kills, seed = int(os.environ.get("KILLS", "6")), int(os.environ.get("FAULTS_SEED", "5"))
        choose, found, listed = random.Random(seed), collections.Counter(), []
        begun = time.monotonic()
        saver = self._begin_save(0)
        until_begun = self._wait_for_a_file(saver, 0) - begun
        saver.join()
        until_complete = time.monotonic() - begun
        self.assertEqual(self._left_of(0), "complete")
        for step in range(1, kills + 1):
            saver = self._begin_save(step)
            # One of four before there is anything, the others while the files are written.
            if step % 4:
                self._wait_for_a_file(saver, step)
                time.sleep(choose.uniform(0, 1.2 * (until_complete - until_begun)))
            else:
                time.sleep(choose.uniform(0, until_begun))
            killed = self._kill_a_rank(saver, choose)
            # Some of the others see that it is gone, and give up by themselves.
            saver.join(choose.choice((0.05, 0.05, 2)))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(saver.pid, signal.SIGKILL)
            saver.kill()
            saver.join()
            found[self._left_of(step) if killed else "ended before"] += 1
            before, listed = listed, checkpoints(self.folder)
            self.assertLessEqual(set(before), set(listed))
            newest = int(listed[-1][-3:])
            state = {"model": {name: torch.zeros_like(one) for name, one in whole(newest).items()}, "step": 0}
            checkpoint.load(state, storage_reader=WeftReader(listed[-1]))
            self.assertEqual(state["step"], newest)
            for name, tensor in whole(newest).items():
                self.assertTrue(torch.equal(state["model"][name], tensor))
        print(f"{kills} kills with seed {seed}, and what was there then: {dict(found)}")
        if kills >= 50:
            self.assertLessEqual({"nothing", "drafts", "files without a list", "complete"}, set(found))

    def test_killed_while_they_overwrite(self):
        """The folder has the old checkpoint or the new one, whole."""
        kills, choose = int(os.environ.get("KILLS", "6")) // 3, random.Random(int(os.environ.get("FAULTS_SEED", "5")))
        path, found = self.path("step-000"), collections.Counter()
        begun = time.monotonic()
        self._begin_save(0).join()
        takes, has = time.monotonic() - begun, 0
        for step in range(1, kills + 1):
            saver = multiprocessing.get_context("fork").Process(target=save_apart, args=(path, step, True))
            saver.start()
            time.sleep(choose.uniform(0.3, 1.1) * takes)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(saver.pid, signal.SIGKILL)
            saver.kill()
            saver.join()
            state = {"model": {name: torch.zeros_like(one) for name, one in whole(0).items()}, "step": -1}
            checkpoint.load(state, storage_reader=WeftReader(path))
            self.assertIn(state["step"], (has, step))
            found["the new one" if state["step"] == step else "the old one"] += 1
            has = state["step"]
            for name, tensor in whole(has).items():
                self.assertTrue(torch.equal(state["model"][name], tensor))
        save_apart_again = multiprocessing.get_context("fork").Process(target=save_apart, args=(path, kills + 1, True))
        save_apart_again.start()
        save_apart_again.join()
        self.assertEqual(save_apart_again.exitcode, 0)
        checkpoint.load(state, storage_reader=WeftReader(path))
        self.assertEqual(state["step"], kills + 1)
        self.assertEqual([name.split("-")[0] for name in rank_files(path)], ["0", "1"])
        print(f"{kills} kills while a checkpoint was overwritten: {dict(found)}")

    def _begin_save(self, step):
        saver = multiprocessing.get_context("fork").Process(target=save_apart, args=(self.path(f"step-{step:03}"), step))
        saver.start()
        return saver

    def _wait_for_a_file(self, saver, step):
        """Returns when: the time."""
        while self._left_of(step) == "nothing" and saver.is_alive():
            time.sleep(0.001)
        return time.monotonic()

    def _left_of(self, step):
        """How far a save has come, by its folder."""
        try:
            names = os.listdir(self.path(f"step-{step:03}"))
        except FileNotFoundError:
            names = []
        if ".metadata" in names:
            return "complete"
        if any(name.startswith(".") for name in names):
            return "drafts"
        return "files without a list" if names else "nothing"

    @staticmethod
    def _kill_a_rank(saver, choose):
        """Waits until there is one. Returns whether there was."""
        while saver.is_alive():
            try:
                with open(f"/proc/{saver.pid}/task/{saver.pid}/children", encoding="ascii") as file:
                    ranks = [int(pid) for pid in file.read().split()]
                if ranks:
                    os.kill(choose.choice(ranks), signal.SIGKILL)
                    return True
            except (FileNotFoundError, ProcessLookupError):
                pass
            time.sleep(0.001)
        return False

    def test_what_is_none(self):
        with self.assertRaises(checkpoint.api.CheckpointException), self.assertLogs("weft") as log:
            checkpoint.load({"a": torch.zeros(1)}, storage_reader=WeftReader(self.folder))
        self.assertIn("not a complete checkpoint", log.output[0])
        checkpoint.save({"a": torch.randn(5000)}, storage_writer=WeftWriter(self.path("one")))
        os.truncate(os.path.join(self.path("one"), *rank_files(self.path("one"))), 4096)
        with self.assertRaises(checkpoint.api.CheckpointException):
            checkpoint.load({"a": torch.zeros(5000)}, storage_reader=WeftReader(self.path("one")))
        remove(self.path("one"))
        self.assertEqual(checkpoints(self.folder), [])
        os.mkdir(self.path("evil"))
        dotted = b"\x80\x04\x8c\x25torch.distributed.checkpoint.metadata\x8c\x09os.system\x93."
        for text in (pickle.dumps(os.system), dotted):
            with open(self.path("evil/.metadata"), "wb") as file:
                file.write(text)
            with self.assertRaises(checkpoint.api.CheckpointException), self.assertLogs("weft") as log:
                checkpoint.load({"a": torch.zeros(1)}, storage_reader=WeftReader(self.path("evil")))
            self.assertIn("not part of a checkpoint", log.output[0])
            with self.assertRaisesRegex(checkpoint.api.CheckpointException, "remove the folder first"):
                checkpoint.save({"a": torch.zeros(1)}, storage_writer=WeftWriter(self.path("evil"), overwrite=True))

    def test_metadata_that_a_load_refuses(self):
        """It completes no checkpoint, and replaces none."""
        class Planner(DefaultSavePlanner):
            def create_global_plan(self, all_plans):
                plans, metadata = super().create_global_plan(all_plans)
                return plans, dataclasses.replace(metadata, planner_data=collections.Counter())
        state, new = {"a": torch.randn(5000)}, self.path("new")
        checkpoint.save(state, storage_writer=WeftWriter(self.path("old")))
        for path in (self.path("old"), new):
            with self.assertRaisesRegex(checkpoint.api.CheckpointException, f"{path}: a load would refuse .*collections.Counter"):
                checkpoint.save({"a": torch.zeros(5000)}, storage_writer=WeftWriter(path, overwrite=True), planner=Planner())
        self.assertEqual(checkpoints(self.folder), [self.path("old")])
        empty = {"a": torch.zeros(5000)}
        checkpoint.load(empty, storage_reader=WeftReader(self.path("old")))
        self.assertTrue(torch.equal(empty["a"], state["a"]))

    def test_a_save_without_collectives(self):
        """It is refused, and changes nothing. PyTorch 2.6 has no such save: the writer is called as newer versions do it, which
        look for a parameter called kwargs first."""
        state, new = {"a": torch.randn(5000)}, {"a": torch.zeros(5000)}
        checkpoint.save(state, storage_writer=WeftWriter(self.path("old")))
        self.assertIn("kwargs", inspect.signature(WeftWriter.set_up_storage_writer).parameters)
        saves = [lambda writer: writer.set_up_storage_writer(True, rank=0, use_collectives=False)]
        if "use_collectives" in inspect.signature(checkpoint.save).parameters:
            saves.append(lambda writer: checkpoint.save(new, storage_writer=writer, use_collectives=False))
        for save in saves:
            for path in (self.path("old"), self.path("new")):
                with self.assertRaisesRegex(ValueError, f"{path}: .* use_collectives=False .* leave that option out"):
                    save(WeftWriter(path, overwrite=True))
        self.assertEqual(os.listdir(self.folder), ["old"])
        checkpoint.load(new, storage_reader=WeftReader(self.path("old")))
        self.assertTrue(torch.equal(new["a"], state["a"]))

    def test_files_of_others_stay(self):
        os.mkdir(self.path("mixed"))
        others = {"model.weft", "7.weft", "20261201.weft", ".7.weft-abc", ".7.weft-abcd1234", "notes"}
        for name in (*others, "3-0123abcd.weft", ".0-0123abcd.weft-abcd1234"):
            with open(self.path(f"mixed/{name}"), "wb"):
                pass
        checkpoint.save({"a": torch.randn(5)}, storage_writer=WeftWriter(self.path("mixed")))
        own = set(rank_files(self.path("mixed"))) - others
        self.assertEqual(len(own), 1)
        self.assertEqual(set(os.listdir(self.path("mixed"))), {".metadata", *own, *others})

    def test_links_to_checkpoints(self):
        """They are not listed, and the removal of one harms nothing."""
        state, one = {"a": torch.randn(5000)}, self.path("one")
        checkpoint.save(state, storage_writer=WeftWriter(one))
        for link in ("latest", "zlast"):
            os.symlink("one", self.path(link))
        self.assertEqual(checkpoints(self.folder), [one])
        # A folder of links to checkpoints elsewhere.
        os.mkdir(self.path("links"))
        os.symlink(one, self.path("links/one"))
        self.assertEqual(checkpoints(self.path("links")), [self.path("links/one")])
        for link in ("latest", "latest/"):
            with self.assertRaisesRegex(OSError, "by its own name"):
                remove(self.path(link))
        empty = {"a": torch.zeros(5000)}
        checkpoint.load(empty, storage_reader=WeftReader(self.path("latest")))
        self.assertTrue(torch.equal(empty["a"], state["a"]))


if __name__ == "__main__":
    unittest.main()
