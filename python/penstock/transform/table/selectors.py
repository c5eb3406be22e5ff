"""Which columns ops go to: by names, patterns, types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.transform.table.lane import Lane
from penstock.transform.table.op import ColumnOp, check_choice

_KINDS: Mapping[str, Callable[[Lane], bool]] = {
    "number": lambda lane: lane.kind in ("float", "integer") and lane.dtype != "bool",
    "float": lambda lane: lane.kind == "float",
    "integer": lambda lane: lane.kind == "integer" and lane.dtype != "bool",
    "bool": lambda lane: lane.dtype == "bool",
    "text": lambda lane: lane.kind == "text",
}


@dataclass(frozen=True)
class Selector:
    """Columns by names and types.

    Args:
        names: names, or patterns such as "price_*". Default: all.
        kind: "number" (float or integer), "float", "integer", "bool" or "text". Default: any.
        but: names and patterns that are left out.

    Returns:
        A selector, for `On`.

    Raises:
        PlanError: for a kind that there is not, and by `fit` where nothing is selected.

    Example:
        prices = ps.table.On(ps.table.Selector("price_*", but=["price_net"]), ps.table.Log())
    """

    names: Sequence[str] | str = ("*",)
    kind: str | None = None
    but: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        """PlanError for a kind that there is not."""
        for field in ("names", "but"):
            given = getattr(self, field)
            names = (given,) if isinstance(given, str) else tuple(given)
            if not all(isinstance(name, str) for name in names):
                raise PlanError(
                    f"Selector: {field}={quoted(given)}; pass names of columns, or patterns such as 'price_*'"
                )
            object.__setattr__(self, field, names)
        if self.kind is not None:
            check_choice("Selector", kind=(self.kind, [*_KINDS]))

    def columns(self, lanes: Mapping[str, Lane]) -> list[str]:
        """The columns among these; PlanError for a name that is none of them, and where nothing is left."""
        for name in self.names:
            if name not in lanes and not any(fnmatchcase(one, name) for one in lanes):
                kind = f"; by type they are Selector(kind={quoted(name)})" if name in _KINDS else ""
                raise PlanError(
                    f"recipe: no column {quoted(name)}; there are {', '.join(lanes)}{did_you_mean(name, lanes)}{kind}"
                )
        found = [
            name
            for name, lane in lanes.items()
            if _matches(name, self.names)
            and not _matches(name, self.but)
            and (self.kind is None or _KINDS[self.kind](lane))
        ]
        if not found:
            raise PlanError(f"recipe: {self} selects none of the columns {', '.join(lanes)}; widen it, or leave it out")
        return found


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == one or fnmatchcase(name, one) for one in patterns)


@dataclass(frozen=True, init=False)
class On:
    """Ops for selected columns, in a `Recipe`.

    Args:
        where: a `Selector`, or names and patterns.
        *ops: in flow order.

    Returns:
        What a `Recipe` takes among its ops.

    Raises:
        PlanError: for what is no op of `penstock.table`.

    Example:
        rows = ps.from_arrays({"price_a": [1.0, 2.0], "price_b": [0.0, 4.0], "size": [1, 2]})
        recipe = ps.table.Recipe(ps.table.On("price_*", ps.table.MinMax())).fit(rows)
        rows.transform(recipe).head()["price_b"].tolist() == [0.0, 1.0]
    """

    where: Selector
    ops: tuple[ColumnOp, ...]

    def __init__(self, where: Selector | Sequence[str] | str, *ops: ColumnOp) -> None:
        object.__setattr__(self, "where", where if isinstance(where, Selector) else Selector(where))
        object.__setattr__(self, "ops", checked_ops("On", ops))


def checked_ops(where: str, ops: object) -> tuple[ColumnOp, ...]:
    """Ops, or one; PlanError for what is none."""
    given = tuple(ops) if isinstance(ops, (list, tuple)) else (ops,)
    for op in given:
        if not isinstance(op, ColumnOp):
            raise PlanError(
                f"{where}: {quoted(op)} is no op of penstock.table; write ps.table.Standardize() for example"
            )
    return given
