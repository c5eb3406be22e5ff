"""All lane stages of a plan on one rank: where they stand at a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Position
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.states import LanePlace, Place, rows_given


class LaneFeeds:
    """The topmost lane stages of a plan, each of which knows those below. mine: the lanes of which this rank has rows."""

    def __init__(self, feeds: Sequence[LaneFeed], order: BatchOrder, mine: Sequence[int]) -> None:
        self.feeds, self._order, self.mine = tuple(feeds), order, list(mine)
        self._begun = Position()

    def __bool__(self) -> bool:
        return bool(self.feeds)

    def begin(self, position: Position, places: Mapping[int, list[Place]]) -> None:
        """Begins at a step, from a place for each stage in every lane; from the first row on where there is none."""
        self._begun, rows = position, self._rows(position)
        for number, feed in enumerate(self.feeds):
            mine = {lane: LanePlace.of(stages[number]) for lane, stages in places.items() if number < len(stages)}
            feed.begin(mine, rows[feed.first_id])

    def move(self, position: Position) -> None:
        """Moves every stage to another step; call while nothing runs. The rest of an epoch that was broken off comes in the next one."""
        if self.feeds and position != self._begun:
            self.begin(position, self.places(self._begun))

    def places(self, position: Position) -> dict[int, list[Place]]:
        """How to continue at a step that was begun, or that follows the last one that was."""
        rows = self._rows(position) if self.feeds else {}
        return {
            lane: [feed.place(lane, int(rows[feed.first_id][lane])).saved() for feed in self.feeds]
            for lane in self.mine
        }

    def forget_before(self, position: Position) -> None:
        """Nobody asks any more how to continue at a step before this one."""
        if not self.feeds:
            return
        rows = self._rows(position)
        for feed in self.feeds:
            feed.forget_before(rows[feed.first_id])

    def close(self) -> None:
        """Stops what runs."""
        for feed in self.feeds:
            feed.close()

    def _rows(self, position: Position) -> dict[int, Ids]:
        """The next row of each stage's output in every lane."""
        row = np.full(self._order.lanes, position.step * self._order.rows_per_lane, dtype=np.int64)
        return rows_given(self._order.rows, position.epoch, row)
