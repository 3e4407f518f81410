# SPDX-License-Identifier: LGPL-2.1-or-later
"""From a source to a packed dataset, and from that to files."""
import hashlib
import io
import itertools
import os
import tarfile

from ._crc import crc32c
from ._error import PackError
from ._writer import Writer
from .sources import KEY, Folder


def pack(source, path, *, progress=None, **options):
    """Makes the packed dataset `path`, or goes on with it. Returns a Made.

    source: one of weft.pack.sources, or an iterable whose samples are bytes, or dictionaries from names to bytes. After an
    interruption, the iterable has to give the same samples again from the first one on (PackError if they are others); those that
    are in the dataset are passed over. progress: is called with (samples, bytes, samples in all or None) after each sample.
    options: of Writer.
    """
    if hasattr(source, "entries"):
        if isinstance(source, Folder) and _is_below(path, source.path):
            raise PackError(path, f"it is below {source.path} and would contain itself: give it another place")
        with Writer(path, parts=True, attributes=source.attributes, **options) as writer:
            _pack_entries(source, writer, progress)
        return writer.made
    samples, given = iter(source), 0
    # Not with a default of next(): a first sample of None would be one, too.
    first = list(itertools.islice(samples, 1))
    with Writer(path, parts=bool(first) and isinstance(first[0], dict), **options) as writer:
        skip, check = writer.count, 0
        for given, sample in enumerate(itertools.chain(first, samples), 1):
            raw = writer.encoded(sample)
            # Of all samples so far, and where each ends.
            check = crc32c(raw, crc32c(len(raw).to_bytes(8, "little"), check))
            state = f"crc32c {check:08x}"
            # Who used a Writer before may have left no state.
            if given == skip and writer.state and writer.state != state:
                raise _changed(writer, skip)
            if given > skip:
                writer.add_encoded(raw, state)
                if progress:
                    progress(writer.count, writer.bytes, None)
        _check_skipped(given, writer, skip)
    return writer.made


def _is_below(path, folder):
    place, top = (os.path.realpath(one) for one in (os.path.dirname(os.path.abspath(path)), folder))
    return os.path.commonpath([place, top]) == top


def _changed(writer, skip):
    return PackError(writer.path, f"the first {skip} samples of the source are not those that an earlier attempt has: the source "
                                  "has changed. --restart (restart=True) begins anew")


def _check_skipped(given, writer, skip):
    if given < skip:
        raise PackError(writer.path, f"an earlier attempt has {skip} samples, and the source gives only {given}: it is not the "
                                     "same source. --restart (restart=True) begins anew")


def _pack_entries(source, writer, progress):
    skip, number, chain = writer.count, 0, b""
    for number, (identity, load) in enumerate(source.entries(skip), 1):
        # One value for all samples so far, and their order.
        chain = hashlib.blake2b(chain + identity, digest_size=16).digest()
        if number == skip and chain.hex() != writer.state:
            raise _changed(writer, skip)
        if number > skip:
            writer.add(load(), chain.hex())
        if progress:
            progress(number, writer.bytes, source.total)
    _check_skipped(number, writer, skip)


def _names(pack, number, data):
    """The names of the files of a sample, and their bytes."""
    if not pack.header.is_parts:
        yield b"%09d" % number, data
        return
    parts = pack.decoded(data, number)
    key = bytes(parts.pop(KEY, b"%09d" % number))
    for part, content in parts.items():
        yield key + (b"." + part.encode("utf-8", "surrogateescape") if part else b""), content


def _checked(pack, number, name):
    """A name that stays below the folder."""
    words = name.split(b"/")
    if not name or b"\0" in name or any(word in (b"", b".", b"..") for word in words):
        raise PackError(pack.name, f"sample {number} has the name {os.fsdecode(name)!r}, which is no name of a file below a "
                                   "folder: it is not unpacked")
    return words


def unpack_folder(pack, folder, progress=None):
    """Writes the samples of a Pack as files of a new folder. FileExistsError: it is there, and not empty. Returns the number
    of files."""
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise FileExistsError(f"{folder} is not empty: unpack into a new folder")
    files, made = 0, set()
    for number, data in pack.scan():
        for name, content in _names(pack, number, data):
            *folders, last = _checked(pack, number, name)
            inner = os.path.join(os.fsencode(folder), *folders)
            if inner not in made:
                os.makedirs(inner, exist_ok=True)
                made.add(inner)
            try:
                # Only files and folders are made here, so no name leads through a link.
                file = os.open(os.path.join(inner, last), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            except FileExistsError:
                raise PackError(pack.name, f"sample {number} has the name {os.fsdecode(name)!r}, as another one has") from None
            with open(file, "wb") as to:
                to.write(content)
            files += 1
        if progress:
            progress(number + 1, files, len(pack))
    return files


def unpack_tar(pack, path, progress=None):
    """Writes the samples of a Pack to a new tar file, as WebDataset has them. FileExistsError: it is there, or its draft
    NAME.partial is. Returns the number of files."""
    files, draft = 0, f"{path}.partial"
    for name in (path, draft):
        if os.path.lexists(name):
            raise FileExistsError(f"{name} exists already: remove it, or give another name")
    # Only a new file is written, and removed after an error: no link leads to another one.
    to = open(draft, "xb")
    try:
        with to:
            with tarfile.open(fileobj=to, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
                for number, data in pack.scan():
                    for name, content in _names(pack, number, data):
                        _checked(pack, number, name)
                        member = tarfile.TarInfo(name.decode("utf-8", "surrogateescape"))
                        member.size, member.mtime, member.mode = len(content), pack.header.created, 0o644
                        tar.addfile(member, io.BytesIO(content))
                        # tarfile keeps all of them, which is a lot for millions.
                        tar.members = []
                        files += 1
                    if progress:
                        progress(number + 1, files, len(pack))
            to.flush()
            os.fsync(to.fileno())
        # Again: it took long, and a rename replaces what is there.
        if os.path.lexists(path):
            raise FileExistsError(f"{path} was made meanwhile: remove it, or give another name")
        os.rename(draft, path)
    except BaseException:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise
    return files
