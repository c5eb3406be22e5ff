"""Rows that users' functions return, one by one, as a column.

| rows                                                   | column                                             |
| ------------------------------------------------------ | -------------------------------------------------- |
| numbers                                                | an array (rows,)                                   |
| str, bytes, None beside them                           | Arrow's text or bytes                              |
| lists of numbers, of text, of lists                    | ragged, however long they are; int64 where all are empty |
| arrays and tensors of one shape, tuples                | an array (rows, *shape)                            |
| arrays and tensors that differ in their first axis     | ragged                                             |
| Arrow arrays of one type                               | ragged                                             |
| numbers and None, where the input holds Arrow numbers  | Arrow numbers of the input's type                  |
| nothing but None, where the input holds text or lists  | nulls of the input's type                          |

Lists are ragged even where all are equally long, so that a column's type does not depend on the rows of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.ragged import ragged_column
from penstock.core.columns.rows import exact_array, exact_type
from penstock.core.columns.spec import Column, field_of_type, is_bytes, is_list, is_text
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Numbers that NumPy takes as they are, where all are of one of these types: most rows.
_PLAIN = {bool, float, np.bool_, *np.sctypeDict.values()} - {
    np.str_,
    np.bytes_,
    np.object_,
    np.void,
    np.datetime64,
    np.timedelta64,
}
#: What rows of Arrow numbers, times and decimals are for functions.
_AS_ARROW_GIVES = {NoneType, bool, int, float, Decimal, datetime, date, time, timedelta}
#: What `np.asarray`, `Tensor.numpy` and `pa.array` raise about values that they cannot take.
REFUSALS = (ValueError, TypeError, RuntimeError, OverflowError, MemoryError, pa.ArrowException)


def rows_column(
    values: Sequence[Any], where: str, name: str, *, is_ragged: bool = False, given: Column | None = None
) -> Column:
    """A column of one value a row; PlanError for what is none. is_ragged: whether arrays of one shape are ragged, too. given: the input of that name."""
    what = f"{where}: column {quoted(name)}"
    if isinstance(given, pa.Array) and (kept := _as_given(values, given.type, what)) is not None:
        return kept
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and not is_ragged and kinds <= _PLAIN:
        return np.array(values)
    if isinstance(next((value for value in values if value is not None), None), (str, bytes)):
        return texts_column(values, what)
    if any(isinstance(value, pa.Array) for value in values):
        return _joined_arrow(values, what)
    if any(isinstance(value, list) for value in values):
        return _lists(values, what)
    for value in values:
        check_masked(value, what)
    try:
        arrays = [exact_array(value.numpy() if is_tensor(value) else value) for value in values]
    except REFUSALS as error:
        raise PlanError(
            f"{what} is {error}" if isinstance(error, OverflowError) else f"{what} cannot be an array: {error}"
        ) from None
    for number, array in enumerate(arrays):
        if array.dtype.kind not in "biufcV" or array.dtype.fields is not None:
            found = f"{type(values[number]).__name__} of dtype {array.dtype} in row {number}"
            raise PlanError(f"{what} is {found}; return numbers, arrays or lists of numbers, or text{advice(values)}")
    try:
        if is_ragged or any(array.shape != arrays[0].shape for array in arrays):
            return _ragged(arrays, what)
        return native(np.stack(arrays, dtype=exact_type(arrays), casting="unsafe"))
    except OverflowError as error:
        raise PlanError(f"{what} is {error}") from None


def _as_given(values: Sequence[Any], kind: pa.DataType, what: str) -> pa.Array | None:
    """The values in the type of the input, where that says what they are; None where they say so themselves."""
    if is_text(kind) or is_bytes(kind) or is_list(kind):
        return nulls_of(len(values), kind) if all(value is None for value in values) else None
    if any(type(value) not in _AS_ARROW_GIVES for value in values):
        return None
    if pa.types.is_integer(kind) and any(type(value) not in (int, NoneType) for value in values):
        return None
    try:
        return pa.array(values, kind)
    except REFUSALS as error:
        if not pa.types.is_integer(kind):
            return None
        raise PlanError(
            f"{what} came as Arrow's {kind}, and does not fit it now: {error}; return it by another name, or as NumPy's numbers"
        ) from None


def nulls_of(rows: int, kind: pa.DataType) -> pa.Array:
    """Nulls of a type, as batches hold it."""
    return pa.nulls(rows, _held_type(kind) if is_list(kind) else kind)


#: What to return for a number that is missing.
_INSTEAD_OF_NULLS = (
    "; for a number that is missing return float('nan'), or 0 and beside it a column of bool that says which are there"
)
_OF_TEXT = (
    f"{_INSTEAD_OF_NULLS}; for text, of which the whole batch is missing, pyarrow.nulls(rows, pyarrow.large_string())"
)


def numbers_of(array: pa.Array, what: str) -> npt.NDArray[Any]:
    """Arrow numbers as an array in every batch, whatever is in it; PlanError for nulls, which only some batches have."""
    if array.null_count:
        row = array.is_null().to_pylist().index(True)
        raise PlanError(
            f"{what} has {array.null_count:,} of {len(array):,} numbers null, first in row {row} of the batch; fill them with pyarrow.compute.fill_null"
            f"{_INSTEAD_OF_NULLS}"
        )
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in the byte order of this machine."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy")


def check_masked(value: Any, where: str) -> None:
    """PlanError for an array of which some entries are masked: the mask would be lost."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise PlanError(
            f"{where} is a masked array; fill what is masked with .filled(value), and return the mask as a column"
        )


def advice(values: Any) -> str:
    """What else to do where None or dicts stand among values."""
    some = (
        values[:1000]
        if isinstance(values, (list, tuple))
        else values.reshape(-1)[:1000].tolist()
        if isinstance(values, np.ndarray) and values.dtype == object
        else ()
    )
    if any(value is None for value in some):
        return _OF_TEXT if all(value is None for value in some) else _INSTEAD_OF_NULLS
    return (
        "; instead of a list of dicts, return a dict of lists" if any(isinstance(value, dict) for value in some) else ""
    )


def texts_column(values: Sequence[Any], what: str) -> Column:
    """A column of str or of bytes, and of None; PlanError for what is neither."""
    is_text = any(isinstance(value, str) for value in values)
    try:
        return pa.array(values, pa.large_string() if is_text else pa.large_binary())
    except UnicodeEncodeError as error:
        raise PlanError(
            f"{what} has text that is no Unicode: {error.reason} in {quoted(error.object)}; encode it first, such as with "
            f"text.encode('utf-8', 'replace').decode()"
        ) from None
    except REFUSALS as error:
        raise PlanError(f"{what} is not text: {error}; return only text, or only bytes") from None


def _joined_arrow(values: Sequence[Any], what: str) -> Column:
    """Rows that are Arrow arrays, as a large_list of them; lists beside them take their type."""
    kind = next(value.type for value in values if isinstance(value, pa.Array))
    try:
        arrays = [
            pa.array(value, kind) if isinstance(value, list) else pa.array([], kind) if value is None else value
            for value in values
        ]
    except (pa.ArrowException, OverflowError) as error:
        raise PlanError(
            f"{what} has lists that are no {kind}, as other rows are: {error}; return one type from every row"
        ) from None
    kinds = [value.type if isinstance(value, pa.Array) else type(value).__name__ for value in arrays]
    if other := next((row for row, one in enumerate(kinds) if one != kinds[0]), 0):
        raise PlanError(
            f"{what} is {kinds[other]} in row {other} and {kinds[0]} in row 0; return pyarrow arrays of "
            f"one type from every row (lists that the function returns unchanged are such arrays)"
        )
    edges = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in arrays], out=edges[1:])
    missing = np.array([value is None for value in values])
    mask = pa.array(missing) if missing.any() else None
    column = pa.LargeListArray.from_arrays(pa.array(edges), pa.concat_arrays(arrays), mask=mask)
    field_of_type(column.type)
    return column


def _lists(values: Sequence[Any], what: str) -> Column:
    """Rows that are lists, as a large_list."""
    try:
        made = pa.array([_plain_list(value) for value in values])
        kind = _held_type(made.type)
        return made if made.type == kind else made.cast(kind)
    except RecursionError:
        raise PlanError(
            f"{what} holds lists inside each other without an end; return lists of numbers or of text"
        ) from None
    except OverflowError:
        raise PlanError(
            f"{what} holds lists with whole numbers from 2**63 on, or below -2**63; return an Arrow array for each row: pyarrow.array(row, pyarrow.uint64())"
        ) from None
    except REFUSALS as error:
        raise PlanError(
            f"{what} holds lists that are no column: {' '.join(str(error).split())}; return lists of numbers or of text, all of one kind, or Arrow arrays"
        ) from None


def _plain_list(value: Any) -> Any:
    """A list as Arrow takes it: with tensors as arrays, and arrays of more axes than one as lists of arrays."""
    if is_tensor(value):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        check_masked(value, "an array")
        return value if value.ndim == 1 else [_plain_list(one) for one in value] if value.ndim else value.item()
    return (
        [_plain_list(one) for one in value]
        if isinstance(value, (list, tuple))
        and any(isinstance(one, (list, tuple, np.ndarray)) or is_tensor(one) for one in value)
        else value
    )


def _held_type(kind: pa.DataType) -> pa.DataType:
    """The type in which batches hold lists: with large offsets, and int64 where no list has a value."""
    if is_list(kind):
        return pa.large_list(_held_type(kind.value_type))
    if pa.types.is_null(kind):
        return pa.int64()
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return kind
    raise TypeError(f"values are {kind}")


def _ragged(arrays: Sequence[npt.NDArray[Any]], what: str) -> Column:
    """Arrays that differ in their first axis, as lists."""
    full = [array for array in arrays if array.shape != (0,)] or [*arrays]
    kind = exact_type(full)
    try:
        return ragged_column([one.astype(kind, copy=False) for one in arrays], kind, full[0].shape[1:])
    except (ValueError, TypeError):
        other = next(row for row, array in enumerate(arrays) if array.ndim == 0 or array.shape[1:] != full[0].shape[1:])
        raise PlanError(
            f"{what} has shape {arrays[other].shape} in row {other} and {full[0].shape} in another; pad the rows to one shape, or let them differ in their "
            f"first axis alone"
        ) from None
