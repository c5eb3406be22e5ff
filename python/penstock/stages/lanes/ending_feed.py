"""A lane stage whose epochs end where the rows of its lanes do: it finds out where that is, and goes on with lanes that other ranks ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.steps.asked import AskedOfLanes
from penstock.stages.lanes.asking import Asking
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.states import LanePlace


class EndingFeed(LaneFeed):
    """See `feed.LaneFeed`. `ensure` waits until rows came, or it is known that none will; whoever takes rows asks that first, in the same thread."""

    @property
    def _inputs(self) -> tuple[EndingFeed, ...]:
        """The stages below, whose epochs end as well."""
        return cast("tuple[EndingFeed, ...]", self.below)

    @property
    def ends(self) -> Ids:
        """How many rows each lane gives in this epoch, `LANE_ROWS` where that is not known."""
        return self._ends.known

    def know(self, ends: Ids) -> None:
        """Lanes give so many rows in this epoch."""
        self._ends.know(ends)

    def first_place(self) -> LanePlace:
        """Where each lane begins an epoch, if epochs begin anew."""
        return LanePlace(0, 0, None, tuple(feed.first_place() for feed in self._inputs))

    def ensure(self, wanted: Ids) -> None:
        """Waits until each lane has given so many rows, has ended, or cannot go on: `take` raises why, when it comes to that row."""
        if self._broken:
            return
        with self._lock:
            self._asking.want(np.maximum(wanted, self._asking.taken))
        try:
            while (lacking := np.flatnonzero((self._lanes.made < wanted) & ~self._ends.has_ended)).size:
                if any(one in self._failed for one in lacking.tolist()):
                    return
                self._feed_next()
        except BaseException as error:
            self._broken.append(error)

    @property
    def is_broken(self) -> bool:
        """Whether `ensure` met an error that is not of a lane."""
        return bool(self._broken)

    def finish(self, lanes: Ids) -> bool:
        """All rows of an epoch were taken; whether one of these lanes failed behind them, which whoever awaits more is told."""
        self._failed_behind = [*self._broken, *(self._failed[lane] for lane in lanes.tolist() if lane in self._failed)]
        return bool(self._failed_behind)

    def has_failed(self, lane: int) -> bool:
        """Whether a lane cannot go on."""
        return lane in self._failed

    @property
    def made(self) -> Ids:
        """How many rows each lane has given."""
        return self._lanes.made

    @property
    def fed_rows(self) -> int:
        """How many rows of its input are used up in this epoch."""
        return int(self._lanes.fed.sum())

    def turn_to(self, lanes: Ids, first: Ids) -> None:
        """Asks for rows of the first of these lanes only, and after them of all of these."""
        with self._lock:
            self._of_rank = np.union1d(self._of_rank, lanes)
            self._asking.turn_to(self._of_rank, first)
            for feed in self._inputs:
                feed.turn_to(self._of_rank, self._of_rank)

    def enter(self, lanes: Ids, row: Ids, places: Mapping[int, LanePlace], at: int) -> None:
        """Goes on with lanes that others ran so far, each from a row that is wanted there. places: where some stand at row `at`, if that is known."""
        new = np.setdiff1d(lanes, self._of_rank).tolist()
        self._go_on_at({lane: places[lane] for lane in new if lane in places and at <= row[lane]}, at)
        with self._lock:
            self._lanes.leave_out(np.array(new, dtype=np.int64), row)

    def _go_on_at(self, places: Mapping[int, LanePlace], at: int) -> None:
        """Lanes of which nothing runs go on from these places, at row `at`, unless they are further already."""
        with self._lock:
            better = {lane: place for lane, place in places.items() if place.row > self._lanes.fed[lane]}
            if not better:
                return
            self._asking.close()
            run, self.run = self.run, None
        if run is not None:
            run.close()
        with self._lock:
            for lane, place in better.items():
                self._lanes.set(lane, place, at)
        for number, feed in enumerate(self._inputs):
            for lane, place in better.items():
                feed._go_on_at({lane: place.below[number]}, place.row)  # noqa: SLF001  # its own class
        self._restart(self._asking.taken, self._asking.wanted)

    def pass_over(self, row: Ids) -> None:
        """Nobody takes the rows before these, one a lane; raises what they failed by."""
        self._await(row)
        self._pass(row)
        self.forget_before(row)

    def _as_it_came(self, asking: Asking, asked: AskedOfLanes) -> AskedOfLanes:
        """What was asked for, as far as the stage below has given it: some lanes may have ended there."""
        if not self._inputs:
            return asked
        (below,) = self._inputs
        wanted = np.zeros(self.order.lanes, dtype=np.int64)
        np.maximum.at(wanted, asked.lane, asked.first + asked.count)
        below.ensure(wanted)
        with self._lock:
            return asking.cut(below._ends.found(below.made))  # noqa: SLF001  # its own class
