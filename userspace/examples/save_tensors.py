#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes tensors to a file that appears whole or not at all.

usage: save_tensors.py FILE BYTES-OF-A-TENSOR...
"""
import sys

import torch
import weft

path, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]]
device = "cuda" if torch.cuda.is_available() else "cpu"
tensors = [torch.full((size,), i + 1, dtype=torch.uint8, device=device) for i, size in enumerate(sizes)]
with weft.create(path, sum(sizes)) as file:
    at = 0
    for tensor in tensors:
        file.write_from(tensor, at)
        at += tensor.nbytes
print(f"{path}: {at} bytes are on the medium")
