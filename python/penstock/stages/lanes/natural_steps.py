"""The steps of an epoch that ends where the rows of lane stages do: found out as they come, or known ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.cursor import Position, Work
from penstock.order.steps.natural import NaturalBatches
from penstock.stages.lanes.ending_feeds import EndingFeeds
from penstock.stages.lanes.states import LanePlace, Place

#: Of what lanes have left, lane after lane, so many lanes are read ahead.
_LANES_AHEAD = 4


class NaturalSteps:
    """Turns what lane stages give into steps, for one rank.

    order_of: the order of an epoch as far as it is known now. mine: the lanes that the rank has equal parts of. left: by epoch, where lanes stand when the equal parts of their stage are over;
    one rank notes that of a single stage, and several begin there with the lanes of which they take what is left.

    Whoever draws work waits here until the rows of a step are there, or their lanes have ended. It is the thread that takes the rows afterwards, so one at a
    time works with the feeds.
    """

    def __init__(
        self,
        feeds: EndingFeeds,
        order_of: Callable[[int], NaturalBatches],
        ranks: tuple[int, int],
        mine: Sequence[int],
        left: dict[int, dict[int, list[Place]]],
    ) -> None:
        self._feeds, self._order_of, self._ranks, self._left = feeds, order_of, ranks, left
        self._mine = np.array(mine, dtype=np.int64)
        #: Of each stage, the lanes of which rows are taken here.
        self._taken = [np.isin(np.arange(len(feed.made)), self._mine) for feed in feeds.feeds]

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
            yield Work(epoch, step, 1, order=order.of(np.full_like(order.ends, LANE_ROWS)))

    def _even_steps(self, epoch: int, step: int, most: int) -> tuple[NaturalBatches, int]:
        """Of so many steps, how many take equal parts of all lanes; with the order as it is known then."""
        most = min(most, self._order_of(epoch).whole_steps - step)
        if most <= 0:
            return self._order_of(epoch), 0
        wanted = self._of_mine(epoch, step + most)
        self._feeds.ensure(wanted)
        order = self._order_of(epoch)
        if self._feeds.cannot_go_on(np.flatnonzero(self._feeds.lacks(wanted))):
            while most > 1 and self._feeds.lacks(self._of_mine(epoch, step + most)).any():
                most -= 1  # who takes the step behind these gets the error
            return order, most
        return order, max(0, min(most, order.whole_steps - step))

    def _of_mine(self, epoch: int, step: int) -> Ids:
        """How many rows of this rank's lanes steps before one take."""
        order = self._order_of(epoch)
        wanted = np.zeros(order.lanes, dtype=np.int64)
        wanted[self._mine] = step * order.rows_per_lane
        return wanted

    def _lanes_left(self, epoch: int, step: int) -> Ids:
        """From a step on: the lanes of which this rank takes what is left; other ranks ran some of them so far."""
        order, feeds = self._order_of(epoch), self._feeds.feeds
        if self._ranks[1] == 1:
            if step == order.even_steps and order.is_single and not self._feeds.is_broken:
                at = step * order.rows_per_lane
                self._left[epoch] = {lane: [feeds[0].place(lane, at).saved()] for lane in range(order.lanes)}
            return np.arange(order.lanes)
        row = np.full(order.lanes, LANE_ROWS)
        for later in range(step, order.steps_per_epoch):
            lanes, first, _ = order.parts(later, *self._ranks)
            np.minimum.at(row, lanes, first)
        lanes, places = np.flatnonzero(row < LANE_ROWS), self._left.get(epoch, {})
        for number, feed in enumerate(feeds):
            ends, first = order.ends[number], self._feeds.given(row)[number]
            known = {lane: LanePlace.of(one[number]) for lane, one in places.items()}
            feed.enter(lanes, first, known, int(ends.min()) // order.rows_per_lane * order.rows_per_lane)
            self._taken[number][lanes[first[lanes] < ends[lanes]]] = True
        self._feeds.turn_to(lanes, lanes)
        return lanes

    def _left_step(self, epoch: int, step: int, left: Ids) -> NaturalBatches | None:
        """The order, as far as it is known when the rows of a step of what is left are there; None where there is no such step."""
        while True:
            order = self._order_of(epoch)
            if step >= order.steps_per_epoch:
                return None
            lanes, first, count = order.parts(step, *self._ranks)
            wanted = np.zeros(order.lanes, dtype=np.int64)
            np.maximum.at(wanted, lanes, first + count)
            rows = order.rows.lane_rows()
            some = left[(left >= lanes.min(initial=0)) & (rows[left] > order.even_steps * order.rows_per_lane)]
            self._feeds.turn_to(left, np.union1d(lanes, some[:_LANES_AHEAD]))
            self._feeds.ensure(wanted)
            found = self._order_of(epoch)
            is_same = step < found.steps_per_epoch and all(
                np.array_equal(one, other)
                for one, other in zip(found.parts(step, *self._ranks), (lanes, first, count), strict=True)
            )
            if is_same or self._feeds.cannot_go_on(lanes):
                is_end = order.is_cut and step == order.steps_per_epoch - 1
                return replace(order, steps=step + 1) if is_end else order

    def _fails_at_end(self, epoch: int) -> bool:
        """Runs lanes of which this rank took the last row to their ends: one that was counted must not give more than that."""
        order, errors = self._order_of(epoch), list[BaseException]()
        at_end = (order.given >= order.ends) | order.pairs_all
        for number, feed in enumerate(self._feeds.feeds):
            last = np.flatnonzero(self._taken[number] & at_end[number] & self._takes_last(order))
            wanted = np.zeros_like(feed.made)
            wanted[last] = LANE_ROWS
            feed.turn_to(last, last)
            feed.ensure(wanted)
            errors += feed.errors_of(last)
        errors = errors or [*self._feeds.unequal(epoch)]
        for feed in self._feeds.feeds:
            feed.fail_behind(errors)
        return bool(errors)

    def _takes_last(self, order: NaturalBatches) -> npt.NDArray[np.bool_]:
        """The lanes whose last row this rank takes."""
        rows, even = order.rows.lane_rows(), order.even_steps * order.rows_per_lane
        found = np.zeros(order.lanes, dtype=bool)
        found[self._mine] = rows[self._mine] <= even
        for step in range(order.even_steps, order.steps_per_epoch):
            lanes, first, count = order.parts(step, *self._ranks)
            found[lanes[first + count >= rows[lanes]]] = True
        return found
