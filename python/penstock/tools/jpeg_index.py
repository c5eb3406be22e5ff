"""Building a dataset's JPEG index ahead: reading every record once, in order, in parts that survive an interruption."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.core.columns.spec import EntryPoints, Field, Ids, Spans
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.runtime.slots import Slots
from penstock.source.jpeg_index import PART_SAMPLES, entry_points_of, index_path, load, store
from penstock.source.protocol import AnySource, BlockSource, Source
from penstock.stages.read.records import read_records

#: Records that are read together while building.
_ROWS = 256


@dataclass(frozen=True)
class Built:
    """What an index holds: samples, those of them with entry points, its bytes, and the bytes of the records."""

    samples: int
    indexed: int
    size_bytes: int
    record_bytes: int


def build_entry_points(
    source: AnySource,
    read: ByteRanges,
    column: str,
    *,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> Built:
    """Makes the index of a column of images, or finishes one that was interrupted; PlanError if it is no such column."""
    if isinstance(source, BlockSource) or column not in source.spec or source.spec[column].dtype != "bytes":
        raise PlanError(
            f"the JPEG index needs a column of bytes that comes from files; {column!r} is none of {list(source.spec)}"
        )
    digest, samples = source.manifest.digest, source.manifest.samples
    path = index_path(digest, column)
    if path is None:
        raise PlanError("there is no folder to keep the index in; set XDG_CACHE_HOME to one of your own")
    slots = Slots()
    starts = range(0, samples, PART_SAMPLES)
    paths = [index_path(digest, column, part) for part in range(len(starts))]
    for part, first in zip(paths, starts, strict=True):
        last = min(first + PART_SAMPLES, samples)
        if load(part) is None:
            _build_part(
                source, partial(read_records, source, read, slots=slots), column, range(first, last), part, threads
            )
        if progress is not None:
            progress(last, samples)
    parts = [found for found in map(load, paths) if found is not None]
    if len(parts) < len(paths):
        raise PlanError(f"the index could not be written below {os.path.dirname(path)}; is the disk full?")
    length = np.concatenate([part.length for part in parts])
    checksum = np.concatenate([part.checksum for part in parts])
    if not store(path, length, checksum, np.concatenate([part.data for part in parts])):
        raise PlanError(f"the index could not be written to {path}; is the disk full?")
    for part in paths:
        os.unlink(str(part))
    return describe(source, load(path))


def describe(source: Source, index: EntryPoints | None) -> Built:
    """The figures of an index."""
    if index is None:
        return Built(source.manifest.samples, 0, 0, source.manifest.size_bytes)
    indexed = int((index.length > 0).sum())
    size = len(index.data) + 8 * len(index.length)
    return Built(source.manifest.samples, indexed, size, source.manifest.size_bytes)


def _build_part(
    source: Source, records: Callable[[Ids], Spans], column: str, samples: range, path: str | None, threads: int
) -> None:
    made = []
    for first in range(samples.start, samples.stop, _ROWS):
        ids = np.arange(first, min(first + _ROWS, samples.stop), dtype=np.int64)
        columns = source.parse(ids, records(ids), _allocate, threads=threads)
        made.append(entry_points_of(columns[column], threads))
    data, length, checksum = (np.concatenate([piece[part] for piece in made]) for part in range(3))
    store(path, length, checksum, data)


def _allocate(_: str, field: Field, rows: int) -> object:
    return np.empty((rows, *(axis or 0 for axis in field.shape)), dtype=field.numpy_dtype)
