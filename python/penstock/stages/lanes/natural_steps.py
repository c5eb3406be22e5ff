"""The steps of an epoch that ends where the rows of a lane stage do: found out as they come, or known ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.cursor import Position, Work
from penstock.order.steps.natural import NaturalBatches
from penstock.stages.lanes.ending_feed import EndingFeed
from penstock.stages.lanes.states import LanePlace, Place

#: Of what lanes have left, lane after lane, so many lanes are read ahead.
_LANES_AHEAD = 4


class NaturalSteps:
    """Turns what a lane stage gives into steps, for one rank.

    order_of: the order of an epoch as far as it is known now. mine: the lanes that the rank has equal parts of. left: by epoch, where lanes stand when equal parts are over; one rank notes that, and several begin there with the lanes of which they take what is left.

    Whoever draws work waits here until the rows of a step are there, or their lanes have ended. It is the thread that takes the rows afterwards, so one at a
    time works with the feed.
    """

    def __init__(
        self,
        feed: EndingFeed,
        order_of: Callable[[int], NaturalBatches],
        ranks: tuple[int, int],
        mine: Sequence[int],
        left: dict[int, dict[int, list[Place]]],
    ) -> None:
        self._feed, self._order_of, self._ranks, self._left = feed, order_of, ranks, left
        self._mine = np.array(mine, dtype=np.int64)

    def works(self, start: Position, steps_per_work: int, taken: Callable[[], int] | None) -> Iterator[Work]:
        """Work from a step on, to the end of its epoch; for `taken` see `cursor.works`."""
        epoch, step = start.epoch, start.step
        while True:
            most = steps_per_work if taken is None else min(steps_per_work, 1 << taken().bit_length())
            order, steps = self._even_steps(epoch, step, most)
            if not steps:
                break
            yield Work(epoch, step, steps, order=order)
            step += steps
        left = self._lanes_left(epoch, step)
        while (found := self._left_step(epoch, step, left)) is not None:
            yield Work(epoch, step, 1, order=found)
            step += 1
        if self._fails_at_end(epoch):  # whoever awaits another step gets the error
            order = self._order_of(epoch)
            yield Work(epoch, step, 1, order=order.of(np.full(order.lanes, LANE_ROWS)))

    def _even_steps(self, epoch: int, step: int, most: int) -> tuple[NaturalBatches, int]:
        """Of so many steps, how many take equal parts of all lanes; with the order as it is known then."""
        rows_per_lane, feed = self._order_of(epoch).rows_per_lane, self._feed
        most = min(most, self._order_of(epoch).whole_steps - step)
        if most <= 0:
            return self._order_of(epoch), 0
        wanted = np.zeros_like(feed.made)
        wanted[self._mine] = (step + most) * rows_per_lane
        feed.ensure(wanted)
        order, lacking = self._order_of(epoch), feed.made[self._mine] < (step + most) * rows_per_lane
        if feed.is_broken or any(feed.has_failed(lane) for lane in self._mine[lacking].tolist()):
            ready = int(feed.made[self._mine].min()) // rows_per_lane - step
            return order, max(1, min(most, ready))  # who takes the step behind these gets the error
        return order, max(0, min(most, order.whole_steps - step))

    def _lanes_left(self, epoch: int, step: int) -> Ids:
        """From a step on: the lanes of which this rank takes what is left; other ranks ran some of them so far."""
        order, feed = self._order_of(epoch), self._feed
        even = order.even_steps * order.rows_per_lane
        if self._ranks[1] == 1:
            if step == order.even_steps and not feed.is_broken:
                self._left[epoch] = {lane: [feed.place(lane, even).saved()] for lane in range(order.lanes)}
            return np.arange(order.lanes)
        row = np.full(order.lanes, LANE_ROWS)
        for later in range(step, order.steps_per_epoch):
            lanes, first, _ = order.parts(later, *self._ranks)
            np.minimum.at(row, lanes, first)
        lanes = np.flatnonzero(row < LANE_ROWS)
        feed.enter(lanes, row, {lane: LanePlace.of(one) for lane, (one,) in self._left.get(epoch, {}).items()}, even)
        feed.turn_to(lanes, lanes)
        return lanes

    def _left_step(self, epoch: int, step: int, left: Ids) -> NaturalBatches | None:
        """The order, as far as it is known when the rows of a step of what is left are there; None where there is no such step."""
        feed = self._feed
        while True:
            order = self._order_of(epoch)
            if step >= order.steps_per_epoch:
                return None
            ends = order.rows.lane_rows()
            lanes, first, count = order.parts(step, *self._ranks)
            wanted = np.zeros_like(ends)
            np.maximum.at(wanted, lanes, first + count)
            some = left[(left >= lanes.min(initial=0)) & (ends[left] > order.even_steps * order.rows_per_lane)]
            feed.turn_to(left, np.union1d(lanes, some[:_LANES_AHEAD]))
            feed.ensure(wanted)
            is_same = (self._order_of(epoch).rows.lane_rows()[lanes] == ends[lanes]).all()
            if is_same or feed.is_broken or any(map(feed.has_failed, lanes.tolist())):
                is_end = order.is_cut and step == order.steps_per_epoch - 1
                return replace(order, steps=step + 1) if is_end else order

    def _fails_at_end(self, epoch: int) -> bool:
        """Runs lanes of which this rank took the last row to their ends: one that was counted must not give more than that."""
        order, feed = self._order_of(epoch), self._feed
        mine = np.array(sorted(self._mine_at_end(order)), dtype=np.int64)
        wanted = np.zeros_like(feed.made)
        wanted[mine] = LANE_ROWS
        feed.turn_to(mine, mine)
        feed.ensure(wanted)
        return feed.finish(mine)

    def _mine_at_end(self, order: NaturalBatches) -> set[int]:
        """The lanes whose last row this rank takes."""
        if order.is_cut:
            return set()
        ends, even = order.rows.lane_rows(), order.even_steps * order.rows_per_lane
        found = set(self._mine[ends[self._mine] <= even].tolist())
        for step in range(order.even_steps, order.steps_per_epoch):
            lanes, first, count = order.parts(step, *self._ranks)
            found |= set(lanes[first + count >= ends[lanes]].tolist())
        return found
