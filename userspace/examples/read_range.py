#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads any bytes of a file, a volume or a block device into a tensor of a GPU (or of the host).

usage: read_range.py FILE OFFSET LENGTH
"""
import sys

import torch
import weft

path, offset, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tensor = torch.empty(length, dtype=torch.uint8, device="cuda" if torch.cuda.is_available() else "cpu")
with weft.open(path) as file:
    result = file.read_into(tensor, offset)
print(f"{result.bytes} bytes by the route {result.route}")
