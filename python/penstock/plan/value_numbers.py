"""Functions of numbers, as expressions compute them: whole numbers as int64, others as float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.plan.nullable import lifted

#: Floats from here on are whole; rounded to digits, they could overflow.
_WHOLE = 2.0**52


def number(value: Any) -> Any:
    """As arithmetic takes it: so wide that it does not overflow soon."""
    if isinstance(value, (str, bytes, pa.Array)):
        if isinstance(value, pa.Array) and pa.types.is_temporal(value.type):
            raise TypeError("arithmetic is for numbers; cast('int64') makes one of a date")
        raise TypeError("arithmetic is for numbers; len() makes a number of text, bytes and lists")
    array = np.asarray(value)
    if array.dtype.kind in "bi" or (array.dtype.kind == "u" and array.dtype.itemsize < 8):
        return array.astype(np.int64, copy=False)
    return array.astype(np.float64, copy=False) if array.dtype.kind == "f" else array


def check_shapes(first: Any, second: Any) -> None:
    """TypeError for rows of several values beside rows of one: NumPy would pair what does not belong together."""
    if first.ndim and second.ndim and first.ndim != second.ndim:
        raise TypeError("rows of several values beside rows of one")


def first_row(mask: npt.NDArray[np.bool_]) -> int:
    """The first row in which something is true."""
    return int(np.flatnonzero(np.atleast_1d(mask))[0])


def whole_or_not(*values: Any) -> list[Any]:
    """Numbers in one type that holds them; TypeError for whole numbers that have none in common."""
    found = [number(value) for value in values]
    kinds = {one.dtype for one in found}
    if np.dtype(np.uint64) in kinds and np.dtype(np.int64) in kinds:
        found = [_unsigned(one) for one in found]
    for one in found[1:]:
        check_shapes(found[0], one)
    kind = np.result_type(*{one.dtype for one in found})
    return [one.astype(kind, copy=False) for one in found]


def _unsigned(value: Any) -> Any:
    """One whole number beside uint64."""
    if value.dtype != np.int64:
        return value
    if value.ndim or value < 0:
        raise TypeError("uint64 beside int64, which have no type in common; cast one of them")
    return value.astype(np.uint64)


def _of_floats(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def compute(value: Any) -> Any:
        return function(number(value).astype(np.float64, copy=False))

    return lifted(compute)


def _of_numbers(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Whole numbers stay whole."""

    def compute(value: Any) -> Any:
        return function(number(value))

    return lifted(compute)


def _log(value: Any, base: Any = None) -> Any:
    value = number(value).astype(np.float64, copy=False)
    if base is None:
        return np.log(value)
    exact = {2.0: np.log2, 10.0: np.log10}.get(base)
    return np.log(value) / np.log(base) if exact is None else exact(value)


def _rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(value: Any, *decimals: int) -> Any:
        value = number(value)
        if value.dtype.kind != "f":
            return value
        made = function(value, *decimals)
        return np.where(np.abs(value) < _WHOLE, made, value) if decimals else made

    return lifted(compute)


def _clip(value: Any, low: Any, high: Any) -> Any:
    value, *bounds = whole_or_not(value, *(one for one in (low, high) if one is not None))
    if low is not None:
        value = np.maximum(value, bounds[0])
    return value if high is None else np.minimum(value, bounds[-1])


def _fill_nan(value: Any, fill: Any) -> Any:
    value, fill = whole_or_not(number(value).astype(np.float64, copy=False), fill)
    return np.where(np.isnan(value), fill, value)


#: What each does, by its name.
NUMBER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _of_numbers(np.abs),
    "sqrt": _of_floats(np.sqrt),
    "exp": _of_floats(np.exp),
    "log": lifted(_log),
    "log1p": _of_floats(np.log1p),
    "floor": _rounded(np.floor),
    "ceil": _rounded(np.ceil),
    "round": _rounded(np.round),
    "clip": lifted(_clip),
    "fill_nan": lifted(_fill_nan),
    "is_finite": _of_floats(np.isfinite),
}
