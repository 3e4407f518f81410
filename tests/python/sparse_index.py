# SPDX-License-Identifier: GPL-2.0-only
"""A packed dataset of 10^9 samples: a sparse file with its header, and with those pages of its index that some samples need."""
import os
import subprocess
import sys
from typing import NamedTuple

import numpy

from weft.pack import _format

COUNT = 10**9
_BYTES, _PLACE = 5000, 8192


def make(path, numbers):
    """Writes it. Each of these samples holds its number. OSError with EFBIG: this filesystem has no files of that size."""
    text = b'{"names": [], "attributes": {}}'
    header = _format.layout(incompatible=0, uuid=b"u" * 16, samples=COUNT, data_bytes=COUNT * _PLACE, text_bytes=len(text),
                            fixed_bytes=0, cell_bytes=1 << 20, align=4096, index_kind=_format.LENGTHS,
                            text_check=_format.crc32c(text), created=0, payload_bytes=COUNT * _BYTES, longest=_BYTES,
                            volume_uuid=bytes(16), volume_generation=0)
    each = _format.PER_PAGE[_format.LENGTHS]
    with open(path, "wb") as file:
        file.truncate(header.file_bytes)
        os.pwrite(file.fileno(), header.pack(), 0)
        os.pwrite(file.fileno(), text, header.text_offset)
        for number in numbers:
            page = numpy.zeros(1, _format.PAGES[_format.LENGTHS])
            page["length"] = _BYTES
            page["base"] = (number // each * each + numpy.arange(15) * 64) * _PLACE
            _format.seal_pages(page, _format.LENGTHS, header.uuid, number // each)
            os.pwrite(file.fileno(), page.tobytes(), header.index_offset + number // each * 4096)
            os.pwrite(file.fileno(), b"%d" % number, header.data_offset + number * _PLACE)


class Opened(NamedTuple):
    """What it took to open it: seconds, those of the processor, and the bytes by which the process's peak of memory rose, also
    while it read the samples. process: that peak, with Python, numpy and this package."""
    seconds: float
    cpu_seconds: float
    memory: int
    process: int
    count: int
    read: list


_PROGRAM = """
import sys, time
import weft.pack
def peak():
    # Of this program; that of getrusage() begins with its parent's.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) << 10
before, begun, cpu = peak(), time.monotonic(), time.process_time()
pack = weft.pack.Pack(sys.argv[1], verify=False)
took = time.monotonic() - begun, time.process_time() - cpu
read = [bytes(one).rstrip(bytes(1)).decode() for one in pack.read_many(list(map(int, sys.argv[2:])))]
print(*took, peak() - before, peak(), len(pack), *read)
"""


def opened(path, numbers):
    """Opens it in a process of its own, which reads these samples."""
    done = subprocess.run([sys.executable, "-B", "-c", _PROGRAM, path, *map(str, numbers)], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.split()
    return Opened(float(done[0]), float(done[1]), *map(int, done[2:5]), list(map(int, done[5:])))
