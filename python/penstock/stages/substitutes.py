"""Other rows in the places of bad ones, made by stages of their own as far as the item is that lacks them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.batch.merge import gather
from penstock.core.columns.spec import Field, Ids
from penstock.core.errors import DataError, PlanError
from penstock.order.protocol import RowOrder
from penstock.order.steps.asked import AskedById
from penstock.order.steps.cursor import Work
from penstock.order.substitutes import substitute
from penstock.plan.nodes import Node
from penstock.plan.tree import flow, lane_stage, leaves
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, ItemPart, Stage
from penstock.source.protocol import Access

#: Rows that may be bad in a row, one after the other in one place.
_ATTEMPTS = 64


@dataclass(frozen=True, kw_only=True)
class SideStages:
    """Stages that make rows one by one. until: how many of them belong to the reading, to the first stage that may meet bad rows, and so on."""

    stages: Sequence[Stage]
    until: Sequence[int]
    budget: Budget


class Substitutes:
    """Finds and makes rows for one run's stages. lower: makes the stages, when they are first needed. homes: sources that are read as one."""

    def __init__(
        self,
        order: RowOrder,
        first_ids: Ids,
        seed: int,
        lower: Callable[[], SideStages],
        homes: Sequence[tuple[int, int]],
        slots: Slots,
        threads: int,
    ) -> None:
        self._order, self._first_ids, self._seed, self._lower = order, first_ids, seed, lower
        self._homes, self._slots, self._threads = homes, slots, threads
        self._side: SideStages | None = None
        self._lock = threading.Lock()

    def __call__(self, item: Columned, missing: Ids, stages: int) -> None:
        """Fills places of an item: see `bad_rows.Fill`."""
        draws = item.find_draws()
        bad = [
            (row_id, item.epoch if draws is None else int(draws[at]))
            for row_id, at in zip(item.ids[missing].tolist(), missing.tolist(), strict=True)
        ]
        for attempt in range(_ATTEMPTS):
            found = [substitute(self._order, self._seed, item.epoch, row, attempt, self._first_ids) for row in bad]
            ids, drawn = np.array(found, dtype=np.int64).T
            with self._lock:
                side = self._make(item, ids.copy(), drawn.copy(), stages)
            item.replace_rows(missing, ids, drawn)
            left = self._join(item, missing, side)
            missing, bad = missing[left], [bad[row] for row in left.tolist()]
            if not len(missing):
                return
        raise DataError(
            f"row {bad[0][0]:,} is bad, and so are the {_ATTEMPTS} rows that were to take its place; look at the data with `penstock inspect --decode`"
        )

    def _make(self, item: Columned, ids: Ids, draws: Ids, stages: int) -> Columned:
        side = self._side = self._side or self._lower()
        asked = AskedById(row_ids=ids, row_draws=draws if self._order.has_draws else None, step=item.work.step_in_epoch)
        made: Any = Work(item.epoch, item.step, 1, asked)
        for stage in side.stages[: side.until[stages]]:
            made = stage.work(made)
        if made.share is not None:
            side.budget.release(made.share)
        found: Columned = made
        return found

    def _join(self, item: Columned, missing: Ids, side: Columned) -> Ids:
        """Puts what was made into its places; which of those that are missing still are."""
        homes = dict[tuple[int, int], list[ItemPart]]()
        for part in side.parts:
            homes.setdefault(self._home(item, part.sources), []).append(part)
        filled = np.zeros(len(missing), dtype=bool)
        for home, parts in homes.items():
            here = item.part(home)
            placed = [_placed(part, missing) for part in parts]
            for part in parts:
                filled[slice(None) if part.at is None else part.at] = True
            others = [part for part in item.parts if part is not here]
            item.parts = [*others, self._joined(home, item.rows, [*([here] if here else []), *placed])]
        return np.flatnonzero(~filled)

    def _home(self, item: Columned, sources: tuple[int, int]) -> tuple[int, int]:
        """The sources of the item's part to which rows of some sources belong."""
        known = [*(part.sources for part in item.parts), *self._homes]
        return next((home for home in known if home[0] <= sources[0] and sources[1] <= home[1]), sources)

    def _joined(self, sources: tuple[int, int], rows: int, parts: Sequence[ItemPart]) -> ItemPart:
        first = parts[0]
        for part in parts[1:]:
            if dict(part.spec) != dict(first.spec):
                raise PlanError(
                    f"a function gave {dict(part.spec)} for rows that take the places of bad ones, after {dict(first.spec)}; give the same columns "
                    f"for any number of rows"
                )
        at = np.concatenate([np.arange(rows) if part.at is None else part.at for part in parts])
        turn = np.argsort(at, kind="stable")
        counts = [rows if part.at is None else len(part.at) for part in parts]
        which = np.repeat(np.arange(len(parts)), counts)[turn]
        row = np.concatenate([np.arange(count) for count in counts])[turn]
        columns = {
            name: gather(
                [part.columns[name] for part in parts], which, row, name, field, self._allocate, threads=self._threads
            )
            for name, field in first.spec.items()
        }
        ids = [part.ids for part in parts if part.ids is not None]
        return ItemPart(
            sources,
            at[turn] if len(at) < rows else None,
            columns,
            first.spec,
            np.concatenate(ids)[turn] if len(ids) == len(parts) else None,
        )

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)


def check_substitutes(root: Node) -> None:
    """PlanError for a plan, up to its topmost lane stages, in which no row can take the place of another."""
    if any(leaf.access is Access.FORWARD for leaf in leaves(root)):
        raise PlanError(
            "on_error='substitute': this source is drawn in one order, so that no other row can take the place of a bad one; let "
            "from_iterable(…, spool=True) keep the rows"
        )
    above = [node.verb for node in flow(root) if node.may_fail and node.below]
    if above and lane_stage(root) is not None:
        raise PlanError(
            f"on_error='substitute': {above[0]} comes after what gives rows by what the data says (filter by a function, flat_map, pack), and rows there "
            f"have none to take their places; write {above[0]} before it, or choose on_error='skip'"
        )


def _placed(part: ItemPart, missing: Ids) -> ItemPart:
    """A part of rows that were made for missing ones, by their places in the item that misses them."""
    return ItemPart(part.sources, missing if part.at is None else missing[part.at], part.columns, part.spec, part.ids)
