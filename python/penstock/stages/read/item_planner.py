"""The first stage: work becomes an item when there is room for all that it will hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Ids
from penstock.order.steps.cursor import Cursor, Work
from penstock.runtime.budget import Budget, BudgetShare, ItemBytes
from penstock.runtime.stage import Columned, Item, ItemPart, Loaded, Planned, SourceRows
from penstock.stages.read.reader import AnyReader, Picks


class ItemPlanner:
    """Plans items, in the order of their work: what each of the sources has to read, and the memory for it."""

    def __init__(
        self, cursor: Cursor, readers: Sequence[AnyReader], first_ids: Ids, budget: Budget, item_bytes: ItemBytes
    ) -> None:
        self._cursor, self._readers, self._first_ids = cursor, readers, first_ids
        self._budget, self._item_bytes = budget, item_bytes
        self._plans = any(reader.plans for reader in readers)
        self._rows_per_step = cursor.rows_per_step

    def __call__(self, work: Work) -> Planned:
        """An item that is admitted; nothing is read yet, but by readers of blocks that stay open."""
        if not self._plans:
            return self._unplanned(work)
        with self._budget.turn(work):
            item = self._item(work)
            planned = [self._readers[rows.source].plan(item, rows) for rows in item.parts]
            known = [needs.record_bytes for needs, _ in planned]
            record_bytes = None if None in known else sum(cast("list[int]", known))
            block_bytes = sum(needs.block_bytes for needs, _ in planned)
            asked_bytes = self._item_bytes(item.rows, record_bytes)
            item.share = self._budget.admit(work, block_bytes=block_bytes, asked_bytes=asked_bytes)
            for rows, (_, plan) in zip(item.parts, planned, strict=True):
                rows.held = self._readers[rows.source].open(item, rows, plan)
            self._grow(work, item)
            self._budget.trim()
        return item

    def _grow(self, work: Work, item: Planned) -> None:
        """Waits for room where values that stand once for many rows are longer than those before them."""
        repeated_bytes = sum(rows.held.repeated_bytes for rows in item.parts if isinstance(rows.held, Picks))
        if repeated_bytes and item.share is not None:
            self._budget.grow(item.share, repeated_bytes, may_fail=work.steps > 1 and work.asked is None)

    def _unplanned(self, work: Work) -> Planned:
        """Where items hold no more than their columns, several threads may find out what to read."""
        share = self._admit(work)
        item = self._item(work)
        item.share = share
        return item

    def _admit(self, work: Work) -> BudgetShare:
        asked_bytes = self._item_bytes(work.steps * self._rows_per_step, None)
        share = self._budget.admit(work, asked_bytes=asked_bytes, ends_turn=True)
        self._budget.trim()
        return share

    def admitted(
        self, make: Callable[[Work], Columned | None], else_make: Callable[[Planned], Columned]
    ) -> Callable[[Work], Columned]:
        """A stage whose items hold their columns alone, made at once where `make` can, else as planned."""

        def begin(work: Work) -> Columned:
            share = self._admit(work)
            made = make(work) or else_make(self._item(work))
            made.share = share
            return made

        return begin

    def _item(self, work: Work) -> Planned:
        ids = self._cursor.ids(work, self._budget.cpus)
        parts = self._parts(ids)
        return Planned(
            work=work,
            rows_per_step=len(ids) // work.steps,
            find_ids=lambda: ids,
            find_draws=partial(self._cursor.draws, work, self._budget.cpus),
            parts=parts,
        )

    def _parts(self, ids: Ids) -> list[SourceRows]:
        """The rows of each source, and those that follow them from other sources."""
        whole, row = self._cursor.order.rows.with_followers(ids)
        parts = split(whole, self._first_ids, [reader.in_order for reader in self._readers])
        for part in parts:
            if row is None or part.at is None:
                break
            if len(part.at) and part.at[0] >= len(ids):
                part.ids = whole[part.at]
            part.at = None if len(part.at) == len(ids) else row[part.at]
        return parts


def split(ids: Ids, first_ids: Ids, always: Sequence[bool]) -> list[SourceRows]:
    """The rows of each reader that has some. always: which readers are included even without rows."""
    if len(first_ids) == 2:  # one reader
        return [SourceRows(0, None, ids)]
    places, samples, edges = kernels.divide_rows(ids, first_ids)
    numbers = np.flatnonzero((edges[1:] > edges[:-1]) | np.asarray(always)).tolist()
    bounds = edges.tolist()
    parts = [(number, slice(bounds[number], bounds[number + 1])) for number in numbers]
    return [SourceRows(number, places[mine], samples[mine]) for number, mine in parts]


def read_with(readers: Sequence[AnyReader]) -> Callable[[Planned], Loaded]:
    """A stage that reads what was planned."""

    def read(item: Planned) -> Loaded:
        for rows in item.parts:
            rows.held = readers[rows.source].read(rows, rows.held)
        return item.to(Loaded, parts=item.parts)

    return read


def columns_with(readers: Sequence[AnyReader], sources: Sequence[tuple[int, int]]) -> Callable[[Item], Columned]:
    """A stage that makes columns of what was read; each reader reads the sources [low, high)."""

    def columns(item: Item) -> Columned:
        parts = []
        for rows in cast("Loaded | Planned", item).parts:
            if len(rows.samples):
                reader = readers[rows.source]
                made = reader.columns(item, rows, rows.held)
                parts.append(ItemPart(sources[rows.source], rows.at, made, dict(reader.spec), rows.ids))
            rows.held = None  # releases the records, but for what columns look into
        return item.to(Columned, parts=parts)

    return columns
