"""A digest of columns by their values, whatever memory they lie in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.spec import Column


def add_column(state: Any, column: Column) -> None:
    """Adds a column's values to a running hash: numbers as they are, lengths and then values of text, bytes and lists."""
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
