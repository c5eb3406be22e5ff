"""A part of an order: the same rows of every epoch's order, cut out of all lanes alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.lanes import deal
from penstock.order.protocol import RowOrder, Shape


@dataclass(frozen=True, kw_only=True)
class Slice(RowOrder):
    """See `protocol.RowOrder`. Rows [first, first + count) of an order: of its first `first` rows, and of those that are taken, each lane gives its part."""

    input: RowOrder
    first: int
    count: int

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return self.input.shape

    @cached_property
    def _cut(self) -> tuple[Ids, Ids]:
        """Of every lane the first row, and how many."""
        skipped = deal(self.first, self.input.lane_rows())
        return skipped, deal(self.count, self.input.lane_rows() - skipped)

    def block_rows_at(self, row_id: int) -> int:
        """How many rows are read together, as the input says."""
        return self.input.block_rows_at(row_id)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return self._cut[1]

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        return self._joined(self.input.ids, epoch, lane, first, count)

    @property
    def has_draws(self) -> bool:
        """As the input's."""
        return self.input.has_draws

    @property
    def has_copies(self) -> bool:
        """As the input."""
        return self.input.has_copies

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epochs in which rows are drawn."""
        return self._joined(self.input.draws, epoch, lane, first, count)

    def _joined(self, of: Callable[[int, int, int, int], Ids], epoch: int, lane: int, first: int, count: int) -> Ids:
        """What the input has of rows [first, first + count) of a lane."""
        begin, rows = (int(of_lane[lane]) for of_lane in self._cut)
        if not rows:
            return of(epoch, lane, begin + first, count)  # an empty lane borrows, only ever as padding
        parts = [np.empty(0, dtype=np.int64)]
        while count:
            first %= rows
            unbroken = min(count, rows - first)
            parts.append(of(epoch, lane, begin + first, unbroken))
            first, count = first + unbroken, count - unbroken
        return np.concatenate(parts)

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row."""
        return self.input.blocks(epoch, ids)

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: the lane and its row."""
        begin, rows = self._cut
        lane, end = self.input.until(epoch, lane, begin[lane] + row, last)
        return lane, np.where(lane < 0, end - begin.min(), np.minimum(end - begin[lane], rows[lane]))

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end), as far as these are taken."""
        lane, first, end = self.input.windows(epoch, ids, after + self._cut[0])
        begin, rows = self._cut
        all_lanes = lane < 0  # then from the first lane that may come to them to the last
        low = first - np.where(all_lanes, begin.max(), begin[lane])
        high = np.minimum(
            end - np.where(all_lanes, begin.min(), begin[lane]), np.where(all_lanes, rows.max(), rows[lane])
        )
        low = np.maximum(low, 0)
        return lane, low, np.maximum(low, high)
