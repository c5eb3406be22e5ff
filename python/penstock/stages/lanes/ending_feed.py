"""A lane stage whose epochs end where the rows of its lanes do: it finds out where that is, and goes on with lanes that other ranks ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.asked import AskedOfLanes
from penstock.order.steps.demand import DemandOrder
from penstock.stages.lanes.asking import Asking
from penstock.stages.lanes.ending_feeds import EndingFeeds
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.states import LanePlace


class EndingFeed(LaneFeed):
    """See `feed.LaneFeed`. `ensure` waits until rows came, or it is known that none will; whoever takes rows asks that first, in the same thread."""

    @cached_property
    def _inputs(self) -> EndingFeeds:
        """The stages below, whose epochs end as well."""
        return EndingFeeds(cast("tuple[EndingFeed, ...]", self.below), self.order.rows)

    @property
    def _joins(self) -> bool:
        """Whether rows of several stages below come one after another, or side by side."""
        return len(self.below) > 1

    @property
    def _input_ends(self) -> Ids | None:
        return np.minimum(self._inputs.rows.lane_rows(), LANE_ROWS) if self.below else super()._input_ends

    @property
    def _input_order(self) -> DemandOrder | None:
        return replace(self.order, rows=self._inputs.rows) if self._joins else None

    def _given(self, row: Ids) -> list[Ids]:
        return self._inputs.given(row) if self.below else []

    def _begin_inputs(self, places: Mapping[int, LanePlace], issued: Ids, epoch: int) -> None:
        ends = np.full((len(self.below), self.order.lanes), LANE_ROWS)
        for lane, place in places.items():
            ends[: len(place.ends), lane] = place.ends[: len(ends)]
        for feed in self._inputs.feeds:  # nothing is known of another epoch
            feed.begin({}, np.zeros_like(issued), epoch=epoch)
        for feed, known in zip(self._inputs.feeds, ends, strict=True):
            feed.know(known)
        rows = self._given(issued)
        for number, feed in enumerate(self._inputs.feeds):
            inner = {lane: place.below[number] for lane, place in places.items() if number < len(place.below)}
            feed.begin(inner, rows[number], epoch=epoch, ends=ends[number])

    def place(self, lane: int, row: int) -> LanePlace:
        """How to continue with an output row of a lane; of several stages below, with the ends of those that are behind it."""
        here = super().place(lane, row)
        if not self._joins:
            return here
        ends, given = self._inputs.ends[:, lane], self._given(np.full(self.order.lanes, here.row, dtype=np.int64))
        is_over = [rows[lane] >= end for rows, end in zip(given, ends.tolist(), strict=True)]
        return here._replace(ends=tuple(np.where(is_over, ends, LANE_ROWS).tolist()))

    @property
    def ends(self) -> Ids:
        """How many rows each lane gives in this epoch, `LANE_ROWS` where that is not known."""
        return self._ends.known

    def know(self, ends: Ids) -> None:
        """Lanes give so many rows in this epoch."""
        self._ends.know(ends)

    def first_place(self) -> LanePlace:
        """Where each lane begins an epoch, if epochs begin anew."""
        return LanePlace(0, 0, None, tuple(feed.first_place() for feed in self._inputs.feeds))

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

    def errors_of(self, lanes: Ids) -> list[BaseException]:
        """What these lanes failed by."""
        return [*self._broken, *(self._failed[lane] for lane in lanes.tolist() if lane in self._failed)]

    def fail_behind(self, errors: Sequence[BaseException]) -> None:
        """All rows of an epoch were taken: whoever awaits more gets an error, if there is one."""
        self._failed_behind = [*errors]

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
            self._inputs.turn_to(self._of_rank, self._of_rank)

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
        self._go_on_below(better)
        self._restart(self._asking.taken, self._asking.wanted)

    def _go_on_below(self, better: Mapping[int, LanePlace]) -> None:
        for number, feed in enumerate(self._inputs.feeds):
            for lane, place in better.items():
                if place.ends:
                    feed.know(np.where(np.arange(self.order.lanes) == lane, place.ends[number], LANE_ROWS))
        for number, feed in enumerate(self._inputs.feeds):
            for lane, place in better.items():
                at = self._given(np.full(self.order.lanes, place.row, dtype=np.int64))[number]
                feed._go_on_at({lane: place.below[number]}, int(at[lane]))  # noqa: SLF001  # its own class

    def pass_over(self, row: Ids) -> None:
        """Nobody takes the rows before these, one a lane; raises what they failed by."""
        self._await(row)
        self._pass(row)
        self.forget_before(row)

    def _as_it_came(self, asking: Asking, asked: AskedOfLanes) -> AskedOfLanes:
        """What was asked for, as far as the stage below has given it: some lanes may have ended there."""
        if not self.below:
            return asked
        wanted = np.zeros(self.order.lanes, dtype=np.int64)
        np.maximum.at(wanted, asked.lane, asked.first + asked.count)
        self._inputs.ensure(wanted)
        with self._lock:
            return asking.cut(self._inputs.rows.lane_rows())
