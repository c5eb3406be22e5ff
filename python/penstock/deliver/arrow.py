"""A batch as a record batch of Arrow: numbers without a copy, arrays of one shape as Arrow's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PlanError
from penstock.core.messages import quoted


def record_batch_of(columns: dict[str, Any]) -> pa.RecordBatch:
    """The columns in their order. Memory is shared, but for truth values, which Arrow packs into bits."""
    return pa.RecordBatch.from_arrays([arrow_of(name, column) for name, column in columns.items()], names=[*columns])


def arrow_of(name: str, column: Any) -> pa.Array:
    """One column: of shape (rows,) as a plain array, of more axes as a fixed_shape_tensor."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    if not isinstance(column, np.ndarray):
        raise PlanError(
            f"column {quoted(name)} comes as {type(column).__name__}; frames are made of NumPy's arrays, so leave to= out"
        )
    try:
        if column.ndim == 1:
            return pa.array(column)
        if not column.size:
            return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(column))
        numbers = pa.array(np.ascontiguousarray(column).reshape(-1))
        kind = pa.fixed_shape_tensor(numbers.type, column.shape[1:])  # by hand a fifth of from_numpy_ndarray's 15 µs
        return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(numbers, type=kind.storage_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, KeyError) as error:
        raise PlanError(
            f"column {quoted(name)}, {column.dtype} of shape {column.shape}, is nothing that Arrow has ({error}); cast it in a map"
        ) from None
