"""The bytes of a column's rows, as native code takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Column, Ids, Spans
from penstock.core.errors import RowError

#: Buffers, and of each row which it lies in, where, and how long.
NativeSpans: TypeAlias = tuple[list[npt.NDArray[np.uint8]], Ids, Ids, Ids]


def native_spans(column: Column) -> NativeSpans:
    """The bytes of each row as native code takes them; RowError for a null."""
    spans = column if isinstance(column, Spans) else _spans(column)
    which, offset, length = (
        np.ascontiguousarray(some, dtype=np.int64) for some in (spans.which, spans.offset, spans.length)
    )
    return list(spans.buffers), which, offset, length


def replaced(spans: NativeSpans, rows: Mapping[int, bytes]) -> NativeSpans:
    """The same with other bytes for some rows."""
    if not rows:
        return spans
    buffers, which, offset, length = spans[0], *(some.copy() for some in spans[1:])
    places = list(rows)
    which[places] = len(buffers) + np.arange(len(rows))
    offset[places] = 0
    length[places] = [len(data) for data in rows.values()]
    return [*buffers, *(np.frombuffer(data, np.uint8) for data in rows.values())], which, offset, length


def _spans(column: pa.Array) -> Spans:
    """The values of an Arrow array of bytes as spans over its own buffer."""
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        column = column.cast(pa.large_binary())
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise RowError(row, "a null instead of an image", "fill it, or filter such rows out")
    _, ends, values = column.buffers()
    dtype = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    bounds = np.frombuffer(ends, dtype=dtype)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(values or b"", dtype=np.uint8)
    return Spans((data,), np.zeros(len(column), np.int64), bounds[:-1], np.diff(bounds))
