"""What is missing: filled, marked, dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted
from penstock.transform.table.lane import Lane
from penstock.transform.table.op import CATEGORIES, ColumnOp, Step
from penstock.transform.table.statistics.counts import Counts
from penstock.transform.table.statistics.moments import Moments
from penstock.transform.table.statistics.protocol import Statistic
from penstock.transform.table.statistics.quantiles import Quantiles

_STRATEGIES = ("mean", "median", "mode", "most_frequent", "constant")
#: Those that are numbers between others.
_BETWEEN = ("mean", "median")
#: Whole numbers of 64 bits are below it.
_END = 1 << 63


@dataclass(frozen=True)
class FillMissing(ColumnOp):
    """Fills what is missing: nulls, and NaN. scikit-learn's SimpleImputer.

    "mean" and "median" make float64 of whole numbers; else a column keeps its type. Both are exact: the mean is rounded once.
    There is no "forward", since a row that is served has none before it: see `Dataset.forward_fill`.

    Args:
        strategy: "mean", "median", "mode" (the value that comes most often, of several the least; "most_frequent" is the same), or "constant". Default: "mean", and "constant"
            where there is a value.
        value: of "constant": a number, or a text for columns of text.
        indicator: whether a column `<name>_missing` says where values were missing. Default: False.

    Returns:
        The op, for a `Recipe`.

    Raises:
        PlanError: for a strategy that there is not, and by `fit` for a column that cannot be filled with it.
        DataError: by `fit`, for a column without any value.

    Example:
        ages = ps.from_arrays({"age": np.array([20.0, np.nan, 40.0])})
        recipe = ps.table.Recipe(age=ps.table.FillMissing("mean", indicator=True)).fit(ages)
        ages.transform(recipe).head()["age"].tolist() == [20.0, 30.0, 40.0]
    """

    strategy: str | None = None
    value: Any = None
    indicator: bool = False

    takes = CATEGORIES
    by_type = CATEGORIES

    def __post_init__(self) -> None:
        """PlanError for a strategy that there is not."""
        strategy = ("mean" if self.value is None else "constant") if self.strategy is None else self.strategy
        if strategy == "forward":
            raise PlanError(
                "FillMissing: strategy='forward'; a row that is served has none before it, so that this is a verb of the dataset: data.forward_fill('price') before the recipe"
            )
        if strategy not in _STRATEGIES:
            raise PlanError(
                f"FillMissing: strategy={quoted(strategy)}; choose one of {', '.join(map(quoted, _STRATEGIES))}, or write FillMissing(value={quoted(strategy)}) to fill with that"
            )
        object.__setattr__(self, "strategy", "mode" if strategy == "most_frequent" else strategy)
        is_plain = isinstance(self.value, str) or (isinstance(self.value, (int, float)) and abs(self.value) < _END)
        if (strategy == "constant") != (self.value is not None) or (self.value is not None and not is_plain):
            raise PlanError(
                f"FillMissing: strategy={strategy!r} and value={quoted(self.value)}; give a number or a text, FillMissing(value=0), or a strategy alone"
            )

    def check_lane(self, name: str, lane: Lane) -> None:
        """See `ColumnOp`."""
        super().check_lane(name, lane)
        if not self.goes_to(lane):
            raise PlanError(
                f"recipe: {self} on column {quoted(name)}, whose values are {'text' if lane.kind == 'text' else 'numbers'}; take 'mode', or a value of that type"
            )

    def goes_to(self, lane: Lane) -> bool:
        """Whether its value could stand in a lane."""
        if lane.kind == "text":
            return self.strategy == "mode" or isinstance(self.value, str)
        return not isinstance(self.value, str) and not (lane.dtype == "bool" and self.strategy in _BETWEEN)

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        if lane.kind == "integer" and self._makes_floats:
            return Lane(kind="float", dtype="float64", nullable=True)
        return replace(lane, nullable=False, codes=None)

    @property
    def _makes_floats(self) -> bool:
        return self.strategy in _BETWEEN or (isinstance(self.value, float) and not self.value.is_integer())

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        if self.strategy == "constant":
            return None
        if self.strategy == "mode":
            return Counts()
        return Moments() if self.strategy == "mean" else Quantiles([0.5])

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        if self.strategy == "mode":
            value = found.most_frequent
        else:
            value = found.mean if self.strategy == "mean" else found[0.5]
        if value is None or value != value:  # noqa: PLR0124  # NaN
            raise DataError("has no value in any row, so that there is none to fill with; leave the column out")
        if isinstance(value, float) and math.isinf(value):
            raise DataError(f"has a {self.strategy} beyond float64; put Clip before FillMissing")
        return {"value": value}

    @property
    def fill(self) -> Any:
        """What stands for missing values."""
        return self.value if self.strategy == "constant" else self.learnt["value"]

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        if lane.kind == "text":
            return []  # the column is filled before it goes to native code
        if lane.kind == "integer" and not self._makes_floats:
            return [{"step": "fill_integer", "value": int(self.fill)}]
        return [{"step": "fill", "value": float(self.fill)}]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        return values


@dataclass(frozen=True)
class IsMissing(ColumnOp):
    """A column of truth values that says where another one has null or NaN. `FillMissing(indicator=True)` writes it for you.

    Args:
        of: the other column.

    Returns:
        The op, for a `Recipe`, under the name of the new column.

    Example:
        ages = ps.from_arrays({"age": np.array([20.0, np.nan, 40.0])})
        recipe = ps.table.Recipe(unknown_age=ps.table.IsMissing("age")).fit(ages)
        ages.transform(recipe).head()["unknown_age"].tolist() == [False, True, False]
    """

    of: str

    takes = CATEGORIES
    by_type = frozenset()

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (self.of,)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        return {**given, name: Field("bool")}

    def begin(self, name: str, fields: Spec) -> Lane:
        """See `ColumnOp`."""
        return Lane.of_any(self.of, fields[self.of])

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return Lane(kind="integer", dtype="bool")

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return [{"step": "is_missing"}]


@dataclass(frozen=True)
class DropMissing(ColumnOp):
    """Leaves out rows in which columns are missing. What a recipe is fitted on, and what it transforms, has no such rows; `apply` refuses one.

    It goes to the column that it is written for, or to all of them.

    Returns:
        The op, for a `Recipe`.

    Example:
        ages = ps.from_arrays({"age": np.array([20.0, np.nan, 40.0])})
        recipe = ps.table.Recipe(age=[ps.table.DropMissing(), ps.table.MinMax()]).fit(ages)
        ages.transform(recipe).head()["age"].tolist() == [0.0, 1.0]
    """

    takes = CATEGORIES
    by_type = CATEGORIES

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`: a recipe leaves rows out before its ops run."""
        raise PlanError(
            f"transform: DropMissing() on column {quoted(name)}; it leaves out rows, which a Recipe does: Recipe({name}=[DropMissing(), …])"
        )

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return lane

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return []

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        return values
