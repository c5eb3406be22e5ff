"""Finds an item's rows in caches before it is planned: what is kept need not be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.steps.cursor import Cursor
from penstock.runtime.budget import Budget, ItemBytes
from penstock.runtime.stage import SourceRows
from penstock.stages.cached.caches import CachedRows
from penstock.stages.cached.reader import CacheReader
from penstock.stages.read.item_planner import ItemPlanner, split
from penstock.stages.read.reader import AnyReader


def unkept(whole: Ids, row: Ids | None, rows: int, caches: Sequence[CachedRows]) -> Ids:
    """The ids of rows that must be read, of `rows` rows and those that follow them (see `order.rows.zipped`)."""
    place = np.arange(rows) if row is None else row
    for cached in caches:
        hits = _hits(cached, whole, threads=1)
        if len(hits):
            stay = ~_removed(cached, whole, place, hits, rows)
            whole, place = whole[stay], place[stay]
    return whole


class CachedBegin(ItemPlanner):
    """See `read.item_planner.ItemPlanner`. Of `readers` the last read caches, the uppermost first; the others get the rows that no cache has."""

    def __init__(
        self,
        cursor: Cursor,
        readers: Sequence[AnyReader],
        caches: Sequence[CacheReader],
        first_ids: Ids,
        budget: Budget,
        item_bytes: ItemBytes,
    ) -> None:
        super().__init__(cursor, [*readers, *caches], first_ids, budget, item_bytes)
        self._sources, self._caches = readers, caches

    def _parts(self, ids: Ids) -> list[SourceRows]:
        whole, row = self._cursor.order.rows.with_followers(ids)
        place = np.arange(len(ids)) if row is None else row
        left, parts = np.arange(len(whole)), list[SourceRows]()
        for number, reader in enumerate(self._caches, len(self._sources)):
            hits = _hits(reader.cached, whole[left], self._budget.cpus)
            reader.cached.rows.hits += len(hits)
            if not len(hits):
                continue
            found = left[hits]
            parts.append(self._rows(number, whole[found] - reader.cached.ids[0], found, whole, place, len(ids)))
            left = left[~_removed(reader.cached, whole[left], place[left], hits, len(ids))]
        return [*self._unkept(whole, left, place, len(ids)), *parts]

    def _unkept(self, whole: Ids, left: Ids, place: Ids, rows: int) -> list[SourceRows]:
        always = [reader.in_order for reader in self._sources]
        parts = split(whole[left], self._first_ids, always)
        made = []
        for part in parts:
            mine = left if part.at is None else left[part.at]
            if len(mine) or always[part.source]:
                made.append(self._rows(part.source, part.samples, mine, whole, place, rows))
        return made

    @staticmethod
    def _rows(source: int, samples: Ids, mine: Ids, whole: Ids, place: Ids, rows: int) -> SourceRows:
        """Rows of a reader. mine: which of `whole`, of which those beyond the item's follow these."""
        ids: Any = whole[mine] if len(mine) and mine[0] >= rows else None
        return SourceRows(source, None if len(mine) == rows else place[mine], samples, None, ids)


def _hits(cached: CachedRows, ids: Ids, threads: int) -> Ids:
    """Which of some rows a cache has."""
    mine = np.flatnonzero(cached.leads(ids))
    return mine[cached.rows.has(ids[mine] - cached.ids[0], threads)]


def _removed(cached: CachedRows, ids: Ids, place: Ids, hits: Ids, rows: int) -> Any:
    """Which rows need not be read: those that a cache has, and what follows them there."""
    gone = np.zeros(len(ids), dtype=bool)
    if not cached.followers:
        gone[hits] = True
        return gone
    is_hit = np.zeros(rows, dtype=bool)
    is_hit[place[hits]] = True
    return cached.holds(ids) & is_hit[place]
