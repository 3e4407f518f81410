# SPDX-License-Identifier: LGPL-2.1-or-later
"""I/O on weft volumes and files, straight to and from host and GPU memory.

    import torch, weft

    tensor = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    with weft.open("/mnt/data/model.bin") as file:
        result = file.read_into(tensor, offset=4096)
    print(result.bytes, result.route)

open() takes the name of a volume ("data"), or a path of a file or a block device. Memory is anything that has its bytes in
one piece: a tensor of PyTorch or another library with DLPack, an array of NumPy, a bytearray, or what empty() makes. Each
result says by which route its bytes went; strict=True refuses all routes with a copy. Failures are OSError with libweft's
sentence, which is the kernel's where it gives one.

Each thread, and each process after a fork, uses an io_uring of its own. numpy and torch are not imported here.
"""
from ._memory import Buffer, empty
from ._target import Registration, Result, Target, open  # pylint: disable=redefined-builtin
from ._writer import Writer, create

__all__ = ["Buffer", "Registration", "Result", "Target", "Writer", "create", "empty", "open"]
