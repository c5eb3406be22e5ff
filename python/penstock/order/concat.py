"""Orders one after another: in every lane the rows of the first, then those of the second, and so on."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.core.spec import Ids
from penstock.order.protocol import RowOrder, Shape


@dataclass(frozen=True, kw_only=True)
class Concat(RowOrder):
    """See `protocol.RowOrder`. first_ids: where the ids of each input begin, in ascending order."""

    inputs: tuple[RowOrder, ...]
    first_ids: tuple[int, ...]

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common; of blocks the largest."""
        shapes = [order.shape for order in self.inputs]
        return replace(
            shapes[0],
            block_rows=max(shape.block_rows for shape in shapes),
            window_blocks=max(shape.window_blocks for shape in shapes),
        )

    @cached_property
    def _lanes(self) -> tuple[Ids, Ids]:
        """Which lane of each input stands in every lane, and the row at which it begins there; behind the last, the lane's end.

        The lane with most rows follows where there are fewest so far, so that lanes stay equally long. int64 (inputs, lanes) and
        (inputs + 1, lanes).
        """
        lanes, edges = [], [np.zeros(self.shape.lanes, dtype=np.int64)]
        for order in self.inputs:
            rows = order.lane_rows()
            lane = np.empty_like(rows)
            lane[np.argsort(edges[-1], kind="stable")] = np.argsort(-rows, kind="stable")
            lanes.append(lane)
            edges.append(edges[-1] + rows[lane])
        return np.stack(lanes), np.stack(edges)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return np.asarray(self._lanes[1][-1])

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        lanes, edges = (of_lane[:, lane].tolist() for of_lane in self._lanes)
        if not edges[-1]:
            return self.inputs[0].ids(epoch, lanes[0], first, count)  # an empty lane borrows, only ever as padding
        parts = [np.empty(0, dtype=np.int64)]
        while count:
            first %= edges[-1]
            number = bisect_right(edges, first) - 1
            rows = min(count, edges[number + 1] - first)
            parts.append(self.inputs[number].ids(epoch, lanes[number], first - edges[number], rows))
            first, count = first + rows, count - rows
        return np.concatenate(parts)

    def _input_of(self, ids: Ids) -> Ids:
        return np.searchsorted(np.array(self.first_ids[1:], dtype=np.int64), ids, side="right")

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row."""
        of, which = self._input_of(ids), np.empty(len(ids), dtype=np.int64)
        firsts, ends, known = [ids[:0]], [ids[:0]], 0
        for number in np.flatnonzero(np.bincount(of)).tolist():
            mine = np.flatnonzero(of == number)
            first, end, block = self.inputs[number].blocks(epoch, ids[mine])
            which[mine] = block + known
            firsts.append(first)
            ends.append(end)
            known += len(first)
        return np.concatenate(firsts), np.concatenate(ends), which

    def windows(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end)."""
        of, (lanes, edges) = self._input_of(ids), self._lanes
        lane, first, end = (np.zeros(len(ids), dtype=np.int64) for _ in range(3))
        for number in np.flatnonzero(np.bincount(of)).tolist():
            mine = np.flatnonzero(of == number)
            inner, begin, stop = self.inputs[number].windows(epoch, ids[mine])
            lane[mine] = np.argsort(lanes[number])[inner]
            shift = np.where(begin < stop, edges[number, lane[mine]], 0)
            first[mine], end[mine] = begin + shift, stop + shift
        return lane, first, end
