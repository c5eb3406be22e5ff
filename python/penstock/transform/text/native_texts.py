"""A chain's columns of text as native code takes them, and rows of numbers as it gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.plain import as_numbers
from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Spans, is_text
from penstock.core.columns.text_parts import TextParts, text_parts
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted


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


def texts_of(name: str, column: Any) -> TextParts:
    """A column as native code takes it; PlanError for one that is no text."""
    return text_parts(arrow_texts(name, column))


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Names the column in an error about a row."""
    try:
        yield
    except RowError as error:
        raise RowError(error.row, f"column {quoted(name)}: {error.found}", error.do) from None


def ragged(values: npt.NDArray[Any], edges: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Rows of numbers as an Arrow array, those that are missing null. Of values of shape (any, n), rows of lists of n."""
    flat = as_numbers(values.reshape(-1))
    inner = flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(
        pa.large_list(inner.type), len(edges) - 1, [valid, pa.py_buffer(edges)], children=[inner]
    )
