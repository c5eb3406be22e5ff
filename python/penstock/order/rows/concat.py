"""Orders one after another: in every lane the rows of the first, then those of the second, and so on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.rows.several_inputs import Composed


@dataclass(frozen=True, kw_only=True)
class ConcatRows(Composed):
    """See `several_inputs.Composed`. keeps_lanes: whether each lane is that lane of all inputs; else lanes are joined so that they stay equally long."""

    keeps_lanes: bool = False

    @cached_property
    def _lanes(self) -> tuple[Ids, Ids]:
        """Which lane of each input stands in every lane, and the row at which it begins there; behind the last, the lane's end.

        The lane with most rows follows where there are fewest so far, so that lanes stay equally long. int64 (inputs, lanes) and
        (inputs + 1, lanes).
        """
        if self.keeps_lanes:
            rows = np.stack([order.lane_rows() for order in self.inputs])
            edges = np.concatenate([np.zeros_like(rows[:1]), np.cumsum(rows, axis=0)])
            return np.broadcast_to(np.arange(self.shape.lanes), rows.shape), edges
        lanes, begins = [], [np.zeros(self.shape.lanes, dtype=np.int64)]
        for order in self.inputs:
            rows = order.lane_rows()
            lane = np.empty_like(rows)
            lane[np.argsort(begins[-1], kind="stable")] = np.argsort(-rows, kind="stable")
            lanes.append(lane)
            begins.append(begins[-1] + rows[lane])
        return np.stack(lanes), np.stack(begins)

    def given(self, number: int, row: Ids) -> Ids:
        """How many rows an input has given before row `row[lane]` of every lane, where it keeps its lanes."""
        begin, end = self._lanes[1][number : number + 2]
        return np.asarray(np.clip(row - begin, 0, end - begin))

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return np.asarray(self._lanes[1][-1])

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        parts = [self.inputs[number].ids(epoch, *rows) for number, *rows in self._parts(lane, first, count)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    @property
    def has_copies(self) -> bool:
        """Whether rows of an input come several times."""
        return any(order.has_copies for order in self.inputs)

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epochs in which rows are drawn."""
        parts = [self.inputs[number].draws(epoch, *rows) for number, *rows in self._parts(lane, first, count)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def _parts(self, lane: int, first: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Where rows [first, first + count) of a lane come from: the input, its lane, the first row there, how many."""
        lanes, edges = (of_lane[:, lane].tolist() for of_lane in self._lanes)
        if not edges[-1]:
            yield 0, lanes[0], first, count  # an empty lane borrows, only ever as padding
            return
        while count:
            first %= edges[-1]
            number = bisect_right(edges, first) - 1
            rows = min(count, edges[number + 1] - first)
            yield number, lanes[number], first - edges[number], rows
            first, count = first + rows, count - rows

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: the lane and its row."""
        lanes, edges = self._lanes
        found, end = lane.copy(), row + 1
        for number, mine in self.by_input(last):
            begins = edges[number]
            place = row[mine] - begins[lane[mine]]
            inner, stop = self.inputs[number].until(epoch, lanes[number][lane[mine]], place, last[mine])
            found[mine] = np.where(inner < 0, -1, np.argsort(lanes[number])[inner])
            end[mine] = stop + np.where(inner < 0, begins.max(), begins[found[mine]])
        return found, end

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end)."""
        lanes, edges = self._lanes
        lane, first, end = (np.zeros(len(ids), dtype=np.int64) for _ in range(3))
        for number, mine in self.by_input(ids):
            behind = np.empty_like(after)
            behind[lanes[number]] = np.maximum(after - edges[number], 0)
            inner, begin, stop = self.inputs[number].windows(epoch, ids[mine], behind)
            all_lanes, begins = inner < 0, edges[number]
            lane[mine] = np.where(all_lanes, -1, np.argsort(lanes[number])[inner])
            at, is_there = begins[lane[mine]], begin < stop
            first[mine] = begin + np.where(is_there, np.where(all_lanes, begins.min(), at), 0)
            end[mine] = stop + np.where(is_there, np.where(all_lanes, begins.max(), at), 0)
        return lane, first, end
