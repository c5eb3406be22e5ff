"""Values that may be missing, as expressions compute with them: by Kleene's logic, as Polars and SQL do.

What is computed of a null is null: col("age") > 3, and ~(col("age") > 3) as well. `false & null` is false and `true | null` true, whatever the null stands
for. Verbs that choose rows take those for which an expression is true, so that nulls are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.plain import flags_of
from penstock.core.columns.spec import is_bytes, is_list, is_text

#: Numbers of fewer bytes go to Arrow by way of Arrow.
_SHORTEST = 4


class Nullable(NamedTuple):
    """Numbers or truth values, and which of them are missing; 1 or True stands in their place, by which any number can be divided."""

    values: npt.NDArray[Any]
    null: npt.NDArray[np.bool_]


def taken_apart(value: Any) -> Any:
    """A column of numbers that is an Arrow array as a NumPy array, or `Nullable` where some are missing; all else as it is."""
    if not isinstance(value, pa.Array) or is_text(value.type) or is_bytes(value.type) or is_list(value.type):
        return value
    if not value.null_count:
        return value.to_numpy(zero_copy_only=False)
    null = flags_of(value.is_null())
    if pa.types.is_boolean(value.type):
        return Nullable(flags_of(value.fill_null(pa.scalar(True))), null)
    return Nullable(value.fill_null(pa.scalar(1, value.type)).to_numpy(zero_copy_only=False), null)


class Columns(dict[str, Any]):
    """Columns by name, each taken apart once, however many expressions use it."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(columns)
        self._apart = dict[str, Any]()

    def apart(self, name: str) -> Any:
        """A column as `taken_apart` gives it."""
        if name not in self._apart:
            self._apart[name] = taken_apart(self[name])
        return self._apart[name]

    @property
    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """All arrays of NumPy's that columns lie in."""
        for column in (*self.values(), *self._apart.values()):
            yield from (
                one for one in (column if isinstance(column, Nullable) else (column,)) if isinstance(one, np.ndarray)
            )


def put_together(value: Any) -> Any:
    """The opposite."""
    if not isinstance(value, Nullable):
        return value
    values, null = value
    if (
        values.shape != null.shape
        or values.ndim != 1
        or values.dtype.kind not in "iuf"
        or values.dtype.itemsize < _SHORTEST
    ):
        return pa.array(values, mask=null)
    buffers = [pa.py_buffer(np.packbits(~null, bitorder="little")), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def lifted(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of values that may be missing: what it makes of a missing one is missing."""

    def of_nullable(*values: Any) -> Any:
        nulls = [value.null for value in values if isinstance(value, Nullable)]
        made = compute(*(value.values if isinstance(value, Nullable) else value for value in values))
        made = taken_apart(made)
        if not nulls:
            return made
        null, *others = {
            id(one): one for one in [*nulls, *([made.null] if isinstance(made, Nullable) else [])]
        }.values()
        for other in others:
            null = null | other
        return Nullable(np.asarray(made.values if isinstance(made, Nullable) else made), null)

    return of_nullable


def both(first: Any, second: Any) -> Any:
    """`first & second`: false where one of them is, null where one of them is and the other is not false."""
    (a, a_null), (b, b_null) = _pair(first), _pair(second)
    null = (a_null & b_null) | (a_null & b) | (b_null & a)
    return _made((a | a_null) & (b | b_null), null)


def either(first: Any, second: Any) -> Any:
    """`first | second`: true where one of them is, null where one of them is and the other is not true."""
    (a, a_null), (b, b_null) = _pair(first), _pair(second)
    null = (a_null & b_null) | (a_null & ~b) | (b_null & ~a)
    return _made((a & ~a_null) | (b & ~b_null), null)


def _pair(value: Any) -> tuple[Any, Any]:
    """The truth values, False where they are missing, and which are."""
    if isinstance(value, Nullable):
        return value.values & ~value.null, value.null
    return value, np.zeros(np.shape(value), dtype=np.bool_)


def _made(values: Any, null: Any) -> Any:
    return Nullable(np.asarray(values), np.asarray(null)) if np.any(null) else values


def is_null(value: Any) -> npt.NDArray[np.bool_]:
    """Which values are missing."""
    if isinstance(value, Nullable):
        return value.null
    if isinstance(value, pa.Array):
        return np.asarray(value.is_null().to_numpy(zero_copy_only=False))
    return np.zeros(np.shape(value)[:1], dtype=np.bool_)


def filled(value: Any, fill: Any) -> Any:
    """The values, and `fill` for those that are missing. Whole numbers become float64 where `fill` is no whole number."""
    if isinstance(value, pa.Array):
        if is_list(value.type) or isinstance(fill, str) != is_text(value.type) or not isinstance(fill, (str, bytes)):
            raise TypeError(f"fill_null({fill!r}) is no value of such a column")
        return value.fill_null(pa.scalar(fill, value.type))
    values, null = value if isinstance(value, Nullable) else (np.asarray(value), None)
    is_truth = isinstance(fill, bool)
    if isinstance(fill, (str, bytes)) or is_truth != (values.dtype == np.bool_):
        raise TypeError(f"fill_null({fill!r}) is no value of such a column")
    if values.dtype.kind in "iu":
        if isinstance(fill, float):
            values = values.astype(np.float64)
        elif not np.iinfo(values.dtype).min <= fill <= np.iinfo(values.dtype).max:
            if len(values) and int(values.max()) > np.iinfo(np.int64).max:
                raise TypeError(f"fill_null({fill!r}) is no value of a column with {values.max()}")
            values = values.astype(np.int64)
    elif values.dtype.kind == "f" and abs(fill) > np.finfo(values.dtype).max and not np.isinf(float(fill)):
        values = values.astype(np.float64)
    if null is None:
        return values
    values = values.copy()
    values[null] = fill
    return values


def true_of(value: Any) -> Any:
    """Truth values with False for those that are missing."""
    return value.fill_null(False).to_numpy(zero_copy_only=False) if isinstance(value, pa.Array) else value


def bfloat16_as_float32(column: Any) -> Any:
    """A column of bfloat16, which is held as its bits, as numbers to compute with."""
    if isinstance(column, pa.Array):
        apart = taken_apart(column)
        if isinstance(apart, Nullable):
            return put_together(Nullable(bfloat16_as_float32(apart.values), apart.null))
        column = apart
    return (column.astype(np.uint32) << np.uint32(16)).view(np.float32)
