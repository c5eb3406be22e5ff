"""A column's type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.transform.table.lane import Lane
from penstock.transform.table.op import CATEGORIES, ColumnOp, Step, check_choice

_DTYPES = ("float32", "float64", "int64")


@dataclass(frozen=True)
class Cast(ColumnOp):
    """Numbers, or texts of numbers, as another type.

    At the end of a chain, Cast("float64") keeps what ops compute in 64 bits. What is missing stays NaN; "int64" cannot say it, so fill it before.

    Args:
        dtype: "float32", "float64" or "int64".

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: from a Loader and from `apply`, for a text that is no number, and for fractions as "int64".

    Example:
        rows = ps.from_arrays({"price": ["1.5", "20"]})
        rows.transform(price=ps.table.Cast("float32")).head()["price"].tolist() == [1.5, 20.0]
    """

    dtype: str

    takes = CATEGORIES

    def __post_init__(self) -> None:
        """PlanError for a type that there is not."""
        check_choice("Cast", dtype=(self.dtype, _DTYPES))

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        if self.dtype == "int64":
            return Lane(kind="integer", dtype="int64", nullable=lane.nullable)
        return Lane(kind="float", dtype=self.dtype, nullable=True)

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        if self.dtype == "int64":
            return [{"step": "parse_integer" if lane.kind == "text" else "to_integer"}]
        made: list[Step] = [{"step": "parse"}] if lane.kind == "text" else []
        return (
            [*made, {"step": "to_single"}] if self.dtype == "float32" else [*made, {"step": "multiply", "value": 1.0}]
        )

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        return values
