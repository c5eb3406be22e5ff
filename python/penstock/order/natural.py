"""The natural order: step k is rows [k·B, (k + 1)·B), dealt to the lanes like cards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from penstock.core.distinct import distinct
from penstock.core.kernels import EpochOrder, Epochs
from penstock.core.spec import Ids
from penstock.order.protocol import RowOrder, Shape
from penstock.order.segments import Segments


@dataclass(frozen=True, kw_only=True)
class Natural(RowOrder):
    """See `protocol.RowOrder`. wanted_rows: how many rows are worth reading together."""

    segments: Segments
    lanes: int
    rows_per_lane: int
    wanted_rows: int = 1

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return Shape(lanes=self.lanes, rows_per_lane=self.rows_per_lane, block_rows=self.epoch(0).block_rows)

    def epoch(self, epoch: int) -> EpochOrder:
        """The native order of an epoch, of places."""
        return _native(self, epoch)

    def make_epoch(self, _: int) -> EpochOrder:
        """The same, made anew."""
        return EpochOrder.natural(self.segments.rows, self.lanes, self.rows_per_lane, self.wanted_rows)

    def native(self, epoch: int) -> EpochOrder | None:
        """The native order, where ids are places."""
        return self.epoch(epoch) if self.segments.is_identity else None

    @cached_property
    def _epochs(self) -> Epochs:
        return self._native_epochs(1, None)

    def _native_epochs(self, window_blocks: int, seed: tuple[int, int] | None) -> Epochs:
        """The native order of all epochs; seed: with the purpose of its keys."""
        return Epochs(
            self.lanes, self.rows_per_lane, self.wanted_rows, window_blocks, seed, self.segments.runs_with_rows
        )

    def native_epochs(self) -> Epochs:
        """The native order of all epochs."""
        return self._epochs

    @cached_property
    def _lane_rows(self) -> Ids:
        epoch = self.epoch(0)
        return np.array([epoch.lane_rows(lane) for lane in range(self.lanes)], dtype=np.int64)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return self._lane_rows

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        return self.segments.ids(self.epoch(epoch).lane_ids(lane, first, count))

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps."""
        self.epoch(epoch).step_ids(share, step, out, threads)
        if not self.segments.is_identity:
            out[:] = self.segments.ids(out)

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row; a block ends where its run does."""
        segments, native = self.segments, self.epoch(epoch)
        size, tail = native.block_rows, native.tail_start
        whole = -(-tail // size)  # the last one may be short in the natural order
        place = ids if segments.is_identity else segments.places(ids)
        number = np.where(place >= tail, place - tail + whole, place // size)
        runs = len(segments.runs)
        if runs > 1:
            number = number * runs + segments.run_of(place)
        found, which = distinct(number)
        block, run = (found, 0) if runs == 1 else (found // runs, found % runs)
        first = np.where(block < whole, block * size, block - whole + tail)
        end = np.minimum(first + np.where(first >= tail, 1, size), segments.rows)
        if segments.is_identity:
            return first, end, which
        first, end = np.maximum(first, segments.edges[run]), np.minimum(end, segments.edges[np.asarray(run) + 1])
        begin = segments.ids(first)
        return begin, segments.ids(end - 1) + 1, which

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: the lane and its row."""
        lane, _, end = self.windows(epoch, last, lane)
        return lane, end

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end)."""
        place = self.segments.places(ids)
        lane, first, end = self.epoch(epoch).windows(np.maximum(place, 0))
        is_there = place >= 0
        return lane, np.where(is_there, first, 0), np.where(is_there, end, 0)


@lru_cache(maxsize=4096)
def _native(order: Natural, epoch: int) -> EpochOrder:
    return order.make_epoch(epoch)
