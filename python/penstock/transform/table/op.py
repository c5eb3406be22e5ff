"""An op of tables: what it takes, what it learns, and the native steps that do it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Fitted, Op
from penstock.transform.table.lane import Kind, Lane
from penstock.transform.table.statistics.known_rows import Folds
from penstock.transform.table.statistics.protocol import Statistic

#: A native step, as rust/src/bind/table.rs reads it.
Step: TypeAlias = dict[str, Any]

NUMBERS: frozenset[Kind] = frozenset({"float", "integer"})
CATEGORIES: frozenset[Kind] = frozenset({"text", "integer", "float"})


@dataclass(frozen=True)
class ColumnOp(Op):
    """An op on one column. takes: the kinds of lanes that it works on; by_type: those to which it goes without being named for a column.

    fitted: what it learnt; None before `fit`, and for ops that learn nothing.
    """

    fitted: Fitted | None = field(default=None, init=False, repr=False)

    family = "table"
    goes_along = True
    in_one_kernel = True
    takes: ClassVar[frozenset[Kind]] = NUMBERS
    by_type: ClassVar[frozenset[Kind]] = NUMBERS

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (name,)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        if name not in given:
            return given  # a function's, perhaps
        lane = Lane.of_any(name, given[name])
        self.check_lane(name, lane)
        return {**given, name: self.after(lane).field}

    def begin(self, name: str, fields: Spec) -> Lane:
        """What its chain begins with, where it is the first op of column `name`."""
        return Lane.of_any(name, fields[name])

    @property
    def learns_from(self) -> str | None:
        """The column besides its own that it learns from; None for none."""
        return None

    @property
    def known_folds(self) -> Folds | None:
        """Of one that encodes rows that it was fitted on otherwise than others: which these are. Its step is a table with a version for each fold."""
        return None

    def without_folds(self) -> ColumnOp:
        """The same, to which every row is one that it was not fitted on."""
        return self

    def is_fitted(self, lane: Lane) -> bool:
        """Whether it knows what it needs to work on a lane."""
        return self.fitted is not None or self.statistic(lane) is None

    @cached_property
    def learnt(self) -> Mapping[str, Any]:
        """What it learnt."""
        if self.fitted is None:
            raise PlanError(
                f"transform: {self} has not been fitted; write recipe = Recipe(…).fit(train), and transform(recipe)"
            )
        found: Mapping[str, Any] = json.loads(self.fitted.text)
        return found

    def with_learnt(self, value: Mapping[str, Any], digest: str) -> Self:
        """The same with what it learnt."""
        made = copy.copy(self)
        vars(made).pop("learnt", None)
        object.__setattr__(made, "fitted", Fitted.of(value, digest))
        return made

    def after(self, lane: Lane) -> Lane:
        """What it makes of a lane, as far as that is known before it is fitted."""
        raise NotImplementedError

    def statistic(self, lane: Lane) -> Statistic | None:
        """What it must know of the column; None for nothing."""
        return None

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """What it keeps of that: plain JSON. PlanError where nothing can be learnt."""
        raise NotImplementedError

    def steps(self, lane: Lane) -> Sequence[Step]:
        """The native steps on a lane."""
        raise NotImplementedError

    def undo(self, values: Any, lane: Lane) -> Any:
        """The column before it, of what it made: float64, or an Arrow array. lane: before it. PlanError where that is lost."""
        raise PlanError(
            f"inverse: {self} keeps less than it gets, so that nothing can be had back; leave the column out"
        )

    def check_lane(self, name: str, lane: Lane) -> None:
        """PlanError for a lane that it does not work on."""
        if lane.kind not in self.takes:
            raise PlanError(
                f"recipe: {self} on column {quoted(name)}, which is {said(lane)} there; it takes {' or '.join(sorted(self.takes))}{self.hint(lane)}"
            )

    def hint(self, lane: Lane) -> str:
        """What to do about a lane that it does not take."""
        if lane.kind == "text":
            return ": put Cast('float32') before it, or encode the text with OneHot, Ordinal or Vocabulary"
        return ""

    def __str__(self) -> str:
        return repr(self)


def check_only_first(name: str, ops: Sequence[ColumnOp]) -> None:
    """PlanError for an op behind another one that would take columns of its own, and not what that one made."""
    for op in ops[1:]:
        if op.needs(name) != (name,):
            raise PlanError(
                f"recipe: {op} behind {ops[0]} on column {quoted(name)}; it makes a new column of others: write it first, under a name of its own, name={op}"
            )


def said(lane: Lane) -> str:
    """A lane in words."""
    return {
        "text": "text",
        "vector": f"a vector of {lane.width}",
        "float": "numbers",
        "integer": "whole numbers",
    }[lane.kind]


def check_choice(op: str, **options: tuple[Any, Sequence[Any]]) -> None:
    """PlanError for an option that is none of its choices."""
    for name, (value, choices) in options.items():
        if not isinstance(value, str) or value not in choices:
            listed = ", ".join(map(quoted, choices))
            raise PlanError(f"{op}: {name}={quoted(value)}; choose one of {listed}")


def check_number(op: str, least: float | None = None, most: float | None = None, /, **numbers: Any) -> None:
    """PlanError for what is no finite number, or beyond its bounds."""
    for name, value in numbers.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")
        if not is_number or (least is not None and value < least) or (most is not None and value > most):
            bounds = f" from {least:g}" if least is not None else ""
            bounds += f" to {most:g}" if most is not None else ""
            raise PlanError(f"{op}: {name}={quoted(value)}; pass a number{bounds}")
