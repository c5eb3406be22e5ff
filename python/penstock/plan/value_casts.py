"""Values in another type; what the type does not hold is an error of its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns import compute as pc
from penstock.core.columns.spec import is_bytes, is_list, is_text
from penstock.core.errors import RowError
from penstock.core.messages import quoted
from penstock.plan.nullable import taken_apart
from penstock.plan.value_numbers import first_row

#: What to do about a row of which there is no value.
DO = "leave such rows out with filter, or choose a value for them with penstock.when(…)"


def cast(value: Any, dtype: str) -> Any:
    """The values as "int32", "float32", "bool", "string", …; RowError for one that the type does not hold."""
    if isinstance(value, (str, bytes)):
        kind = pa.large_string() if isinstance(value, str) else pa.large_binary()
        return cast(pa.array([value], kind), dtype)[0]
    if isinstance(value, pa.Array):
        return _of_arrow(value, dtype)
    values = np.asarray(value)
    if dtype in ("string", "bytes"):
        if dtype == "bytes" or values.ndim != 1:
            raise TypeError(f"there are no {dtype} of such values")
        return pa.array(values).cast(pa.large_string())
    return _numbers(values, np.dtype(dtype))


def _numbers(values: npt.NDArray[Any], target: np.dtype[Any]) -> npt.NDArray[Any]:
    if target.kind in "iu" and values.size:
        outside = _outside(values, target)
        if outside is not None and outside.any():
            row = first_row(np.asarray(outside.reshape(len(values), -1).any(axis=1) if outside.ndim else outside))
            found = values[outside].reshape(-1)[0] if outside.ndim else values
            raise RowError(row, f"{found} is no {target.name}", DO)
    return values.astype(target)


def _outside(values: npt.NDArray[Any], target: np.dtype[Any]) -> npt.NDArray[np.bool_] | None:
    """Which values lie outside of a type of whole numbers; None where none can."""
    low, high = np.iinfo(target).min, np.iinfo(target).max
    if values.dtype.kind == "f":
        whole = np.trunc(values.astype(np.float64, copy=False))
        return np.asarray(~((whole >= float(low)) & (whole < float(high + 1))))  # NaN is in no range
    if values.dtype.kind == "b":
        return None
    if low <= np.iinfo(values.dtype).min and np.iinfo(values.dtype).max <= high:
        return None
    return np.asarray((values < low) | (values > high))


def _of_arrow(value: pa.Array, dtype: str) -> Any:
    kind = value.type
    if is_list(kind):
        raise TypeError("lists cannot be cast")
    if pa.types.is_temporal(kind):
        if dtype != "int64":
            raise TypeError("a date can be cast to int64 alone; .dt has its parts")
        return taken_apart(value.cast(pa.int64()))
    if (dtype == "string" and is_text(kind)) or (dtype == "bytes" and is_bytes(kind)):
        return value
    if dtype in ("string", "bytes"):
        target = pa.large_string() if dtype == "string" else pa.large_binary()
        return of_each(value, lambda some: some.cast(target), "UTF-8")
    if is_bytes(kind):
        raise TypeError("bytes can be cast to string alone")
    made = of_each(value, lambda some: some.cast(_parsed(dtype)), dtype)
    found = taken_apart(made)
    return found if dtype != "float16" or not isinstance(found, np.ndarray) else found.astype(np.float16)


def _parsed(dtype: str) -> pa.DataType:
    return pa.from_numpy_dtype(np.dtype("float32" if dtype == "float16" else dtype))


def codes(value: Any, categories: tuple[Any, ...]) -> Any:
    """The number of each value among categories; RowError for one that is none of them."""
    column = value if isinstance(value, pa.Array) else pa.array(value)
    if is_list(column.type) or pa.types.is_temporal(column.type):
        raise TypeError("codes are for numbers, text and bytes")
    wanted = pa.array(categories, column.type)
    if pa.types.is_floating(column.type):  # of which Arrow compares the bits, and -0.0 has others than 0.0
        column, wanted = (pc.add(one, pa.scalar(0.0, column.type)) for one in (column, wanted))
    found = pc.index_in(column, value_set=wanted)
    if found.null_count > column.null_count:
        row = first_row(pc.and_(found.is_null(), column.is_valid()).to_numpy(zero_copy_only=False))
        raise RowError(row, f"{quoted(column[row].as_py())} is none of {len(categories):,} categories", DO)
    return taken_apart(found.cast(pa.int64()))


def of_each(value: pa.Array, make: Callable[[pa.Array], pa.Array], what: str) -> pa.Array:
    """What Arrow makes of values; RowError for the first of which it makes nothing."""
    try:
        return make(value)
    except pa.ArrowInvalid:
        row = _first_bad(value, make)
        raise RowError(row, f"{quoted(value[row].as_py())} is no {what}", DO) from None


def _first_bad(value: pa.Array, make: Callable[[pa.Array], pa.Array]) -> int:
    low, high = 0, len(value)  # the first `low` are good, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            make(value.slice(low, middle - low))
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low
