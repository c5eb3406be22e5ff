"""Several epochs of an order as one: every copy of a row is drawn anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder, Shape


@dataclass(frozen=True, kw_only=True)
class RepeatedRows(RowOrder):
    """See `protocol.RowOrder`. Epoch e is the epochs e · times … e · times + times - 1 of the input."""

    input: RowOrder
    times: int

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return self.input.shape

    def block_rows_at(self, row_id: int) -> int:
        """How many rows are read together, as the input says."""
        return self.input.block_rows_at(row_id)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return self.input.lane_rows() * self.times

    def _parts(self, epoch: int, lane: int, first: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Where rows of a lane come from: the input's epoch, lane, first row and number of rows."""
        rows = int(self.input.lane_rows()[lane])
        if not rows:
            yield epoch * self.times, lane, first, count  # an empty lane borrows, only ever as padding
            return
        while count:
            copy, place = divmod(first % (rows * self.times), rows)
            unbroken = min(count, rows - place)
            yield epoch * self.times + copy, lane, place, unbroken
            first, count = first + unbroken, count - unbroken

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        parts = [self.input.ids(*part) for part in self._parts(epoch, lane, first, count)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    @property
    def has_draws(self) -> bool:
        """Copies are."""
        return True

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epochs in which rows are drawn."""
        parts = [self.input.draws(*part) for part in self._parts(epoch, lane, first, count)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row."""
        return self.input.blocks(epoch, ids)

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: the lane and its row."""
        rows = self.input.lane_rows()
        copy, found, end = row // np.maximum(rows[lane], 1), lane.copy(), row + 1
        for one in np.flatnonzero(np.bincount(copy)).tolist():
            mine = np.flatnonzero(copy == one)
            begin = one * rows
            inner = epoch * self.times + one
            found[mine], stop = self.input.until(inner, lane[mine], row[mine] - begin[lane[mine]], last[mine])
            end[mine] = stop + np.where(found[mine] < 0, begin.max(), begin[found[mine]])
        return found, end

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end), of the first copy that ends behind a row of every lane."""
        rows = self.input.lane_rows()
        copies = after // np.maximum(rows, 1)
        lane, first, end = (np.zeros(len(ids), dtype=np.int64) for _ in range(3))
        left = np.arange(len(ids))
        for copy in range(int(copies.min()), self.times):
            begin = copy * rows
            inner, low, high = self.input.windows(epoch * self.times + copy, ids[left], np.maximum(after - begin, 0))
            all_lanes, is_there = inner < 0, low < high
            low = low + np.where(all_lanes, int(begin.min()), begin[inner])
            high = high + np.where(all_lanes, int(begin.max()), begin[inner])
            comes = is_there & (high > np.where(all_lanes, int(after.min()), after[inner]))
            lane[left[comes]], first[left[comes]], end[left[comes]] = inner[comes], low[comes], high[comes]
            left = left[~comes]
            if not len(left) or copy > int(copies.max()):
                break
        return lane, first, end
