"""Reading small files whole, and harming them: what the tests of array formats share."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.core.columns.spec import Columns, Field, Spans
from penstock.runtime.slots import Slots
from penstock.source.protocol import Access, BlockSource
from penstock.stages.read.records import read_records

Rows = dict[str, list[Any]]


def allocate(_: str, field: Field, rows: int) -> Any:
    return np.empty((rows, *field.shape), dtype=field.numpy_dtype)


def columns_of(dataset: ps.Dataset) -> Columns:
    """All samples, as the source gives them, without the engine's threads."""
    source, samples = dataset.source, np.arange(len(dataset), dtype=np.int64)
    if isinstance(source, BlockSource):
        return source.load(0, len(samples))
    records = Spans((), *(np.empty(0, dtype=np.int64) for _ in range(3)))
    if source.access is Access.RECORDS:
        records = read_records(source, dataset.read_ranges, samples, Slots())
    return source.parse(samples, records, allocate)


def rows_of(dataset: ps.Dataset) -> Rows:
    """All samples as Python values."""
    return {name: listed(column) for name, column in columns_of(dataset).items()}


def listed(column: Any) -> list[Any]:
    if isinstance(column, Spans):
        return [column[row] for row in range(len(column))]
    return column.to_pylist() if isinstance(column, pa.Array) else column.tolist()


def through(dataset: ps.Dataset, size: int = 7) -> Rows:
    """All samples through a loader, shuffled by blocks, in the order of their ids again."""
    with ps.Loader(dataset.shuffle(seed=1).batch(size)) as loader:
        ids, batches = [], []
        for step, batch in enumerate(loader):
            ids += loader.sample_ids(0, step).tolist()
            batches.append({name: listed(column) for name, column in batch.items()})
    turn = np.argsort(ids)
    joined = {name: [value for batch in batches for value in batch[name]] for name in batches[0]}
    return {name: [values[row] for row in turn] for name, values in joined.items()}


def outcomes(
    path: Path, versions: Iterator[bytes], read: Callable[[], Rows], where: Path | None = None
) -> list[Rows | ps.PenstockError]:
    """What reading gives for each version of a file; any error that is not ours, or does not say where, fails the test."""
    found: list[Rows | ps.PenstockError] = []
    for number, content in enumerate(versions):
        path.write_bytes(content)
        os.utime(path, ns=(number, number))
        try:
            found.append(read())
        except ps.PenstockError as error:
            error.__cause__ = error.__context__ = None
            found.append(error.with_traceback(None))  # whose frames would keep files open
    told = [str(one) for one in found if isinstance(one, ps.PenstockError)]
    assert all(str(where or path.parent) in message for message in told), "an error does not say where"
    return found


def cuts(content: bytes, step: int = 1) -> Iterator[bytes]:
    return (content[:size] for size in range(0, len(content), step))


def flips(content: bytes, count: int) -> Iterator[bytes]:
    """The content with one bit flipped, or a few."""
    rng = random.Random(2)
    for _ in range(count):
        flipped = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        yield bytes(flipped)


def errors(found: list[Rows | ps.PenstockError]) -> int:
    return sum(isinstance(one, ps.PenstockError) for one in found)
