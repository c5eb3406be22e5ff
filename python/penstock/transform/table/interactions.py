"""Products of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.table.lane import Lane, floats
from penstock.transform.table.op import NUMBERS, ColumnOp, Step


@dataclass(frozen=True)
class Interactions(ColumnOp):
    """Products of each two of some columns, as a new column: a vector of float32, or of two columns a number. What scikit-learn's PolynomialFeatures(2, interaction_only=True) adds.

    They are products of the columns as they are read, before the recipe's other ops; NaN where one is missing.

    Args:
        of: the names of two columns or more.

    Returns:
        The op, for a `Recipe`, under the name of the new column.

    Raises:
        PlanError: for fewer than two columns, and those that hold no numbers.

    Example:
        rooms = ps.from_arrays({"width": [2.0, 3.0], "length": [4.0, 5.0]})
        recipe = ps.table.Recipe(area=ps.table.Interactions(["width", "length"])).fit(rooms)
        rooms.transform(recipe).head()["area"].tolist() == [8.0, 15.0]
    """

    of: Sequence[str]

    by_type = frozenset()

    def __post_init__(self) -> None:
        """PlanError for what are no columns."""
        names = () if isinstance(self.of, str) else tuple(self.of)
        if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(one, str) for one in names):
            raise PlanError(f"Interactions({quoted(self.of)}): name two columns or more, each once")
        object.__setattr__(self, "of", names)

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return tuple(self.of)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Which columns are multiplied, by their places."""
        return [*combinations(range(len(self.of)), 2)]

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        for one in self.of:
            if one in given:
                self.check_lane(one, Lane.of_any(one, given[one]))
        return {**given, name: self.after(floats()).field}

    def begin(self, name: str, fields: Spec) -> Lane:
        """See `ColumnOp`."""
        self.output(name, fields)
        return floats()

    def check_lane(self, name: str, lane: Lane) -> None:
        """See `ColumnOp`."""
        if lane.kind not in NUMBERS:
            super().check_lane(name, lane)

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        names = tuple(f"{self.of[one]}_{self.of[other]}" for one, other in self.pairs)
        return floats() if len(names) == 1 else Lane(kind="vector", dtype="float32", names=names)

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return []
