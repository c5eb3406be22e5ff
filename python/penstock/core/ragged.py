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

from penstock.core.spec import Bytes, Ids

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
    full = [array.reshape(-1) for array in arrays if array.size]  # an empty list has no useful dtype
    flat = np.concatenate([np.empty(0, np.bool_), *full], dtype=dtype, casting=casting)
    return lists_of(flat, edges_of([len(array) for array in arrays]), inner)


def edges_of(lengths: npt.ArrayLike) -> Ids:
    """Where each row begins and the last ends: edges_of([2, 0, 1]) == [0, 2, 2, 3]."""
    edges = np.zeros(len(np.asarray(lengths)) + 1, dtype=np.int64)
    np.cumsum(lengths, out=edges[1:], dtype=np.int64)
    return edges


def lists_of(values: npt.NDArray[Any], edges: Ids, inner: Sequence[int | None] = ()) -> pa.LargeListArray:
    """Lists of values of the shape `inner`, which begin and end at `edges`."""
    items = pa.array(values)
    for axis in reversed(inner):
        items = pa.FixedSizeListArray.from_arrays(items, axis)
    return pa.LargeListArray.from_arrays(pa.array(edges), items)


def texts_of(data: Bytes, edges: Ids, dtype: str = "bytes") -> pa.Array:
    """Bytes or texts (large_binary, large_string) that begin and end at `edges`, without a copy."""
    kind = pa.large_string() if dtype == "string" else pa.large_binary()
    return pa.Array.from_buffers(kind, len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])
