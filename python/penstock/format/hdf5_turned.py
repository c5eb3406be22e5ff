"""HDF5 datasets whose chunks lie across rows, a column each say: rows are written one after another once, into the cache, and mapped there.

A row of such a dataset is in as many chunks as cross it, and deflate can only be unpacked from the beginning: a block of whole chunks is the whole dataset where each has all rows,
and smaller blocks would unpack every chunk again and again. So chunks are unpacked once, one after another.
"""

from __future__ import annotations

import math
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PenstockError, SourceError, StorageError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.cache_dirs import cache_folder, room_bytes
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.core.warnings import warn
from penstock.derived.files import derived_file
from penstock.format.hdf5_chunks import BlockedDataset
from penstock.source.arrays.sliced import ArrayColumn, ArrayFacts, SlicedArrays, bytes_of_row, unreadable
from penstock.source.arrays.strided import Mapped, PlacedColumn, PlacedColumns, stored_column
from penstock.source.manifest import Manifest

#: Blocks of whole chunks that take more are worth a copy, if their chunks lie across rows.
_LARGE_BYTES = 64 << 20
#: Bytes of chunks that are unpacked at once; each is there packed, unpacked and in order.
_WORKING_BYTES, _COPIES = 32 << 20, 3
_WHAT = "rows of chunks that lie across them"


class Datasets(Protocol):
    """What reads the datasets of files."""

    @property
    def shards(self) -> Shards:
        """The files."""

    def blocked(self, shard: int, path: str) -> BlockedDataset:
        """A dataset."""

    def pieces(self, shard: int, path: str) -> Iterator[Any]:
        """Its chunks; see `BlockedDataset.piece`."""


@dataclass(frozen=True, eq=False)
class TurnedColumns(PlacedColumns):
    """Columns in a file that was made. block_rows: as chunks have them, which says which rows a shuffle keeps together; lies_across: as of `SlicedArrays`. Both so that orders are the same with and without the file.

    again: opens the files once more, where this is sent to: another machine has a cache of its own, or no room in it.
    """

    block_rows: int = 1
    again: Callable[[], PlacedColumns | SlicedArrays] | None = field(default=None, repr=False)
    lies_across: ClassVar[bool] = True

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _opened_again, (self.again, tuple(self.columns))


def _opened_again(again: Callable[[], PlacedColumns | SlicedArrays], names: Sequence[str]) -> Any:
    return again().only(names)


def lie_across(arrays: Sequence[ArrayFacts], rows_per_shard: int) -> bool:
    """Whether rows lie in so many chunks each that blocks of whole ones are large."""
    across = any(
        one.chunk is not None and any(size > part for size, part in zip(one.row_shape, one.chunk[1:], strict=True))
        for one in arrays
    )
    chunk = max((one.chunk[0] for one in arrays if one.chunk), default=1)
    return across and min(chunk, rows_per_shard) * bytes_of_row(arrays) > _LARGE_BYTES


def turned(
    files: Datasets,
    manifest: Manifest,
    columns: Mapping[str, ArrayColumn],
    names: Mapping[str, str],
    facts: Sequence[Mapping[str, ArrayFacts]],
    limits: Limits,
    block_rows: int,
) -> TurnedColumns | None:
    """The columns row by row; None where some are no plain numbers, or where there is no room for them. names: the path of each array; facts: of each shard's arrays."""
    if not all(_is_plain(column, facts[0][column.array]) for column in columns.values()):
        return None
    places = [_places(one) for one in facts]
    sizes = [sum(math.prod(found.shape) * found.dtype.itemsize for found in one.values()) for one in facts]
    if not _may_be(files.shards, sizes, limits):
        return None
    try:
        paths = [
            derived_file(
                files.shards,
                shard,
                _kind(names),
                size,
                partial(_write, files, shard, names, facts[shard], places[shard]),
            )
            for shard, size in enumerate(sizes)
        ]
    except (SourceError, StorageError) as error:
        warn(f"{error}; so blocks of whole chunks are read, which takes memory")
        return None
    stamps = None if files.shards.stamps is None else np.full_like(files.shards.stamps, -1)
    made = Shards(
        pa.array(paths, pa.large_string()),
        np.array(sizes, dtype=np.int64),
        files.shards.versions,
        stamps=stamps,
        made_of=files.shards.as_made_of,
    )
    numbers = np.arange(len(sizes), dtype=np.int64)
    placed = {}
    for name, column in columns.items():
        one = facts[0][column.array]
        stored = stored_column(one.dtype, one.row_shape)
        start: Ids = np.array([place[column.array] for place in places], dtype=np.int64)
        placed[name] = PlacedColumn(stored, numbers, start, stored.row_bytes)
    return TurnedColumns(manifest, placed, Mapped(made, ByteRanges()), block_rows=block_rows)


def _is_plain(column: ArrayColumn, facts: ArrayFacts) -> bool:
    return not column.path and column.field.is_fixed and facts.dtype.kind in "biufcmM" and not facts.dtype.hasobject


def _may_be(shards: Shards, sizes: Sequence[int], limits: Limits) -> bool:
    """Whether files of these sizes may be made: not of a small one that stands for a large one, and not more than the cache may hold."""
    stored = shards.sizes.tolist()
    is_bounded = all(
        size <= limits.unpacked_bytes and size <= max(1 << 20, limits.ratio * one)
        for size, one in zip(sizes, stored, strict=True)
    )
    folder = cache_folder("unpacked") if is_bounded else None
    return folder is not None and sum(sizes) <= room_bytes(folder)


def _kind(names: Mapping[str, str]) -> str:
    return f"{_WHAT}: {' '.join(sorted(names.values()))}"


def _places(facts: Mapping[str, ArrayFacts]) -> dict[str, int]:
    """The byte where each array begins."""
    begins, at = {}, 0
    for name, one in sorted(facts.items()):
        begins[name], at = at, at + math.prod(one.shape) * one.dtype.itemsize
    return begins


def _write(
    files: Datasets,
    shard: int,
    names: Mapping[str, str],
    facts: Mapping[str, ArrayFacts],
    places: Mapping[str, int],
    out: BinaryIO,
) -> None:
    """Writes the arrays of a shard one after another, each row by row."""
    size = max(at + math.prod(facts[name].shape) * facts[name].dtype.itemsize for name, at in places.items())
    os.posix_fallocate(out.fileno(), 0, size)  # a full disk is said now, and not when a page is written
    with mmap.mmap(out.fileno(), size) as memory:
        for name, at in places.items():
            one = facts[name]
            rows: npt.NDArray[Any] = np.ndarray(one.shape, one.dtype, memory, at)
            try:
                _fill(rows, files.pieces(shard, names[name]), files.blocked(shard, names[name]).chunk_bytes)
            except PenstockError:
                raise
            except Exception as error:  # libraries fail in many ways on damaged data
                raise unreadable(f"{files.shards.path(shard)}, {name}", error) from error
            finally:
                del rows  # or the memory could not be closed


def _fill(rows: npt.NDArray[Any], pieces: Iterator[Any], chunk_bytes: int) -> None:
    """Unpacks chunks, as many at once as little memory has room for, and writes their values where they belong."""
    threads = max(1, min(usable_cpus(), _WORKING_BYTES // (_COPIES * chunk_bytes)))
    with ThreadPoolExecutor(threads) as pool:
        coming: deque[Future[Any]] = deque()
        for unpack in pieces:
            if len(coming) > threads:
                _put(rows, coming.popleft())
            coming.append(pool.submit(unpack))
        while coming:
            _put(rows, coming.popleft())


def _put(rows: npt.NDArray[Any], made: Future[Any]) -> None:
    places, values = made.result()
    rows[places] = values
