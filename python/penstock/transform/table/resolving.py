"""Which ops go to which columns of a dataset: a recipe becomes chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.transform.table.lane import Lane
from penstock.transform.table.missing import DropMissing, FillMissing, IsMissing
from penstock.transform.table.op import ColumnOp, check_only_first
from penstock.transform.table.selectors import On

Named = Mapping[str, tuple[ColumnOp, ...]]


def chains_of(
    items: Sequence[ColumnOp | On], named: Named, left: Sequence[str], fields: Spec
) -> dict[str, tuple[ColumnOp, ...]]:
    """The chain of every column that has one, those of new columns first. left: columns to which nothing goes that is not named for them."""
    for name in left:
        if name not in fields:
            raise PlanError(
                f"recipe: no column {quoted(name)}; there are {', '.join(fields)}{did_you_mean(name, fields)}"
            )
    lanes = {
        name: _lane_or_none(name, field) for name, field in fields.items() if name not in named and name not in left
    }
    chains: dict[str, list[ColumnOp]] = {}
    open_lanes: dict[str, Lane] = {name: lane for name, lane in lanes.items() if lane is not None}
    for item in items:
        for name, op in _goes_to(item, open_lanes):
            chains.setdefault(name, []).append(op)
            open_lanes[name] = op.after(open_lanes[name])
    made = {**{name: tuple(ops) for name, ops in chains.items()}, **named}
    for name, ops in made.items():
        _check_there(name, ops, fields)
    if not made:
        raise PlanError(
            f"recipe: none of its ops goes to any of the columns {', '.join(fields)}; name columns: Recipe(city=OneHot())"
        )
    return _in_order(_with_indicators(made, fields), fields)


def _lane_or_none(name: str, field: Field) -> Lane | None:
    try:
        return Lane.of(name, field)
    except PlanError:  # lists, bytes: no op goes there by itself
        return None


def _goes_to(item: ColumnOp | On, lanes: Mapping[str, Lane]) -> list[tuple[str, ColumnOp]]:
    if isinstance(item, On):
        return [(name, op) for op in item.ops for name in item.where.columns(lanes)]
    return [(name, item) for name, lane in lanes.items() if _suits(item, lane)]


def _suits(op: ColumnOp, lane: Lane) -> bool:
    """Whether an op goes to a column without being named for it."""
    if isinstance(op, FillMissing):
        return (
            op.goes_to(lane)
            and lane.kind in op.by_type
            and not (op.strategy in ("mean", "median") and lane.dtype == "bool")
        )
    return lane.kind in op.by_type and (lane.dtype != "bool" or "text" in op.by_type)


def _check_there(name: str, ops: Sequence[ColumnOp], fields: Spec) -> None:
    for needed in ops[0].needs(name):
        if needed not in fields:
            raise PlanError(
                f"recipe: no column {quoted(needed)}; there are {', '.join(fields)}{did_you_mean(needed, fields)}"
            )
    if name not in ops[0].needs(name) and name in fields:
        raise PlanError(
            f"recipe: {ops[0]} makes a new column, and there is a column {quoted(name)} already; give it another name"
        )
    check_only_first(name, ops)


def _with_indicators(chains: Named, fields: Spec) -> dict[str, tuple[ColumnOp, ...]]:
    """With a column more for each FillMissing(indicator=True), where the column could have missing values."""
    made = dict(chains)
    for name, ops in chains.items():
        for op in ops:
            if isinstance(op, FillMissing) and op.indicator and Lane.of_any(name, fields[name]).nullable:
                marked = f"{name}_missing"
                if marked in fields or marked in chains:
                    raise PlanError(
                        f"recipe: FillMissing(indicator=True) adds a column {quoted(marked)}, and there is one already; rename that, or write Recipe(other_name=IsMissing({quoted(name)}))"
                    )
                made[marked] = (IsMissing(name),)
    return made


def _in_order(chains: Named, fields: Spec) -> dict[str, tuple[ColumnOp, ...]]:
    """New columns first, since they are made of others as these are read; then the others as the dataset has them."""
    new = [name for name in chains if name not in fields]
    return {name: chains[name] for name in [*new, *(name for name in fields if name in chains)]}


def complete(chains: Named) -> tuple[str, ...]:
    """The columns that no row may lack."""
    return tuple(name for name, ops in chains.items() if any(isinstance(op, DropMissing) for op in ops))


def is_feature_of(chains: Named, column: str) -> bool:
    """Whether a column is among what the chains make features of."""
    return any(column in ops[0].needs(name) for name, ops in chains.items())


def made_of(chains: Named, column: str) -> list[str]:
    """The other columns that the chains make of a column."""
    return [name for name, ops in chains.items() if name != column and column in ops[0].needs(name)]
