"""HDF5 files: datasets whose first axes are equally long are columns ("train.images" for /train/images), several files are shards.

Datasets of numbers that lie in one piece are mapped; chunked and packed ones are read by h5py, in blocks of whole chunks. Files that lie elsewhere are copied to the cache once: h5py reads chunk after chunk, one at a time. Only the listed files are
ever opened: links to other files, external storage and virtual datasets are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.installing import pip_install
from penstock.core.lru import Lru
from penstock.core.verbs.options import Options
from penstock.derived.downloads import copies_of, naming
from penstock.format.hdf5_chunks import BlockedDataset
from penstock.format.hdf5_turned import TurnedColumns, lie_across, turned
from penstock.source.arrays.sliced import (
    ArrayColumn,
    ArrayFacts,
    SlicedArrays,
    block_rows,
    blocks_of,
    bytes_of_row,
    check_alike,
    check_bounded,
    choose_arrays,
)
from penstock.source.arrays.strided import Mapped, PlacedColumn, PlacedColumns, stored_column
from penstock.source.dotted_names import dotted
from penstock.source.manifest import Manifest, TableManifest
from penstock.source.selection import Selection

#: Objects of a file that are looked at, at most.
_OBJECTS = 100_000
#: Bytes of unpacked chunks that h5py keeps for each dataset: a block's edges lie inside chunks.
_CHUNK_CACHE_BYTES = 16 << 20
#: Files that stay open.
_OPEN_FILES = 64

_INSTEAD = (
    "no file but those that were listed is opened: copy the values into this one, or choose others with columns=[…]"
)


def open_hdf5(shards: Shards, read: ByteRanges, options: Options) -> SlicedArrays | PlacedColumns:
    """Opens files; every one must hold the chosen datasets, with the dtypes and row shapes of the first."""
    copies = copies_of(shards, read, options)
    files = Hdf5Files(copies, read)
    try:
        with naming(shards, copies.paths.to_pylist()):
            source = _opened(files, options)
        source = replace(source, manifest=replace(source.manifest, shards=shards))
        if isinstance(source, TurnedColumns):
            return replace(
                source, again=partial(open_hdf5, shards, read, replace(options, progress=None, locate=None, find=None))
            )
        return source
    finally:
        files.close()  # what is mapped needs it no more, and what failed must not keep others from writing


def _opened(files: Hdf5Files, options: Options) -> SlicedArrays | PlacedColumns:
    shards, (arrays, paths) = files.shards, _looked_at(files, 0, options)
    columns = choose_arrays(arrays, options, shards.path(0))
    names = {column.array: paths[column.array] for column in columns.values()}
    facts = [{name: files.facts(shard, path) for name, path in names.items()} for shard in range(len(shards))]
    for shard, found in enumerate(facts):
        _check_shard(shards, shard, found, facts[0], options)
    rows = [next(iter(found.values())).shape[0] for found in facts]
    manifest = Manifest("hdf5", shards, edges_of(rows))
    placed = _placed(files, columns, names, facts[0])
    if placed is not None:
        return PlacedColumns(manifest, placed, Mapped(shards, files.read))
    read_bytes = sum(rows) * bytes_of_row(list(facts[0].values()))
    if read_bytes > manifest.size_bytes and not all(column.field.is_fixed for column in columns.values()):
        # Text of a fixed width is read whole, however well it is packed: items are as small as that asks for.
        manifest = TableManifest("hdf5", shards, edges_of(rows), held_bytes=read_bytes)
    each, rows_per_shard = list(facts[0].values()), sum(rows) // len(rows)
    if is_across := lie_across(each, rows_per_shard):
        made = turned(files, manifest, columns, names, facts, options.limits, blocks_of(each, rows_per_shard))
        if made is not None:
            return made
    size = block_rows(each, rows_per_shard, shards.path(0))
    library_bytes = len(names) * _CHUNK_CACHE_BYTES
    return SlicedArrays(
        manifest, columns, size, partial(_rows_of, files, names), library_bytes=library_bytes, lies_across=is_across
    )


def _rows_of(
    files: Hdf5Files, names: Mapping[str, str], shard: int, name: str, start: int, count: int
) -> npt.NDArray[Any]:
    return files.rows(shard, names[name], start, count)


def _check_shard(
    shards: Shards, shard: int, found: Mapping[str, ArrayFacts], first: Mapping[str, ArrayFacts], options: Options
) -> None:
    for name, one in found.items():
        check_alike(first[name], one, name, (shards.path(0), shards.path(shard)))
        check_bounded(one, name, options, shards.path(shard))
    if len({one.shape[0] for one in found.values()}) > 1:
        raise DataError(f"{shards.path(shard)}: datasets differ in length, unlike in {shards.path(0)}; write it again")


@dataclass(frozen=True, eq=False)
class _Hdf5File:
    """An open file, and its datasets that were read; h5py takes longer to find one than to read a block of it."""

    file: Any
    datasets: dict[str, BlockedDataset] = field(default_factory=dict)


class Hdf5Files:
    """Files that are opened when they are needed; the last few stay open. h5py does one thing at a time, and so does this."""

    def __init__(self, shards: Shards, read: ByteRanges) -> None:
        self.shards, self.read = shards, read
        self._open: Lru[int, _Hdf5File] = Lru(_OPEN_FILES, evicted=lambda opened: opened.file.close())
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens them itself."""
        return Hdf5Files, (self.shards, self.read)

    def file(self, shard: int) -> Any:
        """The open file; DataError for one that h5py cannot open, or that was changed."""
        return self._file(shard).file

    def _file(self, shard: int) -> _Hdf5File:
        found = self._open.get(shard)
        return self._open.put(shard, _Hdf5File(self._opened(shard))) if found is None else found

    def _opened(self, shard: int) -> Any:
        path = self.shards.path(shard)
        self.shards.check_now(shard)
        self.read.check_files(self.shards, np.array([shard]))
        try:
            return _opened_as_before(path)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise DataError(f"{path}: h5py cannot open it ({error}); is it cut, or no HDF5 file?") from None

    def dataset(self, shard: int, path: str) -> Any:
        """A dataset that lies in the file itself; DataError where it is not there, or its values lie elsewhere."""
        where = self.shards.path(shard)
        group = self.file(shard)
        try:
            for name in path.split("/"):
                link = group.get(name, getlink=True)
                if not isinstance(link, _h5py().HardLink):
                    raise DataError(f"{where}: {_told(group, name, link)}")
                group = group[name]
            if reason := _elsewhere(group):
                raise DataError(f"{where}: {reason}")
        except (KeyError, AttributeError, RuntimeError, OSError, TypeError) as error:
            raise DataError(f"{where}: no dataset /{path} can be opened ({error}); write the file again") from None
        return group

    def facts(self, shard: int, path: str) -> ArrayFacts:
        """What a dataset is."""
        with self._lock:
            return _facts(self.dataset(shard, path))

    def blocked(self, shard: int, path: str) -> BlockedDataset:
        """A dataset, for who holds the lock."""
        datasets = self._file(shard).datasets
        if path not in datasets:
            datasets[path] = BlockedDataset(self.dataset(shard, path))
        return datasets[path]

    def rows(self, shard: int, path: str, first: int, count: int) -> npt.NDArray[Any]:
        """Rows of a dataset."""
        self.shards.check_now(shard)
        with self._lock:
            unpack = self.blocked(shard, path).take(first, first + count)
        return unpack()

    def pieces(self, shard: int, path: str) -> Iterator[Any]:
        """The chunks of a dataset; see `BlockedDataset.piece`."""
        self.shards.check_now(shard)
        with self._lock:
            corners = self.blocked(shard, path).corners(0, self.facts(shard, path).shape[0])
        for corner in corners:
            with self._lock:  # not between pieces: who goes on with none may end this in any thread
                piece = self.blocked(shard, path).piece(corner)
            yield piece

    def close(self) -> None:
        """Closes all files; the next need opens them again."""
        with self._lock:
            self._open.clear()


def _opened_as_before(path: str) -> Any:
    """The file, without locks; with them if this process has it open with them: HDF5 wants the same each time."""
    for locking in (False, "best-effort"):
        try:
            return _h5py().File(path, "r", locking=locking, rdcc_nbytes=_CHUNK_CACHE_BYTES)
        except OSError as error:
            if "file locking" not in str(error):
                raise
    return _h5py().File(path, "r", locking=True, rdcc_nbytes=_CHUNK_CACHE_BYTES)


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError:
        raise SourceError(f"HDF5 files are read with h5py, which is not installed: {pip_install('h5py')}") from None
    return h5py


def _elsewhere(dataset: Any) -> str:
    """Why a dataset cannot be read, or its values are not in the file; "" if they are."""
    try:
        _ = dataset.dtype
    except TypeError as error:
        return f"h5py cannot read the type of {dataset.name} ({error}); choose others with columns=[…], or write it with another type"
    if dataset.is_virtual:
        return f"{dataset.name} is virtual: its values lie in other datasets, perhaps of other files; {_INSTEAD}"
    return f"{dataset.name} is stored in other files; {_INSTEAD}" if dataset.external else ""


def _told(group: Any, name: str, link: Any) -> str:
    place = f"{group.name.rstrip('/')}/{name}"
    if link is None:
        return f"no {place}; {_INSTEAD}"
    other = getattr(link, "filename", None)
    outside = f" of the file {other!r}, which was not listed" if other else ""
    return f"{place} leads to {link.path!r}{outside}; {_INSTEAD}"


def _looked_at(files: Hdf5Files, shard: int, options: Options) -> tuple[dict[str, ArrayFacts], dict[str, str]]:
    """The datasets of a file below `keys` by dotted name, and their paths; DataError for links that are among the asked columns, or no columns are asked for."""
    h5py = _h5py()
    keys = options.own.get("keys") or [""]
    below = tuple(key.strip("/") for key in ([keys] if isinstance(keys, str) else keys))
    arrays: dict[str, ArrayFacts] = {}
    paths: dict[str, str] = {}
    refused: dict[str, str] = {}
    where = files.shards.path(shard)
    try:
        walked = (
            (tuple(path.split("/")), reason)
            for path, reason in _walk(files.file(shard), h5py)
            if any(path == key or path.startswith(f"{key}/" if key else "") for key in below)
        )
        for name, (parts, reason) in dotted(walked).items():
            if reason:
                refused[name] = reason
            else:
                paths[name] = "/".join(parts)
                arrays[name] = files.facts(shard, paths[name])
    except (RuntimeError, OSError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where}: damaged ({error}); write it again") from None
    wanted = Selection(options.columns).features(refused)
    for name, reason in refused.items():
        if any(f"{one}.".startswith(f"{name}.") for one in wanted):
            raise DataError(f"{where}: {reason}")
    if not arrays:
        raise SourceError(f"{where}: no datasets" + (f" below {', '.join(below)}" if any(below) else ""))
    return arrays, paths


def _walk(file: Any, h5py: Any) -> Iterator[tuple[str, str]]:
    """Every dataset by its path, with ""; and what leads to elsewhere, with where that is."""
    seen, open_groups, objects = set(), [("", file)], 0
    while open_groups:
        prefix, group = open_groups.pop()
        here = h5py.h5o.get_info(group.id).addr
        if here in seen:
            continue
        seen.add(here)
        for name in group:
            objects += 1
            if objects > _OBJECTS:
                raise DataError(f"{file.filename}: more than {_OBJECTS:,} objects; name a group with keys='…'")
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                yield prefix + name, _told(group, name, link)
            elif isinstance(found := group[name], h5py.Group):
                open_groups.append((f"{prefix}{name}/", found))
            elif isinstance(found, h5py.Dataset):
                yield prefix + name, _elsewhere(found)


def _facts(dataset: Any) -> ArrayFacts:
    h5py = _h5py()
    dtype = dataset.dtype
    if dataset.shape is None:
        return ArrayFacts((), np.dtype("V1"))
    text, ragged = h5py.check_string_dtype(dtype), h5py.check_vlen_dtype(dtype)
    kind = None
    if text is not None and text.length is None:
        kind = "string"
    elif isinstance(ragged, np.dtype) and ragged.kind in "biuf":
        kind = "bytes" if ragged == np.uint8 else ragged.newbyteorder("=").name
    return ArrayFacts(dataset.shape, dtype, dataset.chunks, kind)


def _placed(
    files: Hdf5Files, columns: Mapping[str, ArrayColumn], names: Mapping[str, str], facts: Mapping[str, ArrayFacts]
) -> dict[str, PlacedColumn] | None:
    """Where the columns lie, if all are numbers in one piece in all files."""
    shards = files.shards
    numbers = np.arange(len(shards), dtype=np.int64)
    placed = {}
    for name, column in columns.items():
        one = facts[column.array]
        if column.path or not column.field.is_fixed or one.dtype.kind not in "iufcmM" or one.chunk is not None:
            return None
        starts = [
            _start(files.dataset(shard, names[column.array]), int(shards.sizes[shard])) for shard in range(len(shards))
        ]
        if None in starts:
            return None
        stored = stored_column(one.dtype, one.row_shape)
        start: Ids = np.array(starts, dtype=np.int64)
        placed[name] = PlacedColumn(stored, numbers, start, stored.row_bytes)
    return placed


def _start(dataset: Any, size: int) -> int | None:
    """The byte where a dataset's values begin, if they lie there as they are."""
    start, stored = dataset.id.get_offset(), dataset.id.get_type()
    if not stored.equal(_h5py().h5t.py_create(dataset.dtype, logical=True)):  # integers of 12 bits, say
        return None
    whole = dataset.id.get_storage_size() == dataset.nbytes and dataset.chunks is None and dataset.compression is None
    if start is None or not whole or start + dataset.nbytes > size:
        return None
    return int(start)
