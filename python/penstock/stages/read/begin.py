"""The first stage: work becomes an item when there is room for all that it will hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np

from penstock.core import kernels
from penstock.core.spec import Ids
from penstock.order.batches import BatchOrder
from penstock.order.cursor import Work
from penstock.runtime.budget import Budget, ItemBytes, Share
from penstock.runtime.stage import Columned, Item, Loaded, Part, Planned, SourceRows
from penstock.stages.read.reader import Reader


class Cursor:
    """Turns work into the ids of its rows: the order's arithmetic for one rank."""

    def __init__(self, order: BatchOrder, rank: int, world_size: int) -> None:
        self.order, self._rank, self._world_size = order, rank, world_size
        self.share = order.share(rank, world_size)
        self.rows_per_step = -(-order.rows_per_step // world_size)

    def ids(self, work: Work, threads: int = 1) -> Ids:
        """The ids of this rank's rows."""
        return self.order.ids(work.epoch, work.step, work.steps, self._rank, self._world_size, threads)

    def draws(self, work: Work, threads: int = 1) -> Ids | None:
        """The draws of the same rows; None where all are the epoch."""
        return self.order.draws(work.epoch, work.step, work.steps, self._rank, self._world_size, threads)


class Begin:
    """Plans items, in the order of their work: what each of the sources has to read, and the memory for it."""

    def __init__(
        self, cursor: Cursor, readers: Sequence[Reader], first_ids: Ids, budget: Budget, item_bytes: ItemBytes
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
            needs = [self._readers[rows.source].plan(item, rows) for rows in item.parts]
            known = [need.record_bytes for need in needs]
            record_bytes = None if None in known else sum(cast("list[int]", known))
            block_bytes = sum(need.block_bytes for need in needs)
            asked_bytes = self._item_bytes(item.rows, record_bytes)
            item.share = self._budget.admit(work, block_bytes=block_bytes, asked_bytes=asked_bytes)
            for rows in item.parts:
                self._readers[rows.source].open(rows)
            self._budget.trim()
        return item

    def _unplanned(self, work: Work) -> Planned:
        """Where items hold no more than their columns, several threads may find out what to read."""
        share = self._admit(work)
        item = self._item(work)
        item.share = share
        return item

    def _admit(self, work: Work) -> Share:
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
    """The rows of each reader that has some, or that `always` wants to hear of an item."""
    if len(first_ids) == 2:  # one reader
        return [SourceRows(0, None, ids)]
    places, samples, edges = kernels.divide_rows(ids, first_ids)
    numbers = np.flatnonzero((edges[1:] > edges[:-1]) | np.asarray(always)).tolist()
    bounds = edges.tolist()
    parts = [(number, slice(bounds[number], bounds[number + 1])) for number in numbers]
    return [SourceRows(number, places[mine], samples[mine]) for number, mine in parts]


def read_with(readers: Sequence[Reader]) -> Callable[[Planned], Loaded]:
    """A stage that reads what was planned."""

    def read(item: Planned) -> Loaded:
        for rows in item.parts:
            readers[rows.source].read(rows)
        return item.to(Loaded, parts=item.parts)

    return read


def columns_with(readers: Sequence[Reader], sources: Sequence[tuple[int, int]]) -> Callable[[Item], Columned]:
    """A stage that makes columns of what was read; each reader reads the sources [low, high)."""

    def columns(item: Item) -> Columned:
        parts = []
        for rows in cast("Loaded | Planned", item).parts:
            if len(rows.samples):
                reader = readers[rows.source]
                made = reader.columns(item, rows)
                parts.append(Part(sources[rows.source], rows.at, made, dict(reader.spec), rows.ids))
            rows.held = None  # what columns do not look into is free
        return item.to(Columned, parts=parts)

    return columns
