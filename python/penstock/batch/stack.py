"""Turns what users' functions return, and bytes to be delivered, into columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import PlanError
from penstock.core.quoted import quoted
from penstock.core.rows import exact_array, spans_to_arrow
from penstock.core.spec import Column, Columns, Field, Spans, field_of_type


def materialize(columns: Mapping[str, Column]) -> Columns:
    """The columns with spans turned into Arrow arrays, for delivery to users."""
    return {name: spans_to_arrow(column) if isinstance(column, Spans) else column for name, column in columns.items()}


def check_batch(made: Any, rows: int, function: str) -> Columns:
    """What a user's batch function returned, as columns; PlanError if it is not a dict or changes the number of rows."""
    if not isinstance(made, Mapping):
        raise PlanError(f"map({function}) returned {type(made).__name__}; it must return a dict of columns")
    if not made:
        raise PlanError(f"map({function}) returned no columns; return a dict of at least one")
    columns = columns_of(made, f"map({function})")
    for name, column in columns.items():
        if len(column) != rows:
            raise PlanError(
                f"map({function}): column {quoted(name)} has {len(column)} rows, the batch {rows}; return as many rows as the batch has"
            )
    return columns


def columns_of(made: Mapping[str, Any], where: str) -> Columns:
    """Columns out of what a user's function, named by `where`, returned."""
    _check_names(made, where)
    return {name: _as_column(name, column, where) for name, column in made.items()}


def _check_names(made: Mapping[Any, Any], where: str) -> None:
    for name in made:
        if not isinstance(name, str):
            raise PlanError(f"{where}: a column is named {quoted(name)}; name columns by text")


def _check_masked(value: Any, where: str) -> None:
    """PlanError for an array of which some entries are masked: the mask would be lost."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise PlanError(
            f"{where} is a masked array; fill what is masked with .filled(value), and return the mask as a column"
        )


def mask_of(made: Any, rows: int, where: str) -> npt.NDArray[np.bool_]:
    """What a user's predicate, named by `where`, returned: one bool a row."""
    mask: npt.NDArray[np.bool_] = made
    if isinstance(made, (pa.Array, pa.ChunkedArray)):
        mask = made.to_numpy(zero_copy_only=False) if isinstance(made, pa.Array) else made.to_numpy()
    try:
        mask = np.asarray(mask)
    except (ValueError, MemoryError):  # lists of several lengths, or without an end in sight
        mask = np.empty((), dtype=object)
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        found = f"{type(made).__name__} of dtype {mask.dtype} and shape {mask.shape}" if mask.shape else quoted(made)
        raise PlanError(
            f"{where} returned {found} for {rows:,} rows; return a mask: one bool a row, such as batch['length'] > 16"
        )
    return mask


def stack_rows(rows: Sequence[Any], function: str) -> Columns:
    """The columns of one dict per row; PlanError if names or shapes differ from row to row."""
    first = rows[0]
    if not isinstance(first, Mapping):
        raise PlanError(f"map_rows({function}) returned {type(first).__name__}; it must return a dict")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.keys() != first.keys():
            raise PlanError(
                f"map_rows({function}): row {number} of the batch has other names than row 0; return the same names for every row"
            )
    _check_names(first, f"map_rows({function})")
    if not first:
        raise PlanError(f"map_rows({function}) returned no columns; return a dict of at least one")
    return {name: _stack(name, [row[name] for row in rows], function) for name in first}


def _stack(name: str, values: list[Any], function: str) -> Column:
    if any(isinstance(value, pa.Array) for value in values):
        return _ragged(name, values, function)
    if isinstance(values[0], (str, bytes)):
        return _texts(values, f"map_rows({function}): column {quoted(name)}")
    for value in values:
        _check_masked(value, f"map_rows({function}): column {quoted(name)}")
    try:
        arrays = [exact_array(value) for value in values]
    except OverflowError as error:
        raise PlanError(f"map_rows({function}): column {quoted(name)} is {error}") from None
    for number, array in enumerate(arrays):
        if array.dtype.kind not in "biufcV" or array.dtype.fields is not None:
            found = f"{type(values[number]).__name__} of dtype {array.dtype} in row {number}"
            raise PlanError(
                f"map_rows({function}): column {quoted(name)} is {found}; return numbers, arrays of numbers, or text"
            )
        if array.shape != arrays[0].shape:
            raise PlanError(
                f"map_rows({function}): column {quoted(name)} has shape {array.shape} in row {number} and {arrays[0].shape} in "
                f"row 0; pad the rows to one shape, or return pyarrow arrays, which may vary in length, from every row"
            )
    stacked = np.stack(arrays)
    return stacked if stacked.dtype.isnative else stacked.astype(stacked.dtype.newbyteorder("="))


def _ragged(name: str, values: list[Any], function: str) -> Column:
    """A column of rows of variable length, each an Arrow array: a large_list of them."""
    kinds = [value.type if isinstance(value, pa.Array) else type(value).__name__ for value in values]
    if other := next((row for row, kind in enumerate(kinds) if kind != kinds[0]), 0):
        raise PlanError(
            f"map_rows({function}): column {quoted(name)} is {kinds[other]} in row {other} and {kinds[0]} in row 0; return pyarrow arrays of "
            f"one type from every row (lists that the function returns unchanged are such arrays)"
        )
    edges = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in values], out=edges[1:])
    column = pa.LargeListArray.from_arrays(pa.array(edges), pa.concat_arrays(values))
    field_of_type(column.type)
    return column


def _as_column(name: str, value: Any, where: str) -> Column:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        kind = value.type
        plain = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        return value.to_numpy(zero_copy_only=False) if plain and not value.null_count else value
    if isinstance(value, Spans):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(entry, (str, bytes)) for entry in value):
        return _texts(value, f"{where}: column {quoted(name)}")
    _check_masked(value, f"{where}: column {quoted(name)}")
    try:
        array = exact_array(value)
    except (ValueError, OverflowError) as error:  # lists of different lengths, numbers that no dtype holds
        raise PlanError(
            f"{where}: column {quoted(name)} is not an array: {error}; return rows of one shape, or an Arrow array of lists"
        ) from None
    if array.ndim == 1 and array.dtype.kind in "US":
        return pa.array(array.tolist(), pa.large_string() if array.dtype.kind == "U" else pa.large_binary())
    if array.ndim == 0 or array.dtype.kind not in "biufcV" or array.dtype.fields is not None:
        is_array = array.ndim or isinstance(value, np.ndarray)
        found = f"an array of dtype {array.dtype} and shape {array.shape}" if is_array else type(value).__name__
        raise PlanError(f"{where}: column {quoted(name)} is {found}; return numbers, or text, with one entry a row")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _texts(values: Sequence[Any], where: str) -> Column:
    is_text = any(isinstance(value, str) for value in values)
    try:
        return pa.array(values, pa.large_string() if is_text else pa.large_binary())
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise PlanError(f"{where} is not text: {error}; return only text, or only bytes") from None


def field_of(column: Column) -> Field:
    """The field that describes a column made by a user's function."""
    if isinstance(column, Spans):
        return Field("bytes")
    if isinstance(column, pa.Array):
        return field_of_type(column.type)
    return Field(_name_of(column.dtype), column.shape[1:])


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy builds it in Python at every call
