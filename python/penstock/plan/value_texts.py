"""Functions of text and of dates, by Arrow's kernels."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns import compute as pc
from penstock.core.columns.spec import is_text
from penstock.core.errors import RowError
from penstock.core.messages import quoted
from penstock.plan.nullable import Nullable, taken_apart
from penstock.plan.value_casts import DO, of_each
from penstock.plan.value_numbers import first_row

#: The first and the last second of the years 1 to 9999, from 1970 on.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400


def _of_text(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """A function of text, whose numbers are int64; one of Arrow's by its name."""

    def compute(value: Any, *given: Any) -> Any:
        if not isinstance(value, pa.Array) or not is_text(value.type):
            raise TypeError(".str is for text; cast('string') makes some of numbers")
        compute_of = getattr(pc, function) if isinstance(function, str) else function
        made = compute_of(value, *given)
        if pa.types.is_boolean(made.type) or pa.types.is_temporal(made.type):
            return taken_apart(made) if pa.types.is_boolean(made.type) else made
        return made if is_text(made.type) else taken_apart(made.cast(pa.int64()))

    return compute


def characters(value: pa.Array) -> pa.Array:
    """How many characters each text has: of ASCII, its bytes."""
    return (pc.binary_length if _is_ascii(value) else pc.utf8_length)(value)


def _is_ascii(value: pa.Array) -> bool:
    if not pa.types.is_large_string(value.type) or not len(value):
        return False
    _, offsets, data = value.buffers()
    edges = np.frombuffer(offsets, dtype=np.int64)
    first, end = int(edges[value.offset]), int(edges[value.offset + len(value)])
    if data is None or first == end:
        return True
    return int(np.frombuffer(data, dtype=np.uint8)[first:end].max()) < 1 << 7


def _strip(value: pa.Array, characters: str | None = None) -> pa.Array:
    return pc.utf8_trim_whitespace(value) if characters is None else pc.utf8_trim(value, characters)


def _contains(value: pa.Array, pattern: str, literal: bool) -> pa.Array:
    function = pc.match_substring if literal else pc.match_substring_regex
    return function(_or_one(value), pattern).slice(0, len(value))


def _or_one(value: pa.Array) -> pa.Array:
    """The texts, one at least: of none, Arrow looks at no pattern."""
    return value if len(value) else pa.array([""], value.type)


def _slice(value: pa.Array, offset: int, length: int | None = None) -> pa.Array:
    if length is None:
        return pc.utf8_slice_codeunits(value, offset)
    if length == 0:
        return pc.utf8_slice_codeunits(value, 0, 0)
    stop = offset + length
    return pc.utf8_slice_codeunits(value, offset, None if offset < 0 <= stop else stop)


def _replace(value: pa.Array, pattern: str, by: str, literal: bool) -> pa.Array:
    function = pc.replace_substring if literal else pc.replace_substring_regex
    return function(_or_one(value), pattern, by).slice(0, len(value))


def _to_datetime(value: pa.Array, format: str) -> pa.Array:
    made = of_each(value, lambda some: pc.strptime(some, format, "us"), f"date such as {format}")
    seconds = made.cast(pa.timestamp("s", made.type.tz), safe=False)
    # Arrow takes 30 February for 1 March, and 61 seconds for a minute and one. What is written the same again is right.
    carried = pc.less_equal(pc.day(made), 3)
    if any(one in format for one in ("%S", "%T", "%X", "%c", "%s")):
        carried = pc.or_(carried, pc.less_equal(pc.second(made), 1))
    other = pc.not_equal(pc.strftime(seconds, format).cast(value.type), value)
    for row in np.flatnonzero(pc.and_(carried, other).fill_null(False).to_numpy(zero_copy_only=False)).tolist():
        if not _is_date(value[row].as_py(), format):
            raise RowError(row, f"{quoted(value[row].as_py())} is no date such as {format}", DO)
    none = pc.less(pc.year(made), 1).fill_null(False).to_numpy(zero_copy_only=False)
    if none.any():
        raise RowError(
            first_row(none), f"{quoted(value[first_row(none)].as_py())} lies outside of the years 1 to 9999", DO
        )
    return made


def _is_date(text: str, format: str) -> bool:
    """Whether Python reads a date in it, where it knows the format."""
    try:
        datetime.strptime(text.strip(), format)  # noqa: DTZ007  # only whether there is such a day
    except ValueError as error:
        return "directive" in str(error)
    return True


#: What each does, by its name.
TEXT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "str.lower": _of_text("utf8_lower"),
    "str.upper": _of_text("utf8_upper"),
    "str.len": _of_text(characters),
    "str.len_bytes": _of_text("binary_length"),
    "str.strip": _of_text(_strip),
    "str.contains": _of_text(_contains),
    "str.starts_with": _of_text("starts_with"),
    "str.ends_with": _of_text("ends_with"),
    "str.slice": _of_text(_slice),
    "str.replace": _of_text(_replace),
    "str.to_datetime": _of_text(_to_datetime),
}


def _from_epoch(value: Any, unit: str) -> pa.Array:
    values, null = (value.values, value.null) if isinstance(value, Nullable) else (value, None)
    if isinstance(values, (str, bytes, pa.Array)) or np.asarray(values).dtype.kind not in "iu" or np.ndim(values) != 1:
        raise TypeError("from_epoch is for whole numbers; str.to_datetime reads dates in text")
    per_second = _PER_SECOND.get(unit, 1)
    low, high = (_FIRST // _DAY, _LAST // _DAY) if unit == "D" else (_FIRST * per_second, (_LAST + 1) * per_second - 1)
    limits = np.iinfo(values.dtype)
    wrong = (values < max(low, int(limits.min))) | (values > min(high, int(limits.max)))
    wrong = wrong if null is None else wrong & ~null
    if wrong.any():
        row = first_row(wrong)
        raise RowError(
            row,
            f"{values[row]} {unit} since 1970 lies outside of the years 1 to 9999",
            "look at the unit, or leave such rows out with filter",
        )
    seconds = values.astype(np.int64) * _DAY if unit == "D" else values.astype(np.int64, copy=False)
    return pa.array(seconds, mask=null).view(pa.timestamp("s" if unit == "D" else unit))


def _part(function: str) -> Callable[[Any], Any]:
    def compute(value: Any) -> Any:
        if not isinstance(value, pa.Array) or not pa.types.is_temporal(value.type):
            raise TypeError(
                ".dt is for dates: a whole number does not say its unit, so write from_epoch('s').dt, with 'D', 's', 'ms', 'us' or 'ns' by its type in the "
                "file; of text write str.to_datetime('%Y-%m-%d').dt"
            )
        return taken_apart(getattr(pc, function)(value).cast(pa.int64()))

    return compute


#: The same of dates.
DATE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "from_epoch": _from_epoch,
    "dt.year": _part("year"),
    "dt.quarter": _part("quarter"),
    "dt.month": _part("month"),
    "dt.day": _part("day"),
    "dt.dayofyear": _part("day_of_year"),
    "dt.weekday": _part("day_of_week"),
    "dt.hour": _part("hour"),
    "dt.minute": _part("minute"),
    "dt.second": _part("second"),
}
