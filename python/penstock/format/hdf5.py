"""HDF5 files: datasets whose first axes are equally long are columns ("train.images" for /train/images), several files are shards.

Datasets of numbers that lie in one piece are mapped; chunked and packed ones are read by h5py, in blocks of whole chunks. Only the listed files are
ever opened: links to other files, external storage and virtual datasets are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import DataError, SourceError
from penstock.format.manifest import Manifest
from penstock.format.protocol import Column, Format, Options, ReadRanges
from penstock.format.regular import Mapped, PlacedColumn, PlacedColumns, is_local, stored_column
from penstock.format.sliced import (
    ArrayColumn,
    ArrayFacts,
    SlicedArrays,
    block_rows,
    check_alike,
    check_bounded,
    choose_arrays,
)
from penstock.shards import Shards
from penstock.spec import Ids

_MAGIC = b"\x89HDF\r\n\x1a\n"
#: Objects of a file that are looked at, at most.
_OBJECTS = 100_000
#: Bytes of unpacked chunks that h5py keeps for each dataset: a block's edges lie inside chunks.
_CHUNK_CACHE_BYTES = 16 << 20


@dataclass(frozen=True)
class _File:
    """What a file holds: datasets by dotted name, and what is not read, with the reason."""

    arrays: Mapping[str, ArrayFacts]
    paths: Mapping[str, str]
    refused: Mapping[str, str]


def open_hdf5(shards: Shards, _: ReadRanges, options: Options) -> SlicedArrays | PlacedColumns:
    """Opens files; every one must hold the chosen datasets, with the dtypes and row shapes of the first."""
    if not is_local(shards):
        raise SourceError(f"{shards.path(0)}: HDF5 is read from local or mounted paths; copy or mount it")
    files = Files(shards)
    first = _looked_at(files, 0, options)
    columns = choose_arrays(first.arrays, options, shards.path(0))
    names = {column.array: first.paths[column.array] for column in columns.values()}
    facts = [{name: _facts(files.dataset(shard, path)) for name, path in names.items()} for shard in range(len(shards))]
    for shard, found in enumerate(facts):
        for name, one in found.items():
            check_alike(facts[0][name], one, name, (shards.path(0), shards.path(shard)))
            check_bounded(one, name, options, shards.path(shard))
        if len({one.shape[0] for one in found.values()}) > 1:
            raise DataError(
                f"{shards.path(shard)}: datasets differ in length, unlike in {shards.path(0)}; write it again"
            )
    rows = [next(iter(found.values())).shape[0] for found in facts]
    manifest = Manifest("hdf5", shards, np.cumsum([0, *rows], dtype=np.int64))
    placed = _placed(files, columns, names, facts[0])
    if placed is not None:
        return PlacedColumns(manifest, placed, Mapped(shards.paths.to_pylist(), shards.sizes))

    def read(shard: int, name: str, start: int, count: int) -> npt.NDArray[Any]:
        return files.rows(shard, names[name], start, count)

    return SlicedArrays(manifest, columns, block_rows(list(facts[0].values()), sum(rows) // len(rows)), read)


class Files:
    """Open files: each is opened when it is first needed, once."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self._open: dict[int, Any] = {}
        self._lock = threading.Lock()

    def file(self, shard: int) -> Any:
        """The open file; DataError for one that h5py cannot open."""
        path = self.shards.path(shard)
        with self._lock:
            if shard not in self._open:
                try:
                    self._open[shard] = _h5py().File(path, "r", locking=False, rdcc_nbytes=_CHUNK_CACHE_BYTES)
                except (OSError, RuntimeError, ValueError, KeyError) as error:
                    raise DataError(f"{path}: h5py cannot open it ({error}); is it cut, or no HDF5 file?") from None
            return self._open[shard]

    def dataset(self, shard: int, path: str) -> Any:
        """A dataset that lies in the file itself; DataError where it is not there, or its values lie elsewhere."""
        where, group = self.shards.path(shard), self.file(shard)
        *folders, name = path.split("/")
        try:
            for folder in folders:
                group = _hard(group, folder, where)
            dataset = _hard(group, name, where)
            outside = "virtual" if dataset.is_virtual else "stored outside the file" if dataset.external else ""
        except (KeyError, AttributeError, RuntimeError, OSError, ValueError) as error:
            raise DataError(f"{where}: no dataset /{path} can be opened ({error}); write the file again") from None
        if outside:
            raise DataError(
                f"{where}: /{path} is {outside}, and no file but those that were listed is opened; copy its values into it"
            )
        return dataset

    def rows(self, shard: int, path: str, first: int, count: int) -> npt.NDArray[Any]:
        """Rows of a dataset."""
        values: npt.NDArray[Any] = self.dataset(shard, path)[first : first + count]
        return values


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError:
        raise SourceError(
            "HDF5 files are read with h5py, which is not installed: pip install 'penstock[hdf5]'"
        ) from None
    return h5py


def _hard(group: Any, name: str, where: str) -> Any:
    """A member of a group that is no link to elsewhere."""
    link = group.get(name, getlink=True)
    if not isinstance(link, _h5py().HardLink):
        raise DataError(
            f"{where}: {_told(group, name, link)}; copy what it leads to into the file, or choose others with columns=[…]"
        )
    return group[name]


def _told(group: Any, name: str, link: Any) -> str:
    place = f"{group.name.rstrip('/')}/{name}"
    if link is None:
        return f"no {place}"
    other = getattr(link, "filename", None)
    return f"{place} leads to {link.path!r}" + (f" of the file {other!r}, which was not listed" if other else "")


def _looked_at(files: Files, shard: int, options: Options) -> _File:
    """The datasets of a file below `keys`; DataError for links that are among the asked columns, or no columns are asked for."""
    h5py = _h5py()
    keys = options.own.get("keys") or [""]
    below = tuple(key.strip("/") for key in ([keys] if isinstance(keys, str) else keys))
    arrays, paths, refused = {}, {}, {}
    try:
        for path, found in _walk(files.file(shard), h5py):
            if not any(path == key or path.startswith(f"{key}/" if key else "") for key in below):
                continue
            name = path.replace("/", ".")
            if isinstance(found, str):
                refused[name] = found
            else:
                arrays[name], paths[name] = _facts(files.dataset(shard, path)), path
    except (RuntimeError, OSError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{files.file(shard).filename}: damaged ({error}); write it again") from None
    asked = options.columns.values() if isinstance(options.columns, Mapping) else options.columns
    wanted = None if asked is None else {one.feature if isinstance(one, Column) else one for one in asked}
    for name, reason in refused.items():
        if wanted is None or any(f"{one}.".startswith(f"{name}.") for one in wanted):
            raise DataError(
                f"{files.file(shard).filename}: {reason}; copy what it leads to into the file, or choose others with columns=[…]"
            )
    if not arrays:
        raise SourceError(
            f"{files.file(shard).filename}: no datasets" + (f" below {', '.join(below)}" if any(below) else "")
        )
    return _File(arrays, paths, refused)


def _walk(file: Any, h5py: Any) -> Iterator[tuple[str, Any]]:
    """Every dataset by its path, and for every link to elsewhere what it leads to."""
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
                yield prefix + name, found


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
    files: Files, columns: Mapping[str, ArrayColumn], names: Mapping[str, str], facts: Mapping[str, ArrayFacts]
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
    start = dataset.id.get_offset()
    whole = dataset.id.get_storage_size() == dataset.nbytes and dataset.chunks is None and dataset.compression is None
    if start is None or not whole or start + dataset.nbytes > size:
        return None
    return int(start)


FORMAT = Format(
    name="hdf5",
    suffixes=(".h5", ".hdf5", ".he5", ".hdf"),
    matches=lambda head: head.startswith(_MAGIC),
    options={"keys": "groups or datasets to read, as paths: keys='train' or keys=['x', 'y']; all unless given"},
    open=open_hdf5,
)
