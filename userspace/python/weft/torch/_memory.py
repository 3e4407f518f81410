# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory for a batch."""
import os

import torch as _torch

from .._pool import SMALLEST

_PAGE = 4096


class Reads:
    """What reads batches, and says of the last one how it came."""
    _last = None, None

    @property
    def result(self):
        """The Result of the last read in this process; None before the first one."""
        process, result = self._last
        # A child of fork() has its parent's.
        return result if process == os.getpid() else None

    def _came_by(self, result):
        self._last = os.getpid(), result


def for_batch(pool, length, device):
    """What a batch of so many bytes is read into, and a tensor of it. It begins at a page, so that a sample has no part of a page
    more than it needs, and any target reads into it directly."""
    if device.type == "cpu" and length >= SMALLEST:
        buffer, view = pool.take(length)
        return buffer, _torch.frombuffer(view, dtype=_torch.uint8)
    # Kernels of a GPU may still use a batch that has no owner: its allocator knows when it may be written again.
    raw = _torch.empty(length + _PAGE, dtype=_torch.uint8, device=device)
    start = -raw.data_ptr() % _PAGE
    data = raw[start:start + length]
    return data, data
