"""The natural order: step k is rows [k·B, (k + 1)·B), dealt to the lanes like cards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Ids
from penstock.core.kernels import EpochOrder, Epochs
from penstock.order.protocol import RowOrder, Shape
from penstock.order.rows.chosen import Chosen, ChosenRows
from penstock.order.rows.segments import Segments


@dataclass(frozen=True, kw_only=True)
class Natural(RowOrder):
    """See `protocol.RowOrder`. wanted_rows: how many rows are worth reading together."""

    segments: ChosenRows
    lanes: int
    rows_per_lane: int
    wanted_rows: int = 1

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        block_rows = self.segments.rows_read(self.epoch(0).block_rows)
        return Shape(lanes=self.lanes, rows_per_lane=self.rows_per_lane, block_rows=block_rows)

    @property
    def words(self) -> str:
        """Which rows come when."""
        is_shuffled = self.shape.is_shuffled
        return super().words if is_shuffled else "natural: step k is rows k × batch size and the following"

    def epoch(self, epoch: int) -> EpochOrder:
        """The native order of an epoch, of places."""
        return _natural(self.segments.rows, self.lanes, self.rows_per_lane, self.wanted_rows)

    def native(self, epoch: int) -> EpochOrder | None:
        """The native order, where ids are places."""
        return self.epoch(epoch) if self.segments.is_identity else None

    @cached_property
    def _epochs(self) -> Epochs:
        return self._native_epochs(1, None)

    def _native_epochs(self, window_blocks: int, seed: tuple[int, int] | None) -> Epochs:
        """The native order of all epochs; seed: with the purpose of its keys."""
        assert isinstance(self.segments, Segments)
        runs = self.segments.runs_with_rows
        return Epochs(self.lanes, self.rows_per_lane, self.wanted_rows, window_blocks, seed, runs)

    def native_epochs(self) -> Epochs | None:
        """The native order of all epochs, where rows are runs of ids."""
        return self._epochs if isinstance(self.segments, Segments) else None

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
        if not segments.has_neighbours:
            first, which = distinct(ids)
            return first, first + 1, which
        size, tail = native.block_rows, native.tail_start
        whole = -(-tail // size)  # the last one may be short in the natural order
        place = ids if segments.is_identity else segments.places(ids)
        number = np.where(place >= tail, place - tail + whole, place // size)
        runs = segments.run_count
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

    @property
    def has_draws(self) -> bool:
        """Whether rows come several times, and each copy is drawn anew."""
        return self.segments.repeats

    @property
    def has_copies(self) -> bool:
        """Whether rows come several times."""
        return self.segments.repeats

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epoch in which each row is drawn, or a number for each of its copies."""
        if isinstance(self.segments, Chosen) and self.segments.repeats:
            return self.segments.draws(epoch, self.epoch(epoch).lane_ids(lane, first, count))
        return super().draws(epoch, lane, first, count)

    def step_draws(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the draws of the rows of whole steps."""
        if not isinstance(self.segments, Chosen) or not self.segments.repeats:
            out[:] = epoch
            return
        self.epoch(epoch).step_ids(share, step, out, threads)
        out[:] = self.segments.draws(epoch, out)

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: the lane and its row."""
        if not self.segments.has_neighbours:
            return lane, row + 1
        lane, _, end = self.windows(epoch, last, lane)
        return lane, end

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end)."""
        segments, native = self.segments, self.epoch(epoch)
        if isinstance(segments, Chosen):
            if segments.repeats:
                return self._next_windows(native, segments, ids, after)
            place = segments.reading_places(ids, native.block_rows)
        else:
            place = segments.places(ids)
        lane, first, end = native.windows(np.maximum(place, 0))
        is_there = place >= 0
        return lane, np.where(is_there, first, 0), np.where(is_there, end, 0)

    def _next_windows(self, native: EpochOrder, chosen: Chosen, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """Of rows that come several times: the first window that ends behind a row of its lane."""
        owner, place = chosen.every_place(ids)
        lane, first, end = native.windows(place)
        comes = np.flatnonzero(end > np.where(lane < 0, int(after.min()), after[lane]))
        earliest = comes[np.lexsort((first[comes], owner[comes]))]
        earliest = earliest[np.flatnonzero(np.diff(owner[earliest], prepend=-1))]
        found = np.zeros((3, len(ids)), dtype=np.int64)
        found[:, owner[earliest]] = lane[earliest], first[earliest], end[earliest]
        return found[0], found[1], found[2]


@lru_cache(maxsize=64)
def _natural(rows: int, lanes: int, rows_per_lane: int, wanted_rows: int) -> EpochOrder:
    return EpochOrder.natural(rows, lanes, rows_per_lane, wanted_rows)
