"""Rows that come out of a lane stage."""

from __future__ import annotations

import numpy as np

from penstock.core.spec import Columns, Spec
from penstock.order.lane_rows import LANE_ROWS
from penstock.runtime.stage import Item, SourceRows
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.read.reader import Needs, Reading


class Lanes:
    """See `read.reader.Reader`. Rows are taken while items begin, in the order of the work."""

    in_order = plans = True
    threads = 1
    kind = "gather"

    def __init__(self, reading: Reading, feed: LaneFeed) -> None:
        self._reading, self._feed = reading, feed

    @property
    def spec(self) -> Spec:
        """The columns that came."""
        return self._feed.spec

    def plan(self, item: Item, rows: SourceRows) -> Needs:
        """Nothing is needed: what came out of the stage is held already."""
        return Needs()

    def open(self, rows: SourceRows) -> None:
        """Takes the rows."""
        if len(rows.samples):
            lane, row = np.divmod(rows.samples, LANE_ROWS)
            rows.held = self._feed.take(lane, row, self._reading.allocate)

    def read(self, rows: SourceRows) -> None:
        """All is there."""

    def columns(self, item: Item, rows: SourceRows) -> Columns:
        """The rows' columns."""
        held: Columns = rows.held
        return held
