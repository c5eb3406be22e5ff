"""The rows that a lane stage gives: each lane's without an end, in the order in which they come out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder, Shape

#: Rows of a lane, as many as ever come; and ids that the rows of all lanes take.
LANE_BITS, SPAN_BITS = 36, 52
LANE_ROWS = 1 << LANE_BITS


@dataclass(frozen=True, kw_only=True)
class LaneRows(RowOrder):
    """See `protocol.RowOrder`. Row r of lane l has the id first_id + l · 2³⁶ + r.

    epoch_rows: rows of a lane in an epoch, if it ends: the next one continues from there.
    ends: rows of each lane in an epoch that begins anew, `LANE_ROWS` where that is not known yet (see `order.steps.natural`); None for endless lanes.
    """

    first_id: int
    lanes: int
    rows_per_lane: int
    epoch_rows: int | None = None
    ends: Ids | None = field(default=None, compare=False)

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return Shape(lanes=self.lanes, rows_per_lane=self.rows_per_lane)

    @property
    def words(self) -> str:
        """Which rows come when."""
        return "as they come out of a lane stage"

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        if self.ends is not None:
            return self.ends
        return np.full(self.lanes, self.epoch_rows or LANE_ROWS, dtype=np.int64)

    def given(self, epoch: int, row: Ids) -> Ids:
        """How many rows the stage has given, from the first epoch on, before row `row[lane]` of every lane."""
        return row + epoch * (self.epoch_rows or 0)

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        begin = first + epoch * (self.epoch_rows or 0)
        return np.arange(begin, begin + count, dtype=np.int64) + (self.first_id + (lane << LANE_BITS))

    def rows_of_lanes(self, epoch: int, lane: Ids, first: Ids, count: Ids, *, draws: bool = False) -> Ids:
        """Ids of rows of several lanes; their draw is the epoch."""
        begin = (lane << LANE_BITS) + first + (self.first_id + epoch * (self.epoch_rows or 0))
        at = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        return np.full(len(at), epoch) if draws else np.repeat(begin, count) + at

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps."""
        lane, place = np.divmod(np.arange(*share, dtype=np.int64), self.rows_per_lane)
        steps = np.arange(step, step + len(out) // len(lane), dtype=np.int64) * self.rows_per_lane
        begin = self.first_id + epoch * (self.epoch_rows or 0)
        out[:] = (steps[:, None] + ((lane << LANE_BITS) + place + begin)).ravel()

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Every row is a block."""
        return ids, ids + 1, np.arange(len(ids))

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: at once."""
        return lane, row + 1

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end)."""
        lane, row = np.divmod(ids - self.first_id, LANE_ROWS)
        row = row - epoch * (self.epoch_rows or 0)
        return lane, row, row + 1
