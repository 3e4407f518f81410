# SPDX-License-Identifier: LGPL-2.1-or-later
"""A new packed dataset. It has its name when it is complete; an interrupted one goes on where its journal says."""
import array
import builtins
import errno
import fcntl
import json
import os
import shutil
import stat
import time
import uuid
from typing import NamedTuple

import numpy

from .._writer import is_there, sync_folder
from . import _format as form
from ._crc import crc32c
from ._error import PackError
from ._volume import is_sealed, volume_of
from ._volume import seal as seal_file

_FLUSH_BYTES = 4 << 20
# What an interruption costs at most: these bytes and seconds of work.
_CHECKPOINT_BYTES, _CHECKPOINT_SECONDS = 1 << 30, 30
_JOURNAL_VERSION = 1
_SPILLS = {"bases": "Q", "lengths": "I", "sums": "I", "cells": "I"}
# Pages of the index that are made at a time: 4 MiB.
_PAGES = 1024


def _umask():
    """Of this process. To ask for it by umask() would change it, for other threads as well."""
    with builtins.open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))


class Made(NamedTuple):
    """What has been written. reason: why it is not sealed, or bound to no volume; empty if it is both."""
    path: str
    samples: int
    bytes: int
    sealed: bool
    volume: str
    reason: str


def _write_all(file, data, offset):
    view, done = memoryview(data).cast("B"), 0
    while done < len(view):
        done += os.pwrite(file, view[done:], offset + done)


class _Spill:
    """Numbers that are appended to a file, of which the journal says how many are durable."""

    def __init__(self, path, kind, count):
        self._kind, self.path = kind, path
        self._file = builtins.open(path, "r+b" if is_there(path) else "w+b", buffering=0)
        self._pending, width = array.array(kind), array.array(kind).itemsize
        self._at = count * width
        if os.fstat(self._file.fileno()).st_size < self._at:
            self._file.close()
            raise PackError(path, "it is shorter than the journal says; --restart (restart=True) begins anew")
        os.ftruncate(self._file.fileno(), self._at)

    def append(self, number):
        self._pending.append(number)
        if len(self._pending) >= 1 << 16:
            self.flush()

    def extend(self, numbers):
        self._pending.extend(numbers)

    def flush(self, durable=False):
        _write_all(self._file.fileno(), self._pending, self._at)
        self._at += len(self._pending) * self._pending.itemsize
        self._pending = array.array(self._kind)
        if durable:
            os.fdatasync(self._file.fileno())

    def read(self, first, count):
        """Up to `count` numbers from there. All of them are in the file: flush() was called."""
        kind = numpy.dtype(f"u{self._pending.itemsize}")
        raw = os.pread(self._file.fileno(), count * kind.itemsize, first * kind.itemsize)
        return numpy.frombuffer(raw, kind)

    def close(self):
        self._file.close()


class Writer:
    """Appends samples to a new packed dataset `path`. A context manager: the dataset has its name when the block ends without
    an exception. After an exception, or a crash, its work so far stays in the folder .NAME.partial beside it; the next Writer
    of the same path goes on, and `count` says with which sample.

    cell: bytes of a cell, a power of two from 64 KiB to 1 MiB. align: samples of at least so many bytes begin at a multiple
    of it, a power of two from 512 to 64 KiB. sums: a checksum for each sample as well, 4 bytes in the index; without, a large
    sample is verified only by reading all of its cells. attributes: a dictionary for JSON, which readers get. seal: make the
    file immutable (chattr +i) at the end if that is possible. replace: a file that has the name. restart: drop what an
    earlier Writer left. parts: samples are dictionaries from names to bytes; without, they are bytes.

    FileExistsError: the name is taken, with `replace` by something that is not a regular file. PackError: what an earlier Writer
    left does not match. ENOSPC: the volume is full; nothing that a checkpoint has is lost.
    """

    def __init__(self, path, *, cell=256 << 10, align=4096, parts=False, sums=True, attributes=None, seal=True, replace=False,
                 restart=False):
        form.check_geometry(cell, align)
        self.path, self._replace = os.path.abspath(os.fspath(path)), replace
        self._folder, name = os.path.split(self.path)
        self._work = os.path.join(self._folder, f".{name}.partial")
        self._parameters = {"cell": cell, "align": align, "parts": bool(parts), "sums": bool(sums)}
        self._cell, self._align, self._parts, self._sums, self._seal = cell, align, parts, sums, seal
        self._attributes = attributes or {}
        self._data_offset = max(cell, form.HEADER_BYTES)
        self._lock = self._data = None
        self._spills, self._busy, self.made = {}, False, None
        self._check_name("is there already")
        os.makedirs(self._work, exist_ok=True)
        try:
            self._begin(restart)
        except BaseException:
            self._close()
            raise

    def _check_name(self, what):
        # Of a link, what it leads to: a user who names a device wants to write to it.
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise FileExistsError(errno.EEXIST, f"{self.path} is not a regular file, and a dataset replaces only these: give it "
                                                "another name")
        if not self._replace and is_there(self.path):
            raise FileExistsError(errno.EEXIST, f"{self.path} {what}; --force (replace=True) replaces it")

    def _file(self, name):
        return os.path.join(self._work, name)

    def _begin(self, restart):
        try:
            self._lock = builtins.open(self._file("lock"), "w", encoding="ascii")
        except FileNotFoundError:
            raise PackError(self.path, "another process has just made it: try again") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PackError(self.path, "another process is making it now") from None
        # Another one that has ended since takes its folder away, and the lock with it.
        try:
            lost = not os.path.samestat(os.fstat(self._lock.fileno()), os.stat(self._lock.name))
        except FileNotFoundError:
            lost = True
        if lost:
            raise PackError(self.path, "another process has just made it: try again")
        if restart:
            for entry in os.scandir(self._work):
                if entry.name != "lock":
                    os.unlink(entry.path)
        known = self._journal()
        self.count, self._end, self._cells = known["count"], known["end"], known["cells"]
        self._payload, self._longest, self._same = known["payload"], known["longest"], known["same"]
        self._large, self.state, self._uuid = known["large"], known["state"], bytes.fromhex(known["uuid"])
        self._names = {name: number for number, name in enumerate(known["names"])}
        counts = {"bases": -(-self.count // form.GROUP), "lengths": self.count, "sums": self.count, "cells": self._cells}
        for name, kind in _SPILLS.items():
            self._spills[name] = _Spill(self._file(name), kind, counts[name])
        self._data = builtins.open(self._file("data"), "r+b" if self.count else "w+b", buffering=0)
        self._buffer, self._at = bytearray(), self._cells * self._cell
        while len(self._buffer) < self._end - self._at:
            got = os.pread(self._data.fileno(), self._end - self._at - len(self._buffer),
                           self._data_offset + self._at + len(self._buffer))
            if not got:
                raise PackError(self._file("data"), "it is shorter than the journal says; --restart (restart=True) begins anew")
            self._buffer += got
        self._checkpointed = self._end
        self._when = time.monotonic()

    def _journal(self):
        """What an earlier Writer left, or the beginning."""
        path = self._file("journal")
        beginning = {"count": 0, "end": 0, "cells": 0, "payload": 0, "longest": 0, "same": None, "large": False, "state": "",
                     "uuid": uuid.uuid4().hex, "names": []}
        # Or it was interrupted after the data had got its name.
        if not is_there(self._file("data")):
            if is_there(path):
                os.unlink(path)
                sync_folder(self._work)
            return beginning
        try:
            with builtins.open(path, "rb") as file:
                check, raw = file.read(8), file.read()
        except FileNotFoundError:
            return beginning
        if check != b"%08x" % crc32c(raw):
            raise PackError(path, "the journal of an earlier attempt is damaged; --restart (restart=True) begins anew")
        known = json.loads(raw)
        if known["version"] != _JOURNAL_VERSION:
            raise PackError(path, "it is of another version of weft; --restart (restart=True) begins anew")
        if known["parameters"] != self._parameters:
            raise PackError(path, f"an earlier attempt has {known['parameters']}, and this one {self._parameters}: give the "
                                  "same, or --restart (restart=True) to begin anew")
        return known

    def _begin_step(self):
        """An interruption until the end of the step leaves what no checkpoint may take, and nothing may be added to."""
        if self._busy:
            raise PackError(self.path, "its Writer was interrupted; make another one: it goes on from the last checkpoint")
        self._busy = True

    def checkpoint(self):
        """Returns when all samples so far are on the medium, and an interruption loses none of them."""
        self._begin_step()
        self._checkpoint()
        self._busy = False

    def _checkpoint(self):
        self._flush()
        _write_all(self._data.fileno(), self._buffer, self._data_offset + self._at)
        os.fdatasync(self._data.fileno())
        for spill in self._spills.values():
            spill.flush(durable=True)
        raw = json.dumps({
            "version": _JOURNAL_VERSION, "parameters": self._parameters, "count": self.count, "end": self._end,
            "cells": self._cells, "payload": self._payload, "longest": self._longest, "same": self._same, "large": self._large,
            "state": self.state, "uuid": self._uuid.hex(), "names": list(self._names)}).encode()
        with builtins.open(self._file("journal.new"), "wb") as file:
            file.write(b"%08x" % crc32c(raw) + raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._file("journal.new"), self._file("journal"))
        sync_folder(self._work)
        self._checkpointed, self._when = self._end, time.monotonic()

    def _flush(self):
        """Writes the whole cells of the buffer."""
        whole = len(self._buffer) // self._cell
        if not whole:
            return
        with memoryview(self._buffer) as view:
            _write_all(self._data.fileno(), view[:whole * self._cell], self._data_offset + self._at)
            self._spills["cells"].extend(crc32c(view[at:at + self._cell]) for at in range(0, whole * self._cell, self._cell))
        del self._buffer[:whole * self._cell]
        self._at += whole * self._cell
        self._cells += whole

    def _name(self, name):
        if name not in self._names:
            if len(self._names) >= form.NAMES_MAX or len(name) > 255:
                raise PackError(self.path, f"a dataset has at most {form.NAMES_MAX} names of parts, of 255 characters; this "
                                           f"is one more: {name[:40]!r}")
            self._names[name] = len(self._names)
        return self._names[name]

    def encoded(self, sample):
        """The bytes of a sample in the dataset."""
        if type(sample) is bytes and not self._parts:
            return sample
        if self._parts:
            if not isinstance(sample, dict):
                raise TypeError(f"sample {self.count} is of type {type(sample).__name__}: with parts=True, it is a dictionary "
                                "from names to bytes")
            parts = {str(name): bytes(memoryview(data)) for name, data in sample.items()}
            if len(parts) != len(sample):
                raise ValueError(f"sample {self.count} has two parts whose names are equal as text: {list(sample)}")
            return form.encode_parts(parts, self._name)
        if isinstance(sample, (dict, str, int, type(None))):
            raise TypeError(f"sample {self.count} is of type {type(sample).__name__}: it has to be bytes; dictionaries are for "
                            "parts=True")
        return bytes(memoryview(sample))

    @property
    def bytes(self):
        """Of all samples so far."""
        return self._payload

    def add(self, sample, state=None):
        """Appends a sample. state: a short text for who resumes, which the journal keeps with the samples up to this one."""
        self.add_encoded(self.encoded(sample), state)

    def add_encoded(self, sample, state=None):
        """Appends what encoded() has returned."""
        length, end, cell = len(sample), self._end, self._cell
        if length > form.SAMPLE_MAX:
            raise PackError(self.path, f"sample {self.count} has {length} bytes; at most {form.SAMPLE_MAX} are possible")
        self._begin_step()
        if length >= self._align:
            begin = -(-end // self._align) * self._align
            self._large = True
        elif length and end // cell != (end + length - 1) // cell:
            begin = -(-end // cell) * cell
        else:
            begin = end
        if begin > end:
            self._buffer += bytes(begin - end)
        self._buffer += sample
        self._end = begin + length
        if not self.count % form.GROUP:
            self._spills["bases"].append(begin)
        self._spills["lengths"].append(length)
        self._spills["sums"].append(crc32c(sample) if self._sums else 0)
        self._payload += length
        self._longest = max(self._longest, length)
        self._same = length if not self.count or self._same == length else None
        self.count += 1
        if state is not None:
            self.state = state
        try:
            if len(self._buffer) >= _FLUSH_BYTES:
                self._flush()
                if self._end - self._checkpointed >= _CHECKPOINT_BYTES or time.monotonic() - self._when >= _CHECKPOINT_SECONDS:
                    self._checkpoint()
        except OSError as wrong:
            raise self._full(wrong) from wrong
        self._busy = False

    def _full(self, wrong):
        if wrong.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return wrong
        return OSError(wrong.errno, f"{self.path}: no room after {self.count} samples ({os.strerror(wrong.errno)}); make room "
                                    "and start again: it goes on from the last checkpoint")

    def _pages(self, kind, count):
        """All pages of a kind, as arrays of some of them."""
        each = form.PER_PAGE[kind]
        groups = each // form.GROUP
        for first in range(0, -(-count // each), _PAGES):
            pages = numpy.zeros(min(_PAGES, -(-count // each) - first), form.PAGES[kind])
            for field, spill, per in (("base", "bases", groups), ("length", "lengths", each),
                                      ("sum", "cells" if kind == form.CELLS else "sums", each)):
                if field in pages.dtype.names:
                    numbers = self._spills[spill].read(first * per, len(pages) * per)
                    full = numpy.zeros(len(pages) * per, numbers.dtype)
                    full[:len(numbers)] = numbers
                    pages[field] = full.reshape(len(pages), per)
            form.seal_pages(pages, kind, self._uuid, first)
            yield pages

    def _write_tail(self):
        """Writes all behind the data. Returns the header."""
        data_bytes = form.round_up(self._end, self._align)
        fixed = self._same or 0
        # Cells verify small samples.
        sums = self._sums and self._large
        kind = (form.SUMS if sums else 0) if fixed else form.LENGTHS_AND_SUMS if sums else form.LENGTHS
        text = json.dumps({"names": list(self._names), "attributes": self._attributes}).encode()
        if len(text) > form.TEXT_MAX:
            raise PackError(self.path, f"names and attributes have {len(text)} bytes; at most {form.TEXT_MAX} are possible")
        volume = volume_of(self._data.fileno())
        header = form.layout(
            incompatible=form.PARTS if self._parts else 0, uuid=self._uuid, samples=self.count, data_bytes=data_bytes,
            text_bytes=len(text), fixed_bytes=fixed, cell_bytes=self._cell, align=self._align, index_kind=kind,
            text_check=crc32c(text), created=int(time.time()), payload_bytes=self._payload, longest=self._longest,
            volume_uuid=volume.uuid if volume else bytes(16), volume_generation=volume.generation if volume else 0)
        last = bytes(self._buffer).ljust(data_bytes - self._at, b"\0")
        file = self._data.fileno()
        os.ftruncate(file, header.file_bytes)
        # A sealed file is read without its filesystem only if it has no holes.
        _write_all(file, bytes(self._data_offset - form.HEADER_BYTES), form.HEADER_BYTES)
        _write_all(file, last.ljust(header.index_offset - self._data_offset - self._at, b"\0"), self._data_offset + self._at)
        durable = self._cells
        try:
            if last:
                self._spills["cells"].extend([crc32c(last)])
                self._spills["cells"].flush()
            for which, count, at in ((kind, self.count, header.index_offset),
                                     (form.CELLS, header.cells, header.cells_offset)):
                for pages in self._pages(which, count) if which else ():
                    _write_all(file, pages.view(numpy.uint8), at)
                    at += pages.nbytes
        finally:
            # The last cell is not complete for who goes on.
            self._spills["cells"].close()
            self._spills["cells"] = _Spill(self._file("cells"), _SPILLS["cells"], durable)
        _write_all(file, text.ljust(header.file_bytes - header.text_offset, b"\0"), header.text_offset)
        os.fsync(file)
        _write_all(file, header.pack(), 0)
        os.fsync(file)
        return header, volume

    def finish(self):
        """Completes the dataset, and gives it its name. Returns a Made."""
        try:
            self.checkpoint()
            header, volume = self._write_tail()
        except OSError as wrong:
            raise self._full(wrong) from wrong
        os.fchmod(self._data.fileno(), 0o666 & ~_umask())
        self._check_name("has appeared meanwhile")
        # A link is replaced itself, and what it leads to stays sealed.
        if os.path.isfile(self.path) and not os.path.islink(self.path):
            _unseal(self.path)
        os.replace(self._file("data"), self.path)
        try:
            sync_folder(self._folder)
            why_not = seal_file(self._data.fileno()) if self._seal else "sealing was not asked for"
        finally:
            # It is complete, also where sealing fails.
            self._remove_work()
        reasons = [] if volume else ["it is not on a weft volume, so it is bound to none"]
        reasons += [f"it is not sealed: {why_not}"] if why_not else []
        self.made = Made(self.path, self.count, header.file_bytes, not why_not, volume.name if volume else "",
                         "; ".join(reasons))
        return self.made

    def stop(self):
        """Ends without completing it. The work so far stays for the next Writer of this path."""
        if self._data and not self._data.closed:
            try:
                if not self._busy:
                    self.checkpoint()
            finally:
                self._close()

    def abandon(self):
        """Ends, and leaves nothing of it."""
        self._remove_work()

    def _remove_work(self):
        """Renames the folder, frees the lock, and removes the folder. A waiting process then sees that the name is gone."""
        gone = os.path.join(self._folder, f".weft-{uuid.uuid4().hex}.partial")
        try:
            os.rename(self._work, gone)
        finally:
            self._close()
        shutil.rmtree(gone)

    def _close(self):
        for file in (*self._spills.values(), self._data, self._lock):
            if file:
                file.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, _traceback):
        if kind is None:
            try:
                self.finish()
            except BaseException:
                self._close()
                raise
            return
        try:
            self.stop()
        except OSError as wrong:
            # The exception that ends the block is the one to see; an earlier checkpoint stays.
            value.add_note(f"{self.path}: the last samples are in no checkpoint: {wrong}") if hasattr(value, "add_note") else None


def _unseal(path):
    """So that the file can be replaced."""
    file = os.open(path, os.O_RDONLY)
    try:
        if is_sealed(file):
            why_not = seal_file(file, False)
            if why_not:
                raise PackError(path, f"it is sealed, and cannot be replaced: {why_not}")
    finally:
        os.close(file)


def seal(path, bound=True):
    """Binds a dataset to the volume on which it lies now, for example after it was copied, and seals it. All of its bytes
    should have been verified before. Returns a Made."""
    path = os.path.abspath(os.fspath(path))
    file = os.open(path, os.O_RDONLY)
    try:
        # A device may be larger than the dataset on it.
        size, exact = os.lseek(file, 0, os.SEEK_END), stat.S_ISREG(os.fstat(file).st_mode)
        header = form.parse(os.pread(file, form.HEADER_BYTES, 0), path, size, exact)
        volume = volume_of(file) if bound else None
        header = header._replace(volume_uuid=volume.uuid if volume else bytes(16),
                                 volume_generation=volume.generation if volume else 0)
        if header.pack() != os.pread(file, form.HEADER_BYTES, 0):
            why_not = seal_file(file, False)
            writing = os.open(path, os.O_WRONLY)
            try:
                _write_all(writing, header.pack(), 0)
                os.fsync(writing)
            finally:
                os.close(writing)
        why_not = seal_file(file)
    finally:
        os.close(file)
    reasons = [] if volume else ["it is bound to no volume" + (": it is not on a weft volume" if bound else "")]
    reasons += [f"it is not sealed: {why_not}"] if why_not else []
    return Made(path, header.samples, size, not why_not, volume.name if volume else "", "; ".join(reasons))
