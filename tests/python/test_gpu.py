# SPDX-License-Identifier: GPL-2.0-only
"""The package with the memory of a GPU: weft's own with the stand-in for libcuda or a real one, and that of PyTorch, CuPy and
JAX on a real GPU. FOLDER of the environment is where the files are; the current folder without it."""
import ctypes
import os
import random
import tempfile
import unittest

import weft

try:
    import torch
    HAVE_TORCH = torch.cuda.is_available()
except ImportError:
    HAVE_TORCH = False
if HAVE_TORCH:
    import torch.distributed
    from safetensors.torch import load_file, save_file
    from torch.distributed import checkpoint
    from torch.utils.data import DataLoader

    import weft.pack
    import weft.safetensors
    import weft.torch
    from weft.torch.checkpoint import WeftReader, WeftWriter

needs_torch = unittest.skipUnless(HAVE_TORCH, "PyTorch for CUDA and a GPU are missing")


class GpuTest(unittest.TestCase):
    """A file of random bytes, whose size is in no blocks."""

    SIZE = (3 << 20) + 777

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER", "."))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.data = random.Random(1).randbytes(self.SIZE)
        with open(self.path("data"), "wb") as file:
            file.write(self.data)

    def path(self, name):
        return os.path.join(self.folder, name)


class Own(GpuTest):
    """Memory that libweft allocates."""

    def test_any_bytes(self):
        choose = random.Random(2)
        buffer = weft.empty(300000, gpu=0)
        with weft.open(self.path("data")) as file:
            for _ in range(30):
                offset, length, at = choose.randrange(self.SIZE), choose.randrange(1, 200000), choose.randrange(100000)
                before = bytes(buffer)
                wanted = self.data[offset:offset + length]
                result = file.read_into(buffer, offset, length, at)
                self.assertEqual(result.bytes, len(wanted))
                self.assertEqual(bytes(buffer), before[:at] + wanted + before[at + len(wanted):])

    def test_many_ranges(self):
        choose = random.Random(3)
        extents = [(choose.randrange(self.SIZE - 5000), choose.randrange(1, 5000)) for _ in range(500)]
        buffer = weft.empty(sum(length for _, length in extents), gpu=0)
        with weft.open(self.path("data")) as file:
            self.assertEqual(file.gather(buffer, extents).bytes, len(buffer))
        self.assertEqual(bytes(buffer), b"".join(self.data[offset:offset + length] for offset, length in extents))

    def test_writing(self):
        buffer = weft.empty(1 << 20, gpu=0)
        with weft.open(self.path("data")) as file:
            file.read_into(buffer, 4096)
        with weft.create(self.path("new"), len(buffer) - 5) as file:
            with weft.open(self.path("data"), "r+") as other:
                other.write_from(buffer, 0, 8192, 4096)
            small = weft.empty(len(buffer) - 5, gpu=0)
            with weft.open(self.path("data")) as source:
                source.read_into(small, 100)
            file.write_from(small)
        data = self.data[8192:16384] + self.data[8192:]
        with open(self.path("new"), "rb") as file:
            self.assertEqual(file.read(), data[100:100 + len(small)])

    def test_the_route_and_the_reason(self):
        buffer = weft.empty(8192, gpu=0)
        with weft.open(self.path("data")) as file:
            result = file.read_into(buffer, 0, 4096)
            self.assertTrue(result.route == "direct" or result.reason, result)
        with self.assertRaises(BufferError):
            buffer.view  # pylint: disable=pointless-statement
        self.assertEqual(buffer.__cuda_array_interface__["data"], (buffer.address, False))
        self.assertEqual(buffer.__dlpack_device__(), (2, 0))
        if not HAVE_TORCH:
            with self.assertRaisesRegex(BufferError, "needs torch or cupy"):
                buffer.__dlpack__()

    def test_two_gpus_in_one_thread(self):
        try:
            both = [weft.empty(100000, gpu=number) for number in (0, 1)]
        except OSError as problem:
            self.skipTest(f"one GPU alone: {problem}")
        with weft.open(self.path("data")) as file:
            for turn in range(3):
                for buffer in both:
                    file.read_into(buffer, 4096 * turn)
                    file.gather(buffer, [(8192 * turn, 5000)])
                    wanted = bytearray(self.data[4096 * turn:4096 * turn + len(buffer)])
                    wanted[:5000] = self.data[8192 * turn:8192 * turn + 5000]
                    self.assertEqual(bytes(buffer), bytes(wanted))

    def test_a_gpu_that_is_missing(self):
        for number in (77, -1):
            with self.assertRaises(OSError):
                weft.empty(4096, gpu=number)


@needs_torch
class Tensors(GpuTest):
    def test_a_buffer_lent_by_dlpack(self):
        buffer = weft.empty(4096, gpu=0)
        with weft.open(self.path("data")) as file:
            file.read_into(buffer)
        tensor = torch.from_dlpack(buffer)
        self.assertEqual((tensor.data_ptr(), bytes(tensor.cpu().numpy())), (buffer.address, self.data[:4096]))

    def test_reading_and_writing(self):
        source = torch.randn(1000, 333, device="cuda")
        with weft.create(self.path("tensor"), source.nbytes) as file:
            file.write_from(source)
        copy = torch.empty_like(source)
        with weft.open(self.path("tensor")) as file:
            self.assertEqual(file.read_into(copy).bytes, source.nbytes)
            self.assertTrue(torch.equal(copy, source))
            row = torch.empty(333, device="cuda")
            file.read_into(row, offset=333 * 4 * 7)
            self.assertTrue(torch.equal(row, source[7]))
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                file.read_into(copy.T)
            # A part of the allocator's block, at any element.
            part = torch.zeros(5000, device="cuda")
            file.read_into(part[3:], 4, 4000)
            self.assertTrue(torch.equal(part[3:1003], source.flatten()[1:1001]))
            self.assertFalse(part[:3].any() or part[1003:].any())

    def test_what_the_gpu_still_computes_is_waited_for(self):
        matrix = torch.randn(4096, 4096, device="cuda")
        with weft.create(self.path("product"), matrix.nbytes) as file:
            product = matrix
            for _ in range(30):
                product = product @ matrix / 64
            file.write_from(product)
        with open(self.path("product"), "rb") as file:
            stored = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
        self.assertTrue(torch.equal(stored, product.cpu().flatten()))

    def test_a_stream_of_its_own(self):
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = torch.full((1 << 20,), 7, dtype=torch.uint8, device="cuda")
            with weft.open(self.path("data")) as file:
                file.read_into(tensor)
            total = tensor.sum(dtype=torch.int64)
        self.assertEqual(int(total), sum(self.data[:1 << 20]))

    def test_memory_of_weft_in_pytorch(self):
        buffer = weft.empty(4096, gpu=0)
        with weft.open(self.path("data")) as file:
            file.read_into(buffer)
        self.assertEqual(torch.as_tensor(buffer, device="cuda").cpu().numpy().tobytes(), self.data[:4096])


@needs_torch
class Samples(GpuTest):
    RECORD = 4096

    def test_records_and_extents(self):
        count = self.SIZE // self.RECORD
        dataset = weft.torch.Dataset(self.path("data"), self.RECORD, device="cuda")
        chosen = random.Random(1).sample(range(count), 300)
        for index, sample in zip(chosen, dataset.__getitems__(chosen)):
            self.assertEqual(sample.device.type, "cuda")
            self.assertEqual(sample.cpu().numpy().tobytes(), self.data[index * self.RECORD:(index + 1) * self.RECORD])
        extents = [(10, 8), (5000, 4000), (77, 12)]
        dataset = weft.torch.Dataset(self.path("data"), extents=extents, dtype=torch.int32, device="cuda")
        self.assertEqual([sample.cpu().numpy().tobytes() for sample in dataset.__getitems__([2, 0, 1])],
                         [self.data[77:89], self.data[10:18], self.data[5000:9000]])

    def test_a_loader_whose_workers_are_spawned(self):
        dataset = weft.torch.Dataset(self.path("data"), self.RECORD, device="cuda")
        loader = DataLoader(dataset, batch_size=64, num_workers=2, multiprocessing_context="spawn")
        rows = torch.cat(list(loader)).cpu()
        self.assertEqual(rows.numpy().tobytes(), self.data[:rows.numel()])

    def test_packed(self):
        choose = random.Random(3)
        samples = [choose.randbytes(choose.choice([8, 800, 4096, 9000])) for _ in range(1500)]
        weft.pack.pack(samples, self.path("mixed.weft"), seal=False)
        chosen = random.Random(2).sample(range(1500), 700)
        for verify in (None, True, False):
            dataset = weft.torch.PackedDataset(self.path("mixed.weft"), device="cuda", verify=verify)
            for number, sample in zip(chosen, dataset.__getitems__(chosen)):
                self.assertEqual((sample.device.type, sample.cpu().numpy().tobytes()), ("cuda", samples[number]))
        # Rows, in memory that does not begin at a page.
        rows = [bytes([number % 251]) * 4096 for number in range(600)]
        weft.pack.pack(rows, self.path("rows.weft"), seal=False)
        dataset = weft.torch.PackedDataset(self.path("rows.weft"), device="cuda")
        held = []
        for _ in range(10):
            held.append(torch.empty(512, dtype=torch.uint8, device="cuda"))
            self.assertEqual(dataset[[5, 0, 599]].cpu().numpy().tobytes(), rows[5] + rows[0] + rows[599])


@needs_torch
class Models(GpuTest):
    def test_safetensors(self):
        tensors = {"a": torch.randn(3, 5), "b.c": torch.randint(0, 9, (7,), dtype=torch.int8), "empty": torch.empty(0, 4),
                   "half": torch.randn(33, 2).to(torch.bfloat16), "big": torch.randn(1 << 20)}
        save_file(tensors, self.path("model"))
        stock, ours = (load(self.path("model"), device="cuda") for load in (load_file, weft.safetensors.load_file))
        self.assertEqual(set(ours), set(stock))
        for name, tensor in stock.items():
            self.assertEqual((ours[name].dtype, ours[name].shape, ours[name].device), (tensor.dtype, tensor.shape, tensor.device))
            self.assertTrue(torch.equal(ours[name], tensor), name)

    def test_checkpoints(self):
        state = {"a": torch.randn(1000, 7, device="cuda"), "b": {"c": torch.arange(5, device="cuda"), "step": 17},
                 "t": torch.randn(6, 5, device="cuda").T, "host": torch.arange(100)}
        checkpoint.save(state, storage_writer=WeftWriter(self.path("one")))
        empty = {"a": torch.zeros(1000, 7, device="cuda"),
                 "b": {"c": torch.zeros(5, dtype=torch.int64, device="cuda"), "step": 0},
                 "t": torch.zeros(5, 6, device="cuda"), "host": torch.zeros(100, dtype=torch.int64)}
        checkpoint.load(empty, storage_reader=WeftReader(self.path("one")))
        for name in ("a", "t", "host"):
            self.assertTrue(torch.equal(empty[name], state[name]), name)
        self.assertTrue(torch.equal(empty["b"]["c"], state["b"]["c"]))
        self.assertEqual(empty["b"]["step"], 17)

    def test_a_save_beside_the_training(self):
        store = os.path.abspath(self.path("store"))
        torch.distributed.init_process_group("cpu:gloo,cuda:gloo", init_method=f"file://{store}", rank=0, world_size=1)
        try:
            state = {"a": torch.randn(1 << 20, device="cuda")}
            before = state["a"].clone()
            save = checkpoint.async_save(state, storage_writer=WeftWriter(self.path("async")))
            state["a"].zero_()
            save.result()
        finally:
            torch.distributed.destroy_process_group()
        empty = {"a": torch.zeros(1 << 20, device="cuda")}
        checkpoint.load(empty, storage_reader=WeftReader(self.path("async")))
        self.assertTrue(torch.equal(empty["a"], before))


@needs_torch
class GpuDirectStorage(GpuTest):
    """PyTorch's own interface to cuFile, when libweft-cufile is its libcufile."""

    def test_storages(self):
        from torch.cuda import gds
        if not hasattr(torch._C, "_gds_register_handle"):
            self.skipTest("this PyTorch is built without cuFile")
        try:
            count_bytes = ctypes.CDLL("libcufile.so.0").weft_cufile_count
        except (OSError, AttributeError):
            self.skipTest("the libcufile that is found here is not weft's: weft-cufile runs a program with it")
        source, copy = torch.randn(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
        gds.gds_register_buffer(copy.untyped_storage())
        file = gds.GdsFile(self.path("storage"), os.O_CREAT | os.O_RDWR)
        file.save_storage(source.untyped_storage(), offset=0)
        file.load_storage(copy.untyped_storage(), offset=0)
        gds.gds_deregister_buffer(copy.untyped_storage())
        del file
        self.assertTrue(torch.equal(copy, source))
        with open(self.path("storage"), "rb") as stored:
            self.assertEqual(stored.read(), source.cpu().numpy().tobytes())
        counted = (ctypes.c_uint64 * 3)()
        count_bytes(counted)
        self.assertEqual(sum(counted), 2 * source.nbytes)


class OfOthers(GpuTest):
    """By DLPack."""

    def test_cupy(self):
        try:
            import cupy
            cupy.cuda.runtime.getDeviceCount()
        except Exception as problem:  # pylint: disable=broad-exception-caught
            self.skipTest(f"CuPy and a GPU are missing: {problem}")
        array = cupy.zeros((1024, 256), dtype=cupy.float32)
        with weft.open(self.path("data")) as file:
            self.assertEqual(file.read_into(array).bytes, array.nbytes)
            self.assertEqual(cupy.asnumpy(array).tobytes(), self.data[:array.nbytes])
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                file.read_into(array.T)
        with weft.create(self.path("cupy"), array.nbytes) as file:
            file.write_from(array)
        with open(self.path("cupy"), "rb") as file:
            self.assertEqual(file.read(), self.data[:array.nbytes])

    def test_jax(self):
        try:
            import jax
            device = jax.devices("gpu")[0]
        except Exception as problem:  # pylint: disable=broad-exception-caught
            self.skipTest(f"JAX and a GPU are missing: {problem}")
        array = jax.device_put(jax.numpy.arange(100000, dtype=jax.numpy.float32), device)
        array.block_until_ready()
        with weft.create(self.path("jax"), array.nbytes) as file:
            file.write_from(array)
        with open(self.path("jax"), "rb") as file:
            self.assertEqual(file.read(), bytes(memoryview(jax.device_get(array))))
        with weft.open(self.path("jax")) as file:
            with self.assertRaisesRegex(BufferError, "immutable"):
                file.read_into(array)
            try:
                import cupy
            except ImportError:
                self.skipTest("CuPy is missing")
            buffer = cupy.empty(100000, dtype=cupy.float32)
            file.read_into(buffer)
            self.assertTrue(bool((jax.dlpack.from_dlpack(buffer) == array).all()))


if __name__ == "__main__":
    unittest.main()
