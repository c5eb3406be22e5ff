"""JSON objects to columns: numbers into arrays, text and lists as Arrow arrays, by native code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.core import kernels
from penstock.core.spec import Columns, Spans
from penstock.format.json.features import JsonColumn
from penstock.source.protocol import Allocate
from penstock.source.records.native_columns import bytes_of


def parse_values(
    parser: kernels.JsonParser, columns: Sequence[JsonColumn], records: Spans, allocate: Allocate, threads: int
) -> Columns:
    """The values of each column, one row an object; RowError for the first that is no JSON or lacks what the columns need."""
    arrays: dict[str, Any] = {
        column.name: allocate(column.name, column.field, len(records)) for column in columns if column.form == "fixed"
    }
    outs = [bytes_of(arrays[column.name]) if column.name in arrays else None for column in columns]
    filled = parser.parse(list(records.buffers), records.which, records.offset, records.length, outs, threads)
    return {
        column.name: arrays[column.name] if column.name in arrays else _finish(column, part)
        for column, part in zip(columns, filled, strict=True)
    }


def _finish(column: JsonColumn, part: Any) -> pa.Array:
    """What native code gave for the column, as an Arrow array."""
    if column.form == "ragged":
        data, offsets = part
        values = pa.array(data.view(column.field.numpy_dtype))
        for axis in reversed(column.field.shape[1:]):
            values = pa.FixedSizeListArray.from_arrays(values, axis)
        return pa.LargeListArray.from_arrays(pa.array(offsets), values)
    data, ends, offsets = part
    kind = pa.large_binary() if column.field.dtype == "bytes" else pa.large_string()
    texts = pa.Array.from_buffers(kind, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return pa.LargeListArray.from_arrays(pa.array(offsets), texts) if column.field.shape else texts
