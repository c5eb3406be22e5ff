"""How ragged columns are padded to dense arrays, and the values that fill what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from penstock.core.arguments import check_flags, hold_as_int
from penstock.core.columns.default_values import held_number
from penstock.core.columns.spec import Bytes, Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: One value for all columns, or one a column: 0 for those that are not named.
PaddingValue: TypeAlias = "float | tuple[tuple[str, float], ...]"

#: Positions are int32, and so many tokens of a sequence are more than memory holds of a batch.
LONGEST = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Ragged columns become dense: to the longest row of a batch, rounded up to a multiple, or to one length.

    columns: None for all that are ragged. truncate: whether rows longer than `length` are, which are an error otherwise.
    """

    columns: tuple[str, ...] | None = None
    multiple_of: int | None = None
    length: int | None = None
    truncate: bool = False
    padding_value: PaddingValue = 0

    def __post_init__(self) -> None:
        for name in ("multiple_of", "length"):
            value = getattr(self, name)
            if value is not None:
                check_length("batch_padded", name, value)
        hold_as_int(self, "multiple_of", "length")
        check_flags("batch_padded", truncate=self.truncate)
        if self.length is not None and self.multiple_of is not None:
            raise PlanError("batch_padded: length= and multiple_of= both say how long rows become; choose one")
        if self.truncate and self.length is None:
            raise PlanError("batch_padded: truncate=True needs a length, to which rows are truncated; give length=")
        if self.columns is not None:
            check_names("batch_padded", self.columns)
        check_values("batch_padded", self.padding_value, self.columns)

    def length_of(self, longest: int) -> int:
        """What rows are padded to: Padding(multiple_of=8).length_of(17) == 24."""
        if self.length is not None:
            return self.length
        return -(-longest // (self.multiple_of or 1)) * (self.multiple_of or 1)


def lengths_name(column: str) -> str:
    """The column that says how long each row was."""
    return f"{column}_lengths"


def mask_name(column: str) -> str:
    """The column that says what is no padding."""
    return f"{column}_mask"


def columns_to_pad(padding: Padding, spec: Spec) -> tuple[str, ...]:
    """The columns that are padded; PlanError where one cannot be, or a column has a name that padding gives."""
    ragged = tuple(name for name, field in spec.items() if is_ragged(field))
    names = ragged if padding.columns is None else padding.columns
    for name in names:
        if name not in spec:
            raise PlanError(f"batch_padded: no column {quoted(name)}; there are {', '.join(spec)}")
        if name not in ragged:
            raise PlanError(
                f"batch_padded: column {quoted(name)} is {spec[name]}, and only lists of numbers are padded{_instead(ragged)}"
            )
    for name in names:
        for made in (lengths_name(name), mask_name(name)):
            if made in spec:
                raise PlanError(
                    f"batch_padded: padding {quoted(name)} makes a column {quoted(made)}, and there is one already; rename one of them"
                )
    for name, _ in padding.padding_value if isinstance(padding.padding_value, tuple) else ():
        if name not in names:
            raise PlanError(f"batch_padded: padding_value names {quoted(name)}, which is not padded{_instead(names)}")
    for name in names:
        value_bytes("batch_padded", name, spec[name], padding.padding_value)
    return names


def _instead(names: tuple[str, ...]) -> str:
    return f"; choose among {', '.join(names)}" if names else "; there are none here, so write batch(…)"


def is_ragged(field: Field) -> bool:
    """Whether rows are lists of numbers of any length, or of arrays of one shape: Field("int32", (None,))."""
    return field.dtype not in ("bytes", "string") and field.shape[:1] == (None,) and None not in field.shape[1:]


def as_padding_value(verb: str, value: Any) -> PaddingValue:
    """What a user gave, a number or a dict of numbers, as plans hold it."""
    if isinstance(value, Mapping):
        return tuple((name, _number(verb, one)) for name, one in value.items())
    return _number(verb, value)


def _number(verb: str, value: Any) -> float:
    if not isinstance(value, (Real, np.bool_)):
        raise PlanError(f"{verb}: padding_value={quoted(value)}; pass a number, or a dict of a number a column")
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[return-value]  # a Real


def as_names(verb: str, columns: Any) -> tuple[str, ...]:
    """What a user gave, a name or several, as plans hold it; PlanError if it is neither."""
    try:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
    except TypeError:
        names = ()
    check_names(verb, names, columns)
    return names


def check_length(verb: str, name: str, value: Any) -> None:
    """PlanError unless a value is a number of tokens."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= LONGEST:
        raise PlanError(f"{verb}: {name}={quoted(value)}; it is a whole number from 1 to {LONGEST:,}")


def check_names(verb: str, columns: Any, given: Any = None) -> None:
    """PlanError unless columns are names, each once. given: what the user wrote."""
    if not isinstance(columns, tuple) or not columns or not all(isinstance(name, str) for name in columns):
        raise PlanError(
            f"{verb}: columns={quoted(columns if given is None else given)}; pass the names of columns, at least one"
        )
    if len({*columns}) < len(columns):
        raise PlanError(f"{verb}: columns={list(columns)} names one twice; name each once")


def check_values(verb: str, value: Any, columns: tuple[str, ...] | None) -> None:
    """PlanError unless padding values are numbers for columns that there are."""
    entries = value if isinstance(value, tuple) else (("", value),)
    for name, number in entries:
        as_padding_value(verb, number)
        if isinstance(value, tuple) and columns is not None and name not in columns:
            raise PlanError(f"{verb}: padding_value names {quoted(name)}, and the columns are {', '.join(columns)}")


def value_bytes(verb: str, name: str, field: Field, padding_value: PaddingValue) -> Bytes:
    """The bytes of a column's padding value; PlanError if its dtype does not hold it."""
    value = dict(padding_value).get(name, 0) if isinstance(padding_value, tuple) else padding_value
    held = held_number(field, value)
    if held is None:
        raise PlanError(
            f"{verb}: padding_value={quoted(value)} is no {field.dtype}, which column {quoted(name)} is; choose another, or cast the column in map"
        )
    if field.dtype == "bfloat16":
        held = (held.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.array([held]).view(np.uint8)
