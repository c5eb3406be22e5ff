"""Turns what users' functions return, and bytes to be delivered, into columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.batch.returned import (
    REFUSALS,
    advice,
    check_masked,
    is_tensor,
    native,
    nulls_of,
    numbers_of,
    rows_column,
    texts_column,
)
from penstock.core.columns.rows import exact_array, spans_to_arrow
from penstock.core.columns.spec import Column, Columns, Field, Spans, field_of_type, is_bytes, is_list, is_text
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Entries of a list that are rows of a column.
_ROWS = (list, np.ndarray, pa.Array)
#: Dicts inside each other at most.
_DEEPEST = 32


def materialize(columns: Mapping[str, Column]) -> Columns:
    """The columns with spans turned into Arrow arrays, for delivery to users."""
    return {name: spans_to_arrow(column) if isinstance(column, Spans) else column for name, column in columns.items()}


def check_batch(made: Any, rows: int, function: str, given: Mapping[str, Any] | None = None) -> Columns:
    """What a user's batch function returned, as columns; PlanError if it is not a dict or changes the number of rows. given: what it got."""
    if not isinstance(made, Mapping):
        raise PlanError(f"map({function}) returned {type(made).__name__}; it must return a dict of columns")
    if not made:
        raise PlanError(f"map({function}) returned no columns; return a dict of at least one")
    columns = columns_of(made, f"map({function})", given)
    for name, column in columns.items():
        if len(column) != rows:
            raise PlanError(
                f"map({function}): column {quoted(name)} has {len(column)} rows, the batch {rows}; return as many rows as the batch has"
            )
    return columns


def columns_of(made: Mapping[str, Any], where: str, given: Mapping[str, Any] | None = None) -> Columns:
    """Columns out of what a user's function, named by `where`, returned. given: what it got; Arrow arrays of it that come back stay such."""
    kept = {id(column) for column in (given or {}).values() if isinstance(column, pa.Array)}
    return {
        name: value if id(value) in kept else _as_column(name, _typed(value, (given or {}).get(name)), where)
        for name, value in flattened(made, where).items()
    }


def _typed(value: Any, given: Any) -> Any:
    """What a function returned; nothing but None as text or lists, if the column that it got was such."""
    if not isinstance(given, pa.Array) or not (is_text(given.type) or is_bytes(given.type) or is_list(given.type)):
        return value
    is_none = isinstance(value, list) and value and all(one is None for one in value)
    return nulls_of(len(value), given.type) if is_none or isinstance(value, pa.NullArray) else value


def flattened(made: Mapping[Any, Any], where: str, prefix: str = "") -> dict[str, Any]:
    """The values by their names; of inner dicts by dotted ones: flattened({"box": {"w": 1}}, "map(f)") == {"box.w": 1}."""
    if prefix.count(".") > _DEEPEST:
        raise PlanError(f"{where}: more than {_DEEPEST} dicts inside each other; return a flat dict of columns")
    found: dict[str, Any] = {}
    for name, value in made.items():
        if not isinstance(name, str):
            raise PlanError(f"{where}: a column is named {quoted(name)}; name columns by text")
        inner = flattened(value, where, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
        if twice := next((one for one in inner if one in found), None):
            raise PlanError(
                f"{where}: two columns are named {quoted(twice)}, which an inner dict gives as well; rename one"
            )
        found |= inner
    return found


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


def stack_rows(rows: Sequence[Any], function: str, given: Mapping[str, Any] | None = None) -> Columns:
    """The columns of one dict per row; PlanError if names or shapes differ from row to row. given: the columns that the function got."""
    where, found = f"map_rows({function})", list[dict[str, Any]]()
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise PlanError(f"{where} returned {type(row).__name__}; it must return a dict")
        found.append(flattened(row, where))
        if found[-1].keys() != found[0].keys():
            raise PlanError(
                f"{where}: row {number} of the batch has other names than row 0; return the same names for every row"
            )
    if not found[0]:
        raise PlanError(f"{where} returned no columns; return a dict of at least one")
    return {
        name: rows_column([row[name] for row in found], where, name, given=(given or {}).get(name)) for name in found[0]
    }


def _as_column(name: str, value: Any, where: str) -> Column:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        return _of_arrow(value, f"{where}: column {quoted(name)}")
    if isinstance(value, Spans):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(entry, (str, bytes)) for entry in value):
        return texts_column(value, f"{where}: column {quoted(name)}")
    if isinstance(value, (list, tuple)) and any(isinstance(entry, _ROWS) or is_tensor(entry) for entry in value):
        return rows_column(value, where, name)
    is_of_objects = isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1
    if is_of_objects and any(isinstance(entry, (*_ROWS, str, bytes)) or is_tensor(entry) for entry in value):
        return rows_column(value.tolist(), where, name, is_ragged=True)
    check_masked(value, f"{where}: column {quoted(name)}")
    try:
        array = exact_array(value.numpy() if is_tensor(value) else value)
    except REFUSALS as error:  # numbers that no dtype holds, tensors elsewhere or with gradients
        raise PlanError(
            f"{where}: column {quoted(name)} is not an array: {error}; return numbers, text, or one list or array a row"
        ) from None
    if array.ndim == 1 and array.dtype.kind in "US":
        return texts_column(array.tolist(), f"{where}: column {quoted(name)}")
    if array.ndim == 0 or array.dtype.kind not in "biufcV" or array.dtype.fields is not None:
        is_array = array.ndim or isinstance(value, np.ndarray)
        found = f"an array of dtype {array.dtype} and shape {array.shape}" if is_array else type(value).__name__
        raise PlanError(
            f"{where}: column {quoted(name)} is {found}; return numbers, or text, with one entry a row{advice(value)}"
        )
    return native(array)


def _of_arrow(value: pa.Array, what: str) -> Column:
    kind = value.type
    if pa.types.is_null(kind):
        raise PlanError(
            f"{what} holds nothing but nulls, which have no type; return pyarrow.nulls(rows, pyarrow.large_string()), or another type"
        )
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return numbers_of(value, what)
    return value


def field_of(column: Column) -> Field:
    """The field that describes a column made by a user's function; that of Arrow numbers has nulls."""
    if isinstance(column, Spans):
        return Field("bytes")
    if isinstance(column, pa.Array):
        field = field_of_type(column.type)
        return replace(field, nullable=True) if field.is_fixed else field
    return Field(_name_of(column.dtype), column.shape[1:])


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy builds it in Python at every call
