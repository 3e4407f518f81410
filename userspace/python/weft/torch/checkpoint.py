# SPDX-License-Identifier: LGPL-2.1-or-later
"""Storage of torch.distributed.checkpoint on a filesystem of a weft volume, or any other.

    from torch.distributed import checkpoint
    from weft.torch.checkpoint import WeftReader, WeftWriter

    checkpoint.save(state, storage_writer=WeftWriter("/mnt/data/step-1000"))
    checkpoint.load(state, storage_reader=WeftReader("/mnt/data/step-1000"))

A checkpoint is a folder. Each rank writes one file, of raw tensors that begin at whole pages. The file .metadata is written
last, when the files of all ranks are on the medium. It makes a folder a checkpoint, and says which files are its own. A rank
that is killed leaves the checkpoints before whole, also one in the same folder (overwrite), and files that the next save into
the folder removes.

Load only checkpoints that you trust: PyTorch itself unpickles objects that are no tensors.

A load reads from each file what this rank needs, straight into its tensors where they have the same layout.
"""
import contextlib
import dataclasses
import errno
import fcntl
import io
import logging
import os
import pickle
import re
import shutil
import uuid

import torch
from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .. import _writer
from .._target import open as open_target

_log = logging.getLogger("weft")
_METADATA, _PAGE = ".metadata", 4096
# The files of ranks: RANK-SAVE.weft. What a save makes in a folder: these, and drafts of these and of the metadata.
_RANK_FILE = r"\d+-[0-9a-f]{8}\.weft"
_OWN_FILE = re.compile(rf"{_RANK_FILE}|\.({_RANK_FILE}|\.metadata)-[a-z0-9_]{{8}}")


@dataclasses.dataclass
class Place:
    """Where an item of a checkpoint is."""
    file: str
    offset: int
    length: int


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def _item(planner, item):
    """What is to be written of an item: a tensor, or bytes."""
    data = planner.resolve_data(item)
    if item.type == WriteItemType.BYTE_IO:
        return data.getbuffer()
    _refuse_quantized(data, item.index.fqn)
    return data.detach()


def _refuse_quantized(tensor, name):
    """Its scale is not among its bytes."""
    if tensor.is_quantized:
        raise ValueError(f"{name} is quantized, and a checkpoint has its integers alone: save int_repr(), scale and zero point")


@contextlib.contextmanager
def _alone(folder):
    """One process at a time looks at the files of a folder and removes some, or makes it a checkpoint. A filesystem without locks
    of folders, such as NFS, has no such order: have one save at a time there."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
        except OSError as problem:
            if problem.errno not in (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        yield
    finally:
        # A child of fork() may have the descriptor, too.
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_UN)
        os.close(number)


def _plain(data):
    """The same in one piece, whose bytes are its values."""
    return data.resolve_conj().resolve_neg().contiguous() if isinstance(data, torch.Tensor) else data


def _length(data):
    return data.numel() * data.element_size() if isinstance(data, torch.Tensor) else len(data)


def _apart(value, of):
    """The same, with copies of the tensors whose id() is in `of`."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone() if id(value) in of else value
    if isinstance(value, dict):
        return {key: _apart(one, of) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_apart(one, of) for one in value)
    return value


def _tensors(value):
    """The ids of the tensors of a state."""
    if isinstance(value, torch.Tensor):
        return {id(value)}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return set().union(*map(_tensors, parts))


class WeftWriter(StorageWriter):
    """Writes a checkpoint into the folder `path`, which is made if it is not there.

    For save() and async_save(). FileExistsError: the folder has a complete checkpoint already, unless `overwrite` is set. With
    `overwrite` that checkpoint stays until the new one is complete, so the folder needs room for both. ValueError: the metadata
    of the planner has objects that a load refuses, or the save has use_collectives=False.
    """

    def __init__(self, path, *, overwrite=False):
        super().__init__()
        self.path, self._overwrite, self._id = os.fspath(path), overwrite, str(uuid.uuid4())

    # The interface of PyTorch's AsyncStager until 2.7, whose async_save() leaves tensors of the CPU where the program goes on to
    # change them. Newer ones want a close() as well, and copy by themselves.
    _synchronize_after_execute = False

    @property
    def should_synchronize_after_execute(self):
        return False

    def stage(self, state_dict, **_options):
        """A copy in memory of the CPU, for async_save()."""
        from torch.distributed._state_dict_utils import _offload_state_dict_to_cpu
        return _apart(_offload_state_dict_to_cpu(state_dict, type_check=False), _tensors(state_dict))

    def synchronize_staging(self):
        """stage() has done all."""

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.path = os.fspath(checkpoint_id)
        self._id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator, *_args, **kwargs):
        """The coordinator prepares the folder, before the others write."""
        # PyTorch passes its options only to a parameter of this name. Without collectives each rank would list its own items
        # alone, and remove the files of the others.
        if not kwargs.get("use_collectives", True):
            raise ValueError(f"{self.path}: one list of the items of all ranks makes a checkpoint complete, and a save with "
                             "use_collectives=False has none: leave that option out")
        # One writer may do several saves, and reset() comes only with an id of a checkpoint.
        self._id = str(uuid.uuid4())
        if not is_coordinator:
            return
        os.makedirs(self.path, exist_ok=True)
        with _alone(self.path):
            self._remove_all_but(self._complete_files())
        _writer.sync_folder(os.path.dirname(os.path.abspath(self.path)))

    def _complete_files(self):
        """The files of the complete checkpoint in the folder, or an empty set. Refuses one that is not to be replaced."""
        metadata = os.path.join(self.path, _METADATA)
        # An error is not an answer: without the metadata, the files of a complete checkpoint would be removed.
        if not _writer.is_there(metadata):
            return set()
        if not self._overwrite:
            raise FileExistsError(f"{self.path} is a complete checkpoint already")
        try:
            return _files_of(_load_metadata(self.path))
        except OSError:
            raise
        except Exception as problem:
            raise ValueError(f"{metadata} is not of a checkpoint of weft's ({problem}): remove the folder first") from problem

    def _remove_all_but(self, kept):
        """Removes the files of other saves."""
        for name in os.listdir(self.path):
            if _OWN_FILE.fullmatch(name) and name not in kept:
                # A rank of another save may have given a draft its name meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.path, name))

    def prepare_local_plan(self, plan: SavePlan):
        return plan

    def prepare_global_plan(self, plans):
        """Gives each rank its number. A planner may use a rank's plan again in later saves, so it has no name of a file."""
        return [dataclasses.replace(plan, storage_data=number) for number, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner):
        """Writes the items of this rank. When it returns, they are on the medium."""
        # The rank's id of this save tells the file from the one that it replaces.
        name = f"{plan.storage_data}-{self._id[:8]}.weft"
        items = [(item, _item(planner, item)) for item in plan.items]
        at, results, places = 0, [], []
        for item, data in items:
            places.append(at)
            place = Place(name, at, _length(data))
            results.append(WriteResult(index=item.index, size_in_bytes=place.length, storage_data=place))
            at = -(-(at + _length(data)) // _PAGE) * _PAGE
        with _writer.create(os.path.join(self.path, name), at) as file:
            for (_, data), place in zip(items, places):
                if _length(data):
                    file.write_from(_plain(data), place)
        return _done(results)

    def finish(self, metadata: Metadata, results):
        """The coordinator lists all items. With this file the checkpoint is complete, and one before is over."""
        metadata.storage_data = {one.index: one.storage_data for rank in results for one in rank}
        if hasattr(metadata, "storage_meta"):
            metadata.storage_meta = self.storage_meta()
        text = pickle.dumps(metadata)
        try:
            # A planner may have added anything to it.
            _Unpickler(io.BytesIO(text)).load()
        except Exception as problem:
            raise ValueError(f"{self.path}: a load would refuse the metadata of this checkpoint ({problem}): use a planner that "
                             "adds only numbers, strings, lists and dictionaries to it") from problem
        # A save that began later has removed them: it cannot tell them from those of one that was killed.
        files = _files_of(metadata)
        with _alone(self.path):
            for name in sorted(files):
                if not _writer.is_there(os.path.join(self.path, name)):
                    raise FileNotFoundError(f"{self.path}: {name} is gone: another save into this folder has removed it")
            with _writer.create(os.path.join(self.path, _METADATA), len(text)) as file:
                file.write_from(text)
            self._remove_all_but(files)

    def storage_meta(self):
        return StorageMeta(checkpoint_id=self.path, save_id=self._id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return isinstance(checkpoint_id, (str, os.PathLike))


class _Unpickler(pickle.Unpickler):
    """Reads what finish() has written, and calls nothing else."""
    NAMES = {("collections", "OrderedDict"), ("torch", "Size"), ("torch", "device"), ("torch.serialization", "_get_layout"),
             (__name__, "Place"),
             *(("torch.distributed.checkpoint.metadata", name) for name in (
                 "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
                 "TensorStorageMetadata", "_MEM_FORMAT_ENCODING"))}

    def find_class(self, module, name):
        is_kind = module == "torch" and isinstance(getattr(torch, name, None), (torch.dtype, torch.memory_format, torch.layout))
        if (module, name) in self.NAMES or is_kind:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a checkpoint")


def _load_metadata(folder):
    with open(os.path.join(folder, _METADATA), "rb") as file:
        return _Unpickler(file).load()


def _files_of(metadata):
    """The names of the files that a checkpoint is made of."""
    return {place.file for place in metadata.storage_data.values()}


class WeftReader(StorageReader):
    """Reads a checkpoint of WeftWriter's, also into another number of ranks."""

    def __init__(self, path):
        super().__init__()
        self.path, self._metadata = os.fspath(path), None

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.path = os.fspath(checkpoint_id)
        self._metadata = None

    def read_metadata(self):
        try:
            return self._read_metadata()
        except Exception as problem:
            # PyTorch 2.11 drops the exception, and says that the metadata is None.
            _log.error("%s: %s", self.path, problem)
            raise

    def _read_metadata(self):
        try:
            return _load_metadata(self.path)
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path} is not a complete checkpoint: {_METADATA} is missing") from None

    def set_up_storage_reader(self, metadata, is_coordinator, *_args, **_options):
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan):
        """Tells the coordinator which checkpoint this rank has found: each save has other names of files."""
        return dataclasses.replace(plan, storage_data=min(_files_of(self._metadata), default=""))

    def prepare_global_plan(self, plans):
        if len({plan.storage_data for plan in plans}) > 1:
            raise ValueError(f"{self.path}: a save has replaced the checkpoint while the ranks read its metadata: load it again")
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner):
        """Reads the items of this rank, one file after another."""
        by_file = {}
        for item in plan.items:
            place = self._metadata.storage_data[item.storage_index]
            if not re.fullmatch(_RANK_FILE, place.file):
                raise ValueError(f"{self.path}: '{place.file}' is not the name of a rank's file")
            by_file.setdefault(place.file, []).append((place, item))
        for name, items in by_file.items():
            with open_target(os.path.join(self.path, name)) as target:
                for place, item in sorted(items, key=lambda one: one[0].offset):
                    if item.type == LoadItemType.BYTE_IO:
                        data = bytes(target.read(place.offset, place.length))
                        if len(data) != place.length:
                            raise OSError(f"{target.name} ends within an item: it is not the file that was written")
                        planner.load_bytes(item, io.BytesIO(data))
                    else:
                        self._read_tensor(target, place, item, planner)
        return _done(None)

    def _read_tensor(self, target, place, item, planner):
        known = self._metadata.state_dict_metadata[item.storage_index.fqn]
        chunk = next((one for one in known.chunks if one.offsets == (item.storage_index.offset or one.offsets)), None)
        if not chunk:
            raise ValueError(f"{item.storage_index.fqn} has no part at {item.storage_index.offset}")
        to = planner.resolve_tensor(item).detach()
        _refuse_quantized(to, item.storage_index.fqn)
        dtype, sizes = known.properties.dtype, list(chunk.sizes)
        if list(to.size()) != list(item.lengths):
            raise ValueError(f"{item.storage_index.fqn}: {list(item.lengths)} elements are for a tensor of {list(to.size())}")
        # Rows of the first dimension are in one piece.
        is_rows = not sizes or (list(item.storage_offsets[1:]) == [0] * (len(sizes) - 1) and list(item.lengths[1:]) == sizes[1:])
        first, count = 0, place.length
        if is_rows and sizes:
            row = dtype.itemsize
            for size in sizes[1:]:
                row *= size
            first, count = item.storage_offsets[0] * row, item.lengths[0] * row
        if is_rows and to.is_contiguous() and to.dtype == dtype:
            self._read(target, to, place, first, count)
        else:
            data = torch.empty(count // dtype.itemsize, dtype=dtype, device=to.device)
            self._read(target, data, place, first, count)
            data = data.view(list(item.lengths) if is_rows else sizes)
            for dimension in range(len(sizes) if not is_rows else 0):
                data = data.narrow(dimension, item.storage_offsets[dimension], item.lengths[dimension])
            to.copy_(data)
        planner.commit_tensor(item, to)

    @staticmethod
    def _read(target, to, place, first, count):
        if first + count > place.length:
            raise ValueError(f"{target.name} has {place.length} bytes of this tensor, and {first + count} were requested")
        if count and target.read_into(to, place.offset + first, count).bytes != count:
            raise OSError(f"{target.name} ends within a tensor: it is not the file that was written")

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return isinstance(checkpoint_id, (str, os.PathLike)) and os.path.isdir(checkpoint_id)


def checkpoints(folder):
    """The complete checkpoints in a folder, the oldest first, by the time at which they became complete.

    A link to another entry of the folder, such as one called latest, is left out: that checkpoint is in the list by its own name.
    """
    found, here = [], os.path.realpath(folder)
    for entry in os.scandir(folder):
        if entry.is_symlink() and os.path.dirname(os.path.realpath(entry.path)) == here:
            continue
        try:
            found.append((os.stat(os.path.join(entry.path, _METADATA)).st_mtime_ns, entry.path))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return [path for _, path in sorted(found)]


def remove(path):
    """Removes a checkpoint. checkpoints() does not list it from the first moment on. OSError: `path` is a link."""
    # With a slash at the end the kernel follows it.
    if os.path.islink(os.fspath(path).rstrip(os.sep)):
        raise OSError(errno.ELOOP, "This is a link: remove the checkpoint that it leads to by its own name", os.fspath(path))
    metadata = os.path.join(path, _METADATA)
    if os.path.exists(metadata):
        os.unlink(metadata)
        _writer.sync_folder(path)
    shutil.rmtree(path)


__all__ = ["Place", "WeftReader", "WeftWriter", "checkpoints", "remove"]
