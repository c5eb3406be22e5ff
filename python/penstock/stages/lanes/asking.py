"""Which rows of its input a lane stage asks for next: what is awaited at first, then more and more ahead of that."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.core.cancel import LOOK_S
from penstock.core.columns.spec import Ids
from penstock.order.protocol import NEVER
from penstock.order.steps.asked import AskedOfLanes
from penstock.runtime.channel import Gate
from penstock.stages.lanes.smaller_pieces import RowsOfLanes
from penstock.stages.lanes.states import LaneProgress

#: Of every so many items in turn that were as large as may be: where they took less time than this each, they are made twice as large.
_LOOK_ITEMS, _SHORT_S = 8, 0.01


class Asking:
    """What one lane stage on one rank asks for.

    lanes: what is known of them. mine: the lanes of which this rank has rows. ended: those of them in which nothing comes any more. group: how many rows
    of each lane the stage takes together, None where each is for itself. issued: the first row of each lane that nobody has asked for yet; taken: how many
    rows of each lane's output were. together: how many rows to ask for at once: as soon as so many are wanted, and at most. again: what is asked for first.
    ends: how many rows each lane's input has, `LANE_ROWS` where that is not known; None for lanes without an end.

    `coming`: what was asked for and did not come yet, in order.
    """

    def __init__(
        self,
        lanes: LaneProgress,
        mine: Ids,
        group: Ids | None,
        *,
        ended: Sequence[int] = (),
        issued: Ids,
        taken: Ids,
        together: tuple[int, int],
        again: Iterable[RowsOfLanes] = (),
        ends: Ids | None = None,
    ) -> None:
        self.lanes, self.issued, self.taken, self._again = lanes, issued, taken, deque(again)
        self._of_rank, self._group, self._ends = mine, group, ends
        #: Lanes of which nothing more is asked for.
        self._done = np.array(ended, dtype=np.int64)
        self._mine = np.setdiff1d(mine, self._done)
        self._begun, self.wanted, self._rows_coming, self._ahead = taken, taken, np.zeros_like(taken), 0
        self.coming: deque[AskedOfLanes] = deque()
        self._rows_at_once, self._together = together
        self._most = self._together
        self._items, self._large, self._since = 0, 0, time.monotonic()
        self._gate = Gate(0)

    def want(self, wanted: Ids) -> None:
        """So many rows of each lane's output are awaited."""
        self.wanted = wanted
        self.look()

    def turn_to(self, of_rank: Ids, first: Ids) -> None:
        """From here on this rank has rows of these lanes, and asks for those of the first of them only."""
        self._of_rank, self._mine = of_rank, np.setdiff1d(first, self._done)
        self.look()

    def wait(self) -> None:
        """Until there is something to ask for; raises `channel.Closed` if nobody wants anything any more."""
        self._gate.wait(self._items, LOOK_S)

    def close(self) -> None:
        """Nobody wants anything any more."""
        self._gate.close()

    def note(self, most_rows: int) -> None:
        """The first of what was coming is there, and among what is known of the lanes. most_rows: more, read at once, would take too much memory."""
        asked = self.coming.popleft()
        self._most = max(1, min(self._together, most_rows))
        self._rows_at_once = min(self._rows_at_once, self._most)
        np.subtract.at(self._rows_coming, asked.lane, asked.count)
        self.look()

    @property
    def came(self) -> int:
        """How many of the items that were asked for are there."""
        return self._items - len(self.coming)

    def forget_before(self, row: Ids) -> None:
        """The consumer has all rows before these, one a lane: the first ones cost what they must, and soon nothing is held back."""
        rows = int((row - self._begun)[self._mine].min()) if len(self._mine) else 0
        self._ahead = max(self._ahead, rows * (rows + 1) // 2)
        self.look()

    def look(self) -> None:
        """Asks for more where what was asked for is not enough: for what is awaited, and the more ahead of that, the more the consumer has taken."""
        if self._again or self._lacking.max(initial=0) > 0:
            self._gate.open_for(self._items + 1)

    @property
    def _lacking(self) -> npt.NDArray[np.float64]:
        """How many more rows should come out of each lane than are expected of what was asked for."""
        ahead = self.lanes.made - self.wanted + self._rows_coming * self._share
        return np.asarray(np.maximum(self._ahead - ahead[self._mine], 0))

    @property
    def _share(self) -> float:
        """How many rows come out for each that is fed, as far as is known; while nothing is, as many as go in."""
        return (self.lanes.total_made + 1) / (self.lanes.total_fed + 1)

    def next_rows(self) -> AskedOfLanes | None:
        """The rows that are to be read next, as one item; None where nothing is to be asked for any more, until somebody wants more."""
        if not self._again and not len(self._mine):
            self._gate.open_for(self._items)
            return None
        if self._again:
            lane, first, count = self._again.popleft()
        else:
            chosen, rows = self._chosen()
            if self._ends is not None:
                rows = np.minimum(rows, self._ends[chosen] - self.issued[chosen])
            self._grow(int(rows.sum()))
            lane, first, count = self._in_groups(chosen, self.issued[chosen], rows)
        return self._issued(lane, first, count)

    def _issued(self, lane: Ids, first: Ids, count: Ids) -> AskedOfLanes:
        np.add.at(self.issued, lane, count)
        np.add.at(self._rows_coming, lane, count)
        later = np.full_like(self.issued, NEVER)
        later[self._of_rank] = self.issued[self._of_rank]
        is_last = None if self._ends is None else first + count == self._ends[lane]
        if is_last is not None and is_last.any():
            self._done = np.union1d(self._done, lane[is_last])
            self._mine = np.setdiff1d(self._mine, self._done)
        self.coming.append(AskedOfLanes(lane=lane, first=first, count=count, later=later, is_last=is_last))
        self._items += 1
        self.look()
        return self.coming[-1]

    def cut(self, ends: Ids) -> AskedOfLanes:
        """What was asked for last, of lanes whose input turned out to have no more rows than these. What was known of ends stays, also where the input runs again and is not there yet."""
        asked = self.coming[-1]
        ends = ends if self._ends is None else np.minimum(ends, self._ends)
        if not (asked.first + asked.count >= ends[asked.lane]).any():
            return asked
        self.coming.pop()
        self._items -= 1
        np.subtract.at(self.issued, asked.lane, asked.count)
        np.subtract.at(self._rows_coming, asked.lane, asked.count)
        self._ends = ends
        # A lane without a row behind what was asked for before has one more group, of none: the stage gives what it holds back.
        first = np.minimum(asked.first, ends[asked.lane])
        count = np.minimum(asked.count, ends[asked.lane] - first)
        _, begins = np.unique(asked.lane, return_index=True)
        keeps = count > 0
        keeps[begins] = True
        return self._issued(asked.lane[keeps], first[keeps], count[keeps])

    def _grow(self, rows: int) -> None:
        """Allows larger items where those that are as large as may be come too fast: each costs more to hand on than to make."""
        self._large = self._large + 1 if 2 * rows >= self._rows_at_once else 0
        if self._large == _LOOK_ITEMS and time.monotonic() - self._since < _LOOK_ITEMS * _SHORT_S:
            self._rows_at_once = min(2 * self._rows_at_once, self._most)
        if self._large in (0, _LOOK_ITEMS):
            self._large, self._since = 0, time.monotonic()

    def _chosen(self) -> tuple[Ids, Ids]:
        """Lanes and how many rows to read of each, so that all have equally many rows that come out and are not awaited."""
        lanes, mine, share = self.lanes, self._mine, self._share
        ahead = (lanes.made - self.wanted)[mine] + (self.issued - lanes.fed)[mine] * share
        group = np.ones(len(mine), dtype=np.int64) if self._group is None else self._group[mine]
        lacking = int((np.ceil(self._lacking / share / group) * group).sum())
        # No more than is lacking, or than half of what was fed before: the first batch costs what it must, and later items may be as large as they like.
        at_once = min(self._rows_at_once, max(1, lacking, lanes.total_fed // 2))
        # All lanes meet at the mean and an equal part beyond it: who is behind gets more, and who is far ahead nothing.
        wanted = (ahead.mean() - ahead) / share + at_once / len(mine)
        groups = np.maximum(np.floor(wanted / group).astype(np.int64), 0)
        least = int(group.min())
        if not groups.any():  # no part is a whole group: those that are furthest behind get one each
            groups[np.argsort(ahead, kind="stable")[: max(1, at_once // least)]] = 1
        most = max(1, 2 * at_once // least)
        if groups.sum() > most:  # who is furthest behind keeps one, since somebody waits for it
            groups = np.maximum(groups * most // groups.sum(), (ahead == ahead.min()))
        chosen = np.flatnonzero(groups)
        return mine[chosen], (groups * group)[chosen]

    def _in_groups(self, lane: Ids, first: Ids, rows: Ids) -> RowsOfLanes:
        """The same rows in the groups that the stage takes."""
        if self._group is None:
            return lane, first, rows
        group = self._group[lane]
        number = np.maximum(-(-rows // group), 1)  # the last one of an epoch may be smaller
        at = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
        size = np.repeat(group, number)
        return (
            np.repeat(lane, number),
            np.repeat(first, number) + at * size,
            np.minimum(size, np.repeat(rows, number) - at * size),
        )
