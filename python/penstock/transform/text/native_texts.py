"""Columns of text as native code takes them, and rows of numbers as it gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Spans, is_text
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Edges, bytes, and which rows have none.
NativeTexts = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.bool_] | None]


def arrow_texts(name: str, column: Any) -> pa.Array:
    """A column as large strings in one piece; PlanError for one that is no text."""
    if isinstance(column, Spans):
        column = spans_to_arrow(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if not isinstance(column, pa.Array) or not is_text(column.type):
        kind = getattr(column, "type", None) or getattr(column, "dtype", type(column).__name__)
        raise PlanError(f"transform: column {quoted(name)} is {kind}; give it text")
    return column if pa.types.is_large_string(column.type) else column.cast(pa.large_string())


def native_texts(texts: pa.Array) -> NativeTexts:
    """Large strings as native code takes them; nothing is copied."""
    _, edges, data = texts.buffers()
    places = np.frombuffer(edges or bytes(8), np.int64)[texts.offset : texts.offset + len(texts) + 1]
    missing = np.asarray(pc.is_null(texts).to_numpy(zero_copy_only=False)) if texts.null_count else None
    return places, np.frombuffer(data or b"", np.uint8), missing


def ragged(values: npt.NDArray[Any], edges: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Rows of numbers as an Arrow array, those that are missing null. Of values of shape (any, n), rows of lists of n."""
    flat = pa.array(values.reshape(-1))
    inner = flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    valid = None if missing is None else pa.array(~missing).buffers()[1]
    return pa.Array.from_buffers(
        pa.large_list(inner.type), len(edges) - 1, [valid, pa.py_buffer(edges)], children=[inner]
    )
