"""Ragged columns: values whose first axis varies in length from row to row, as Arrow arrays.

| shape      | Arrow type                                    | one row as NumPy                                    |
| ---------- | --------------------------------------------- | --------------------------------------------------- |
| (None,)    | large_list of values                          | column[row].values.to_numpy()                       |
| (None, 4)  | large_list of fixed_size_list of four values  | column[row].values.flatten().to_numpy().reshape(-1, 4) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Casting = Literal["same_kind", "safe"]


def check_ragged_shape(shape: tuple[int | None, ...]) -> None:
    """Raise ValueError if an axis other than the first varies: check_ragged_shape((None, 4)) is None."""
    if None in shape[1:] or 0 in shape[1:]:
        raise ValueError(f"the shape {shape}: only the first axis can vary; give the others a length")


def ragged_column(
    arrays: Sequence[npt.NDArray[Any]], dtype: Any, inner: tuple[int, ...] = (), *, casting: Casting = "safe"
) -> pa.LargeListArray:
    """A column with one array per row, of shape (any length, *inner); an empty array may lack the inner axes.

    Raises ValueError for arrays of another shape, TypeError for values that `dtype` cannot hold.
    """
    for array in arrays:
        if array.shape[1:] != inner and array.shape != (0,):
            raise ValueError(f"shape {array.shape} where (any, {', '.join(map(str, inner))}) is needed")
        if array.ndim == 0:
            raise ValueError("a single value where rows of variable length are needed")
    edges = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([len(array) for array in arrays], out=edges[1:])
    full = [array.reshape(-1) for array in arrays if array.size]  # an empty list has no useful dtype
    flat = np.concatenate([np.empty(0, np.bool_), *full], dtype=dtype, casting=casting)
    values = pa.array(flat)
    for axis in reversed(inner):
        values = pa.FixedSizeListArray.from_arrays(values, axis)
    return pa.LargeListArray.from_arrays(pa.array(edges), values)
