#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads random samples of 4 KiB of a file, a volume or a block device into one tensor.

usage: gather_samples.py FILE [SAMPLES]
"""
import sys

import torch
import weft.torch

path, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100000
device = "cuda" if torch.cuda.is_available() else "cpu"
samples = weft.torch.Dataset(path, record=4096, device=device)
numbers = torch.randint(len(samples), (count,))
batch = samples[numbers.tolist()]
print(f"a tensor of {tuple(batch.shape)}")
