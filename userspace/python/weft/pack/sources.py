# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a packed dataset is made from: a folder, tar files as WebDataset has them, and shards of MDS.

A source has entries(skip): for each sample, (identity, load). identity: bytes by which an interrupted work finds that the
source is still the same. load(): the sample, a dictionary from names to bytes; it is not called for the first `skip` ones.
The key of a sample is its part "__key__". total is the number of samples, or None; attributes go into the dataset.
"""
import bz2
import gzip
import json
import math
import lzma
import os
import stat
import struct
import tarfile
import zlib

from ._error import PackError
from ._format import SAMPLE_MAX

KEY = "__key__"
# An index of MDS has about 500 bytes for each shard.
_INDEX_MAX = 256 << 20


def split_name(path):
    """The key and the name of the part of a file of that path: its name ends at the first dot."""
    folder, _, name = path.rpartition(b"/")
    stem, _, part = name.partition(b".")
    if not stem or not part:
        stem, part = name, b""
    return (folder + b"/" if folder else b"") + stem, part.decode("utf-8", "surrogateescape")


def _grouped(files, path):
    """Files that follow one another and have one key are a sample. files: (path, bytes, mark, load) of each."""
    key, parts = None, {}
    for name, length, mark, load in files:
        own, part = split_name(name)
        if parts and own != key:
            yield _sample(key, parts)
            parts = {}
        key = own
        if part in parts or part == KEY:
            raise PackError(path, f"{os.fsdecode(name)} is there twice, or named as the key of a sample")
        parts[part] = length, mark, load
    if parts:
        yield _sample(key, parts)


def _sample(key, parts):
    identity = b"\0".join([key, *(f"{part}\0{length}\0{mark}".encode("utf-8", "surrogateescape")
                                  for part, (length, mark, _) in parts.items())])
    return identity, lambda: {KEY: key, **{part: load() for part, (_, _, load) in parts.items()}}


class Folder:
    """All files below a folder, in the order of their names. Those that differ only behind the first dot of their names
    (a/1.jpg, a/1.cls) are one sample. Links to files are followed; links to folders are refused."""

    attributes = {}
    total = None

    def __init__(self, path):
        self.path = os.fspath(path)

    def _files(self, folder, prefix):
        folders = []
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.is_symlink():
                    raise PackError(entry.path, "it is a link to a folder: pack that folder by itself, or copy it here")
                folders.append(entry)
                continue
            known = entry.stat()
            if not stat.S_ISREG(known.st_mode):
                raise PackError(entry.path, "it is neither a file nor a folder")
            if known.st_size > SAMPLE_MAX:
                raise PackError(entry.path, f"it has {known.st_size} bytes; at most {SAMPLE_MAX} are possible")
            yield prefix + os.fsencode(entry.name), known.st_size, known.st_mtime_ns, _Loader(entry.path, known.st_size)
        for entry in folders:
            yield from self._files(entry.path, prefix + os.fsencode(entry.name) + b"/")

    def entries(self, _skip=0):
        return _grouped(self._files(self.path, b""), self.path)


class _Loader:
    def __init__(self, path, length):
        self._path, self._length = path, length

    def __call__(self):
        with open(self._path, "rb") as file:
            data = file.read()
        if len(data) != self._length:
            raise PackError(self._path, f"it had {self._length} bytes a moment ago, and now {len(data)}: it is being written")
        return data


class _Forward:
    """A file for tarfile, read only forward. It remembers the last block of 512 bytes: tarfile takes a damaged header for the
    end of the archive."""

    def __init__(self, stream, can_seek):
        self._stream, self._can_seek, self._at, self.last = stream, can_seek, 0, b""

    def read(self, length=-1):
        pieces, left = [], length
        while left:
            data = self._stream.read(left if left > 0 else 1 << 20)
            if not data:
                break
            pieces.append(data)
            left -= len(data) if left > 0 else 0
        data = b"".join(pieces)
        self._at += len(data)
        if length == tarfile.BLOCKSIZE:
            self.last = data
        return data

    def tell(self):
        return self._at

    def seek(self, offset, _whence=0):
        if self._can_seek:
            self._at = self._stream.seek(offset)
        elif offset < self._at:
            raise tarfile.StreamError("a compressed archive is read only forward")
        while self._at < offset and self.read(min(offset - self._at, 1 << 20)):
            pass
        return self._at


def _zstandard(path):
    try:
        import zstandard
    except ImportError:
        raise PackError(path, "it is compressed by zstd, and Python's module zstandard is missing: install python3-zstandard, or "
                              "decompress the file") from None
    return zstandard


class _Zstd:
    """A file of zstd, open for reading. Its errors are OSError without a number, as those of bz2 are."""

    def __init__(self, path):
        self._module = _zstandard(path)
        self._file = open(path, "rb")
        self._stream = self._module.ZstdDecompressor().stream_reader(self._file, read_across_frames=True)

    def read(self, length=-1):
        try:
            return self._stream.read(length)
        except self._module.ZstdError as wrong:
            raise OSError(f"damaged data of zstd: {wrong}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open), (b"\x28\xb5\x2f\xfd", _Zstd))
# What damaged compressed data raises; OSError without a number besides.
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError)


def _opened(path):
    """The file, decompressed, and whether it can seek at no cost."""
    with open(path, "rb") as file:
        magic = file.read(6)
    for begin, opener in _OPENERS:
        if magic.startswith(begin):
            return opener(path), False
    return open(path, "rb"), True


class Tar:
    """Tar files, whose samples are neighbours with one key, as WebDataset has them. They may be compressed by gzip, bzip2, xz
    or zstd. Links and devices in them are refused."""

    attributes = {}
    total = None

    def __init__(self, *paths):
        self.paths = [os.fspath(path) for path in paths]

    def entries(self, skip=0):
        begun = 0
        for path in self.paths:
            for entry in _grouped(self._files(path, skip - begun), path):
                yield entry
                begun += 1

    def _files(self, path, skip):
        try:
            stream, can_seek = _opened(path)
            with stream:
                file = _Forward(stream, can_seek)
                with tarfile.open(fileobj=file, mode="r:") as tar:
                    yield from self._members(path, tar, skip)
                    if file.last != bytes(tarfile.BLOCKSIZE):
                        raise PackError(path, f"it ends or is damaged at byte {tar.offset}: there is neither the header of "
                                              "a file nor the end of the archive")
        except OSError as wrong:
            if wrong.errno:
                raise
            raise PackError(path, f"it is not a whole tar file: {wrong}") from None
        except _DAMAGED as wrong:
            raise PackError(path, f"it is not a whole tar file: {wrong}") from None

    @staticmethod
    def _members(path, tar, skip):
        key, begun = None, 0
        while True:
            member = tar.next()
            if member is None:
                return
            # tarfile keeps all of them, which is a lot for millions.
            tar.members = []
            if member.isdir():
                continue
            if not member.isreg():
                raise PackError(path, f"{member.name} in it is a link or a device: make the archive with --dereference")
            name = member.name.encode("utf-8", "surrogateescape")
            if split_name(name)[0] != key:
                key, begun = split_name(name)[0], begun + 1
            # The sample may be skipped, but a size that no sample can have is a mistake in any case.
            if member.size > SAMPLE_MAX or member.issparse():
                raise PackError(path, f"{member.name} in it " + ("is sparse: make the archive without --sparse"
                                if member.issparse() else f"has {member.size} bytes; at most {SAMPLE_MAX} are possible"))
            # The archive goes on before the sample is complete, so its data is read now.
            data = tar.extractfile(member).read() if begun > skip else None
            if data is not None and len(data) != member.size:
                raise PackError(path, f"it is truncated within {member.name}: {len(data)} of {member.size} bytes")
            if not math.isfinite(member.mtime):
                raise PackError(path, f"the time of {member.name} in it is {member.mtime}")
            yield name, member.size, int(member.mtime), lambda data=data: data


class Mds:
    """A folder of shards of MDS, with its index.json. Samples have the columns as parts, in the bytes that MDS has for them;
    the dataset's attribute "mds" has the names and encodings. Compressed shards are of gzip, bzip2 or zstd."""

    def __init__(self, path):
        self.path = os.fspath(path)
        index = os.path.join(self.path, "index.json")
        try:
            if os.path.getsize(index) > _INDEX_MAX:
                raise ValueError(f"it has more than {_INDEX_MAX} bytes")
            with open(index, "rb") as file:
                known = json.load(file)
            self._shards = [_Shard(self.path, one) for one in known["shards"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as wrong:
            raise PackError(index, f"it is not an index of MDS: {wrong!r}") from None
        self.total = sum(shard.samples for shard in self._shards)
        first = self._shards[0] if self._shards else None
        for shard in self._shards:
            if shard.columns != first.columns:
                raise PackError(index, f"shard {shard.name} has other columns than {first.name}")
        self.attributes = {"mds": {"column_names": [name for name, _, _ in first.columns],
                                   "column_encodings": [encoding for _, encoding, _ in first.columns]}} if first else {}

    def entries(self, skip=0):
        for shard in self._shards:
            yield from shard.entries(skip)
            skip = max(0, skip - shard.samples)


class _Shard:
    """One entry of the index. What is wrong with it raises ValueError, KeyError or TypeError."""

    def __init__(self, folder, known):
        if known["format"] != "mds" or known["version"] != 2:
            raise ValueError(f"a shard of format {known['format']!r}, version {known['version']!r}; version 2 of mds is known")
        packed = known.get("zip_data")
        self.name = (packed or known["raw_data"])["basename"]
        if os.path.isabs(self.name) or ".." in self.name.split("/"):
            raise ValueError(f"shard {self.name!r} is not below the folder")
        self._path = os.path.join(folder, self.name)
        self.samples, self._bytes = int(known["samples"]), int(known["raw_data"]["bytes"])
        self.columns = [(str(name), str(encoding), int(size or 0)) for name, encoding, size in
                        zip(known["column_names"], known["column_encodings"], known["column_sizes"], strict=True)]
        if len({name for name, _, _ in self.columns}) != len(self.columns):
            raise ValueError(f"shard {self.name!r} has two columns of one name: {[name for name, _, _ in self.columns]}")
        if self.samples < 0 or not 0 <= self._bytes < 1 << 32 or any(size < 0 for _, _, size in self.columns):
            raise ValueError(f"shard {self.name!r} has a negative size, or one above 4 GiB")

    def entries(self, skip):
        known = os.stat(self._path)
        identity = f"{self.name}\0{self._bytes}\0{self.samples}\0{known.st_size}\0{known.st_mtime_ns}\0".encode(
            "utf-8", "surrogateescape")
        for number in range(min(skip, self.samples)):
            yield identity + b"%d" % number, None
        if skip >= self.samples:
            return
        data = self._read()
        ends = struct.unpack_from(f"<{self.samples + 1}I", data, 4)
        for number in range(skip, self.samples):
            begin, end = ends[number], ends[number + 1]
            if not 4 * (self.samples + 2) <= begin <= end <= len(data):
                raise PackError(self._path, f"sample {number} is at bytes {begin} to {end} of {len(data)}: the shard is damaged")
            yield identity + b"%d" % number, lambda number=number, begin=begin, end=end: self._sample(number, data[begin:end])

    def _read(self):
        try:
            stream, _ = _opened(self._path)
            with stream:
                # One more than there should be, and not all that a hostile file decompresses to.
                data = _Forward(stream, False).read(self._bytes + 1)
        except OSError as wrong:
            if wrong.errno:
                raise
            raise PackError(self._path, f"it cannot be decompressed: {wrong}") from None
        except _DAMAGED as wrong:
            raise PackError(self._path, f"it cannot be decompressed: {wrong}") from None
        if len(data) != self._bytes:
            raise PackError(self._path, f"it has {'more' if len(data) > self._bytes else len(data)} bytes, and the index says "
                                        f"{self._bytes}")
        if len(data) < 4 * (self.samples + 2) or struct.unpack_from("<I", data)[0] != self.samples:
            raise PackError(self._path, f"it does not have the {self.samples} samples that the index says")
        return data

    def _sample(self, number, data):
        at, sizes = 0, []
        for _, _, size in self.columns:
            if not size:
                if at + 4 > len(data):
                    raise PackError(self._path, f"sample {number} ends within the sizes of its columns: the shard is damaged")
                size = struct.unpack_from("<I", data, at)[0]
                at += 4
            sizes.append(size)
        if at + sum(sizes) != len(data):
            raise PackError(self._path, f"the columns of sample {number} have {at + sum(sizes)} bytes, and the sample has "
                                        f"{len(data)}: the shard is damaged")
        parts = {}
        for (name, _, _), size in zip(self.columns, sizes):
            parts[name] = data[at:at + size]
            at += size
        return parts


def detect(paths):
    """The source that these paths are: one folder, or tar files."""
    if len(paths) == 1 and os.path.isdir(paths[0]):
        index = os.path.join(paths[0], "index.json")
        if os.path.isfile(index):
            with open(index, "rb") as file:
                if b'"mds"' in file.read(4096):
                    return Mds(paths[0])
        return Folder(paths[0])
    for path in paths:
        if os.path.isdir(path):
            raise PackError(path, "it is a folder: give one folder, or tar files")
        os.stat(path)
    return Tar(*paths)


__all__ = ["Folder", "KEY", "Mds", "Tar", "detect", "split_name"]
