"""Counts the rows that some lanes of a lane stage give in an epoch, and notes where they stand on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.files.byte_ranges import Progress
from penstock.derived.row_counts import RowCount
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.stages.lanes.all_feeds import LaneFeeds
from penstock.stages.lanes.ending_feed import EndingFeed
from penstock.stages.lanes.states import LanePlace, Place

#: Rows that are counted together at most, and seconds after which what was counted so far is kept.
ROWS_TOGETHER, KEEP_S = 1 << 16, 1.0
#: As often lanes' places are noted in an epoch, at most.
_MOST_MARKS = 128


class CountReport:
    """Tells how many rows were counted of those of all stages."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._total, self._before = progress, 0, 0

    def begin(self, total: int) -> None:
        """An epoch of so many rows begins."""
        self._total, self._before = total, 0

    def at(self, rows: int) -> None:
        """So many rows of a stage were counted."""
        if self._progress is not None:
            self._progress(min(self._before + rows, self._total), self._total)

    def end(self, rows: int) -> None:
        """A stage was counted, of so many rows."""
        self._before += rows


class CountPace:
    """How many steps to count together: so many that they take about half as long as what is counted may stay unkept. rows: how many a step has; most: no more than so many."""

    def __init__(self, rows: int) -> None:
        self.steps, self.most = 1, max(1, ROWS_TOGETHER // rows)
        self._begun = self._kept = time.monotonic()

    def counted(self, keep: Callable[[], None]) -> None:
        """So many steps were counted; keeps what is known by now, if it is time to."""
        now = time.monotonic()
        if now - self._begun < KEEP_S / 4:
            self.steps = min(2 * self.steps, self.most)
        elif now - self._begun > KEEP_S / 2:
            self.steps = max(1, self.steps // 2)
        if now - self._kept > KEEP_S:
            keep()
            self._kept = now
        self._begun = now


@dataclass(frozen=True, kw_only=True)
class LanesCount:
    """What is known of some lanes. step: up to which they were counted, None for all; ends: their rows, where they ended; marks: where lanes stood at rows of theirs, in ascending order."""

    step: int | None
    ends: Mapping[int, int]
    marks: Sequence[tuple[int, Mapping[int, Place]]] = ()

    def left(self, lanes: Sequence[int], row: int, first: Place) -> dict[int, Place]:
        """Where each of them stands at a row that all have: after the last mark before it, with so many more rows used. first: where a lane begins."""
        at, places = next(((at, places) for at, places in reversed(self.marks) if at <= row), (0, {}))
        found = {}
        for lane in lanes:
            place = LanePlace.of(places.get(lane, first))
            found[lane] = place._replace(used=place.used + row - at).saved()
        return found

    def saved(self) -> RowCount:
        """As it is kept."""
        lanes = {str(at): [[lane, place] for lane, place in places.items()] for at, places in self.marks}
        return RowCount(
            step=self.step, ends={str(lane): rows for lane, rows in self.ends.items()}, lanes=lanes, left={}
        )

    @classmethod
    def of(cls, kept: RowCount) -> LanesCount:
        """What was kept."""
        marks = [(int(at), {int(lane): [*place] for lane, place in places}) for at, places in kept.lanes.items()]
        return cls(
            step=kept.step,
            ends={int(lane): rows for lane, rows in kept.ends.items()},
            marks=sorted(marks, key=lambda one: one[0]),
        )


@dataclass
class _Marks:
    """Where lanes stood at rows of theirs: at fewer and fewer, the more there are."""

    found: list[tuple[int, Mapping[int, Place]]]
    every: int = 1
    _passed: int = field(default=0)

    def note(self, row: int, places: Callable[[], Mapping[int, Place]]) -> None:
        """Lanes are at a row."""
        self._passed += 1
        if self._passed % self.every:
            return
        self.found.append((row, places()))
        if len(self.found) > _MOST_MARKS:
            self.found, self.every = self.found[1::2], 2 * self.every


def count_lanes(
    lanes: LaneFeeds,
    mine: Sequence[int],
    epoch: int,
    begun: LanesCount | None,
    keep: Callable[[LanesCount], None],
    report: Callable[[int], None],
) -> LanesCount:
    """Runs an epoch of one stage on some of its lanes, from where counting was interrupted. report: is called with the rows of the data that are used up."""
    feed, rows_per_lane = cast("EndingFeed", lanes.feeds[0]), lanes.order_of(epoch).rows_per_lane
    marks, row = _Marks([*begun.marks] if begun else []), _begin(feed, epoch, begun)
    pace, of_mine = CountPace(len(mine) * rows_per_lane), np.array(mine, dtype=np.int64)

    def so_far(*, is_all: bool = False) -> LanesCount:
        ends = {lane: int(feed.ends[lane]) for lane in mine if feed.ends[lane] < LANE_ROWS}
        return LanesCount(step=None if is_all else row, ends=ends, marks=[*marks.found])

    try:
        while True:
            wanted = np.zeros_like(feed.made)
            wanted[of_mine] = row + pace.steps * rows_per_lane
            feed.ensure(wanted)
            for error in feed.errors_of(of_mine):
                raise error
            feed.pass_over(np.minimum(wanted, feed.made))
            report(feed.fed_rows)
            row += pace.steps * rows_per_lane
            if (feed.ends[of_mine] <= row).all():
                return so_far(is_all=True)
            if (feed.made[of_mine] >= row).all():
                marks.note(row, partial(_places, feed, mine, row))
            pace.counted(lambda: keep(so_far()))
    except BaseException:
        if marks.found:
            keep(so_far())
        raise


def _places(feed: EndingFeed, lanes: Sequence[int], row: int) -> dict[int, Place]:
    return {lane: feed.place(lane, row).saved() for lane in lanes}


def _begin(feed: EndingFeed, epoch: int, begun: LanesCount | None) -> int:
    """Begins where lanes stood last, the first row where that is not known; which row of each that is."""
    at, places = begun.marks[-1] if begun is not None and begun.marks else (0, {})
    row: Ids = np.full_like(feed.made, at)
    feed.begin({lane: LanePlace.of(place) for lane, place in places.items()}, row, epoch=epoch)
    return at
