"""Columns of a plan of what its sources have: those that `with_columns`, `rename`, `cast` and `fill_null` make are computed, as batches have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core.columns.spec import Columns, Field, Spec
from penstock.plan.expression import col, columns_of
from penstock.plan.in_sources import in_sources
from penstock.plan.node import Node
from penstock.plan.nodes import WithColumns
from penstock.plan.null_rules import put_off
from penstock.plan.tree import leaves
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.slots import Slots
from penstock.source.nulls import stored
from penstock.stages.with_columns import ComputeColumns


class MadeColumns:
    """Some columns at a node. PlanError where datasets that are joined compute one each for itself.

    Attributes:
        needed: the columns of sources that they are made of.

    sees_nulls: whether they have their nulls, whatever batches have in their place.
    """

    def __init__(self, verb: str, root: Node, names: Collection[str], *, sees_nulls: bool) -> None:
        made = {name: in_sources(verb, root, col(name)) for name in sorted(names)}
        self._names = [*made]
        self.needed = set[str]().union(*map(columns_of, made.values()))
        self._computes: ComputeColumns | None = None
        if all(one.operation == "column" and one.operands[0] == name for name, one in made.items()):
            return
        self._given = _fields(root, sees_nulls=sees_nulls)
        self.needed = self.needed or {next(iter(self._given))}  # one value for all rows: how many there are
        rules = {} if sees_nulls else put_off(root)[1]
        nulls = tuple((name, rule) for name, rule in rules.items() if name in made and rule != "arrow")
        node = WithColumns(input=root, expressions=tuple(made.items()), nulls=nulls, verb=verb)
        places = RowPlaces(np.zeros(1, np.int64), ())
        self._computes = ComputeColumns((0, 0), places, Slots(0), node, self._given, None)

    @property
    def are_stored(self) -> bool:
        """Whether all are as sources have them."""
        return self._computes is None

    def of(self, columns: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
        """The columns of some rows, by those of `needed`. RowError for one that cannot be computed."""
        if self._computes is None:
            return columns
        found: Columns = self._computes.made_of(dict(columns), self._given, rows)
        return {name: found[name] for name in self._names}


def _fields(root: Node, *, sees_nulls: bool) -> Spec:
    """The columns of the sources as they are looked at."""
    found: dict[str, Field] = {}
    for leaf in leaves(root):
        source = leaf.opened.source
        found = {**source.spec, **found}
        if sees_nulls:
            found = {**{name: replace(field, nullable=True) for name, field in stored(source).spec.items()}, **found}
    return {name: replace(field, nullable=True) for name, field in found.items()} if sees_nulls else found
