"""The stage of `concat` and `mix`: rows of several branches, each at its place."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.batch.merge import gather
from penstock.core import kernels
from penstock.core.columns.spec import Field, Ids, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, ItemPart


class MergeParts:
    """Joins the parts of several branches: every row moves to its place."""

    def __init__(self, verb: str, branches: Sequence[tuple[int, int]], slots: Slots, budget: Budget) -> None:
        self._verb, self._branches, self._slots, self._budget = verb, branches, slots, budget
        self._sources = branches[0][0], branches[-1][1]
        self._first: tuple[int, Spec] | None = None  # of the run: a dataset, and the columns that it has
        self._lock = threading.Lock()

    def __call__(self, item: Columned) -> Columned:
        """One part instead of those of the branches; PlanError where their columns differ."""
        mine = [part for part in item.parts if part.sources in self._branches]
        others = [part for part in item.parts if part.sources not in self._branches]
        if not mine:
            return item
        item.parts = [*others, self._merged(mine, item.rows)]
        return item

    def _merged(self, parts: list[ItemPart], rows: int) -> ItemPart:
        first = parts[0]
        for part in parts:
            self._check_alike(self._branches.index(part.sources), part.spec)
        if len(parts) == 1:
            whole = first.at if first.at is not None and len(first.at) < rows else None
            return ItemPart(self._sources, whole, first.columns, first.spec, first.ids)
        places = [part.at for part in parts if part.at is not None]
        together, at = _closed_up(places, rows)
        which, row = kernels.sources_of(at)
        cpus = self._budget.cpus
        columns = {
            name: gather([part.columns[name] for part in parts], which, row, name, field, self._allocate, threads=cpus)
            for name, field in first.spec.items()
        }
        ids = None if first.ids is None else np.concatenate([part.ids for part in parts if part.ids is not None])
        return ItemPart(
            self._sources, together, columns, first.spec, ids if ids is None else ids[np.argsort(np.concatenate(at))]
        )

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)

    def _check_alike(self, number: int, spec: Spec) -> None:
        """PlanError unless a dataset has the columns of the one that came first, which may have been steps ago."""
        with self._lock:
            first, wanted = self._first = self._first or (number, spec)
        if wanted.keys() != spec.keys():
            raise PlanError(
                f"{self._verb}: dataset {first} has the columns {', '.join(wanted)}, and dataset {number} {', '.join(spec)}; let the "
                f"functions of both return the same"
            )
        for name, field in wanted.items():
            if not _is_alike(field, spec[name]):
                raise PlanError(
                    f"{self._verb}: column {quoted(name)} is {field} in dataset {first} and {spec[name]} in dataset {number}; make "
                    f"them alike, with Resize or a crop for images, or with map"
                )


def _closed_up(places: list[Ids], rows: int) -> tuple[Ids | None, list[Ids]]:
    """Places among `rows` rows: all of them in order, None if that is every row, and their numbers among themselves."""
    if sum(map(len, places)) == rows:
        return None, places
    is_mine = np.zeros(rows, dtype=bool)
    for some in places:
        is_mine[some] = True
    number = np.cumsum(is_mine) - 1
    return np.flatnonzero(is_mine), [number[some] for some in places]


def _is_alike(one: Field, other: Field) -> bool:
    """Whether rows of both can stand in one column: of one type, with as many axes, alike where both are fixed."""
    if not one.required.is_fixed:  # text and lists are of one type, with nulls and without
        one, other = one.required, other.required
    if one.is_fixed or other.is_fixed or one.dtype != other.dtype or len(one.shape) != len(other.shape):
        return one == other
    return all(None in axes or axes[0] == axes[1] for axes in zip(one.shape, other.shape, strict=True))
