# SPDX-License-Identifier: GPL-2.0-only
"""Samples as people read them without weft, for guest-doors and gpu."""
import io
import os
import tarfile

import torch

SAMPLE, BATCH = 4096, 256


def each(batches, function):
    """What a training loop does: one batch after another, and none of them is kept."""
    def all_of_them():
        for batch in batches:
            function(batch)
    return all_of_them


class ByPread(torch.utils.data.Dataset):
    """A sample by one pread(), as in most datasets."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY)

    def __getitem__(self, index):
        return torch.frombuffer(bytearray(os.pread(self.fd, SAMPLE, index * SAMPLE)), dtype=torch.uint8)


def write_tar(path, samples):
    """A tar file with a member for each sample."""
    with tarfile.open(path, "w") as archive:
        for number, sample in enumerate(samples):
            entry = tarfile.TarInfo(f"{number}.bin")
            entry.size = len(sample)
            archive.addfile(entry, io.BytesIO(sample))


def by_tar(path, device):
    """The samples of a tar file in its order, in batches on the device, as WebDataset reads them."""
    with tarfile.open(path, "r|") as archive:
        batch = []
        for member in archive:
            batch.append(torch.frombuffer(bytearray(archive.extractfile(member).read()), dtype=torch.uint8))
            if len(batch) == BATCH:
                torch.stack(batch).to(device)
                batch = []
