"""Ragged columns: values whose first axis varies in length from row to row, as Arrow arrays.

| shape      | Arrow type                                    | one row as NumPy                                    |
| ---------- | --------------------------------------------- | --------------------------------------------------- |
| (None,)    | large_list of values                          | column[row].values.to_numpy()                       |
| (None, 4)  | large_list of fixed_size_list of four values  | column[row].values.flatten().to_numpy().reshape(-1, 4) |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns import compute as pc
from penstock.core.columns.plain import numbers_of
from penstock.core.columns.spec import Bytes, Column, Ids, is_list
from penstock.core.errors import PlanError, RowError

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


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of numbers without a copy: row i is values[edges[i] : edges[i + 1]], each an array of shape `inner`."""

    values: npt.NDArray[Any]
    edges: Ids
    inner: tuple[int, ...] = ()

    @property
    def lengths(self) -> Ids:
        """How many values each row has."""
        return np.diff(self.edges)

    def repeated(self, value: Bytes) -> Bytes:
        """The bytes of one number for all numbers of a value."""
        return np.tile(value, math.prod(self.inner))


def ragged_of(name: str, column: Column) -> Ragged:
    """The rows of a column of lists, or of an array with an axis beside the rows'. RowError for a null, PlanError for another column."""
    if isinstance(column, np.ndarray) and column.ndim > 1:
        rows, length = column.shape[:2]
        return Ragged(column, np.arange(rows + 1, dtype=np.int64) * length, column.shape[2:])
    if not isinstance(column, pa.Array) or not is_list(column.type):
        raise PlanError(f"column {name!r} holds no lists of numbers")
    _check_nulls(name, column)
    flat, inner = column.flatten(), []
    while isinstance(flat, pa.FixedSizeListArray):
        inner.append(flat.type.list_size)
        flat = flat.flatten()
    values = numbers_of(flat) if _is_number(flat.type) else flat.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "biufmM":
        raise PlanError(f"column {name!r} holds lists of {flat.type}; only lists of numbers can be made dense")
    return Ragged(values, _edges_of(column), tuple(inner))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _edges_of(column: pa.Array) -> Ids:
    """Where the rows of an Arrow array of lists begin and end, from 0 on."""
    if not len(column) or not isinstance(column, (pa.LargeListArray, pa.ListArray)):
        return edges_of(pc.list_value_length(column).to_numpy(zero_copy_only=False))
    edges: Ids = numbers_of(column.offsets).astype(np.int64, copy=False)
    return edges - edges[0] if edges[0] else edges


def _check_nulls(name: str, column: pa.Array) -> None:
    """RowError for the first row that is null, or holds one."""
    flat = column.flatten()
    while isinstance(flat, pa.FixedSizeListArray) and not flat.null_count:
        flat = flat.flatten()
    if not column.null_count and not flat.null_count:
        return
    row = next(row for row, one in enumerate(column) if not one.is_valid or _holds_null(one.values))
    raise RowError(row, f"column {name!r} holds a null", "fill it where the data is made, or in map")


def _holds_null(values: pa.Array) -> bool:
    inner = isinstance(values, pa.FixedSizeListArray) and not values.null_count
    return _holds_null(values.flatten()) if inner else bool(values.null_count)


def is_numbers(part: pa.Array) -> bool:
    """Whether rows are lists of numbers of whole bytes, and none of either is missing."""
    kind = part.type
    if not pa.types.is_large_list(kind) or not pa.types.is_primitive(kind.value_type) or kind.value_type.bit_width % 8:
        return False
    return bool(part.null_count == 0 and part.values.null_count == 0)


def pick_numbers(parts: Sequence[pa.Array], which: Ids, row: Ids) -> pa.Array:
    """Rows of such arrays by one copy: row i is row `row[i]` of `parts[which[i]]`."""
    first, end = (offsets_of(parts, which, row + behind) for behind in (0, 1))
    kind = parts[0].type
    width = kind.value_type.bit_width // 8
    data = tuple(_values(part.values, width) for part in parts)
    edges = np.zeros(len(row) + 1, dtype=np.int64)
    np.cumsum(end - first, out=edges[1:])
    joined = np.empty(int(edges[-1]) * width, dtype=np.uint8)
    kernels.join_spans(list(data), which, first * width, (end - first) * width, joined)
    child = pa.Array.from_buffers(kind.value_type, int(edges[-1]), [None, pa.py_buffer(joined)])
    return pa.Array.from_buffers(kind, len(row), [None, pa.py_buffer(edges)], children=[child])


def offsets_of(parts: Sequence[pa.Array], which: Ids, row: Ids) -> Ids:
    """Where rows begin in the values of their parts."""
    found = np.empty(len(row), dtype=np.int64)
    kernels.unpack_rows([_edges(part) for part in parts], [8], which, row, [found.view(np.uint8)], 1)
    return found


def _values(values: pa.Array, width: int) -> Bytes:
    return np.frombuffer(values.buffers()[1] or b"", dtype=np.uint8)[values.offset * width :]


def _edges(part: pa.Array) -> Bytes:
    """The bytes of an array's offsets: where each row begins, and where the last one ends."""
    offsets = part.buffers()[1]
    if offsets is None:  # Arrow allows this for an empty array
        return np.zeros(8, dtype=np.uint8)
    return np.frombuffer(offsets, dtype=np.uint8)[8 * part.offset : 8 * (part.offset + len(part) + 1)]
