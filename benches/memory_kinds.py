"""Kinds of data for `memory.py`, and their rows as bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: Different rows that `rows_of` draws.
_DRAWN = 1_000


@dataclass(frozen=True)
class Kind:
    """rows: how many; row_bytes: of each, decoded; block_rows: how many are decoded together, None for the format's own choice."""

    rows: int
    row_bytes: int
    block_rows: int | None = None
    is_packed: bool = False


KINDS = {
    "small rows": Kind(300_000, 1_000),
    "6 MB blocks": Kind(10_000, 60_000, 100),
    "64 MB blocks": Kind(20_000, 64_000, 1_000),
    "dictionary": Kind(640_000, 10_000),
    "dictionary with nulls": Kind(640_000, 10_000),
    "run-end": Kind(640_000, 10_000),
    "run-end with nulls": Kind(640_000, 10_000),
    "compressed 100:1": Kind(20_000, 60_000, 100, is_packed=True),
    "compressed bytes": Kind(20_000, 60_000, 100, is_packed=True),
    "chunks of a column": Kind(500_000, 400, 500_000),
}
#: What everything is warm with before the start.
TINY = Kind(256, 1_000, 100)


def in_batches_of(of: Kind, rows: int) -> Kind:
    """As many bytes in blocks of the same size, of a writer that puts so many rows into each, whatever they are."""
    if of.block_rows is None:
        return of
    row_bytes = of.block_rows * of.row_bytes // rows
    return replace(of, rows=math.ceil(of.rows * of.row_bytes / row_bytes), row_bytes=row_bytes, block_rows=rows)


def parts(kind: Kind, rows: int = 1_000) -> Iterator[npt.NDArray[np.uint8]]:
    """The rows as bytes, so many at a time: zeros where they are packed, else random bytes, the same in each part."""
    width = kind.row_bytes // 4 * 4
    part = np.zeros((rows, width), np.uint8)
    if not kind.is_packed:
        part[:] = np.frombuffer(np.random.default_rng(0).bytes(rows * width), np.uint8).reshape(rows, width)
    for first in range(0, kind.rows, rows):
        yield part[: min(rows, kind.rows - first)]


def rows_of(kind: Kind) -> Iterator[bytes]:
    """Each row's bytes: random ones, where they are packed a hundredth of them and then zeros."""
    width = kind.row_bytes // 4 * 4
    drawn = np.zeros((min(_DRAWN, kind.rows), width), np.uint8)
    some = width // 100 if kind.is_packed else width
    drawn[:, :some] = np.frombuffer(np.random.default_rng(0).bytes(len(drawn) * some), np.uint8).reshape(-1, some)
    for number in range(kind.rows):
        yield drawn[number % len(drawn)].tobytes()


def table(kind: str, of: Kind) -> Iterator[pa.RecordBatch]:
    """Record batches of a block each."""
    text, has_nulls = 10_000 * "x", kind.endswith("nulls")
    if kind.startswith("dictionary"):
        mask = np.arange(of.rows) % 100 == 7 if has_nulls else None
        yield pa.record_batch(
            {"x": pa.DictionaryArray.from_arrays(pa.array(np.zeros(of.rows, np.int32), mask=mask), [text])}
        )
        return
    if kind.startswith("run-end"):
        ends, values = (
            ([of.rows // 2, of.rows // 2 + 100, of.rows], [text, None, text]) if has_nulls else ([of.rows], [text])
        )
        runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values))
        yield pa.record_batch(
            {"x": runs, "n": pa.RunEndEncodedArray.from_arrays(pa.array([of.rows], pa.int32()), pa.array([7]))}
        )
        return
    if kind == "compressed bytes":
        rows = rows_of(of)
        while some := [*itertools.islice(rows, of.block_rows)]:
            yield pa.record_batch({"x": pa.array(some, pa.binary())})
        return
    for part in parts(of, of.block_rows or 4_000):
        values = pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1).view(np.float32)), part.shape[1] // 4)
        yield pa.record_batch({"x": values})
