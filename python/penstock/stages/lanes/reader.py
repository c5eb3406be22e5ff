"""Rows that come out of a lane stage."""

from __future__ import annotations

import numpy as np

from penstock.batch.merge import Allocate
from penstock.core.columns.spec import Columns, Spec
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.runtime.stage import Item, SourceRows
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.read.reader import Needs


class LaneReader:
    """See `read.reader.Reader`. Rows are taken while items begin, in the order of the work."""

    in_order = plans = True
    threads = 1
    kind = "gather"

    def __init__(self, feed: LaneFeed, allocate: Allocate) -> None:
        self._feed, self._allocate = feed, allocate

    @property
    def spec(self) -> Spec:
        """The columns that came."""
        return self._feed.spec

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, None]:
        """Nothing is needed: what came out of the stage is counted already."""
        return Needs(), None

    def open(self, item: Item, rows: SourceRows, plan: None) -> Columns:
        """Takes the rows: waits, in the item's turn, until what is below has made them. Items behind it would need later rows of the same lanes."""
        if not len(rows.samples):
            return {}
        lane, row = np.divmod(rows.samples, LANE_ROWS)
        return self._feed.take(lane, row, self._allocate)

    def read(self, rows: SourceRows, opened: Columns) -> Columns:
        """All is there."""
        return opened

    def columns(self, item: Item, rows: SourceRows, held: Columns) -> Columns:
        """The rows' columns."""
        return held
