# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory for a batch."""
import torch as _torch

PAGE = 4096


def empty(length, device):
    """A tensor of so many bytes that begins at a page: a sample of whole blocks has no part of a page more than it needs, and
    any target reads into it directly."""
    raw = _torch.empty(length + PAGE, dtype=_torch.uint8, device=device)
    start = -raw.data_ptr() % PAGE
    return raw[start:start + length]
