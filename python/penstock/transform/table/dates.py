"""Dates become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.table.lane import Kind, Lane, floats
from penstock.transform.table.op import ColumnOp, Step, check_choice

_PARTS = ("year", "quarter", "month", "day", "weekday", "dayofyear", "hour", "minute", "second")
_DAY = 86_400
#: How many of its units a day has.
_PER_DAY = {"D": 1, "s": _DAY, "ms": _DAY * 10**3, "us": _DAY * 10**6, "ns": _DAY * 10**9}
_WHOLE: frozenset[Kind] = frozenset({"integer"})


@dataclass(frozen=True)
class DateParts(ColumnOp):
    """Parts of a date as a vector of float32, in the order in which they are asked for; of one part, a number.

    Dates and times are whole numbers in a dataset: what they count since 1970 is their type in the file. pandas' and Polars' names and numbers: Monday is weekday 0.

    Args:
        parts: names, of "year", "quarter", "month", "day", "weekday", "dayofyear", "hour", "minute", "second".
        unit: what the numbers count: "D" (Arrow's date32), "s", "ms", "us" or "ns".

    Returns:
        The op, for a `Recipe`.

    Raises:
        PlanError: for a part or a unit that there is not.
        DataError: from a Loader and from `apply`, for a date beyond the years 1 to 9999.

    Example:
        visits = ps.from_arrays({"when": [0, 86_400]})
        parts = visits.transform(when=ps.table.DateParts(["year", "day"], unit="s"))
        parts.head()["when"].tolist() == [[1970.0, 1.0], [1970.0, 2.0]]
    """

    parts: Sequence[str] | str
    unit: str

    takes = _WHOLE
    by_type = frozenset()

    def __post_init__(self) -> None:
        """PlanError for a part or a unit that there is not."""
        parts = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        if not parts or len(set(parts)) < len(parts):
            raise PlanError(f"DateParts: parts={quoted(self.parts)}; name parts, each once: ['year', 'month']")
        for part in parts:
            check_choice("DateParts", parts=(part, _PARTS))
        check_choice("DateParts", unit=(self.unit, [*_PER_DAY]))
        object.__setattr__(self, "parts", parts)

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        names = tuple(self.parts)
        return floats() if len(names) == 1 else Lane(kind="vector", dtype="float32", names=names)

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return [{"step": "dates", "parts": [*self.parts], "per_day": _PER_DAY[self.unit]}]

    def hint(self, lane: Lane) -> str:
        """See `ColumnOp`."""
        return "; read the column as a date or a timestamp" if lane.kind == "text" else ""
