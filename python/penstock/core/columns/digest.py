"""Digests of columns by their values, in any memory layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Column


def add_column(state: Any, column: Column) -> None:
    """Add a column's values to a hash: numbers as they are; for text, bytes and lists the lengths, then the values."""
    array: Any = column
    if isinstance(array, np.ndarray):
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    elif pa.types.is_fixed_size_list(array.type):
        add_column(state, array.flatten())
    elif hasattr(array, "values") or pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        edges = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + len(array) + 1]
        state.update(np.ascontiguousarray(np.diff(edges)))
        if hasattr(array, "values"):
            add_column(state, array.values.slice(edges[0], edges[-1] - edges[0]))
        else:
            state.update(memoryview(array.buffers()[2] or b"")[edges[0] : edges[-1]])
    else:
        add_column(state, array.to_numpy(zero_copy_only=False))
