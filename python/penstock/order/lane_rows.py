"""The rows that a lane stage gives: each lane's without an end, in the order in which they come out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.spec import Ids
from penstock.order.protocol import RowOrder, Shape

#: Rows of a lane, as many as ever come; and ids that the rows of all lanes take.
LANE_BITS, SPAN_BITS = 36, 52
LANE_ROWS = 1 << LANE_BITS


@dataclass(frozen=True, kw_only=True)
class LaneRows(RowOrder):
    """See `protocol.RowOrder`. Row r of lane l has the id first_id + l · 2³⁶ + r: there is one epoch."""

    first_id: int
    lanes: int
    rows_per_lane: int

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return Shape(lanes=self.lanes, rows_per_lane=self.rows_per_lane)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return np.full(self.lanes, LANE_ROWS, dtype=np.int64)

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        return np.arange(first, first + count, dtype=np.int64) + (self.first_id + (lane << LANE_BITS))

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Every row is a block."""
        return ids, ids + 1, np.arange(len(ids))

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: at once."""
        return lane, row + 1

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end)."""
        lane, row = np.divmod(ids - self.first_id, LANE_ROWS)
        return lane, row, row + 1
