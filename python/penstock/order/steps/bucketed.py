"""Rows in buckets, of similar lengths say: every step takes its rows of one bucket, on all lanes and so on all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder, Shape
from penstock.order.steps.group_turns import Turns, turns_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Bucketed(RowOrder):
    """See `protocol.RowOrder`. inputs: the orders of the buckets, which have no row in common and read each row for itself.

    bucket_of: the bucket of each row, by id. seed: of the order in which buckets take turns, a chance permutation of their steps; None for one
    bucket after the other.

    A bucket has as many steps as all of its lanes have rows for. What lanes have left comes behind all of these, bucket after bucket: steps there
    may have rows of neighbouring buckets, and an order that is cut after `even_steps` has none.
    """

    inputs: tuple[RowOrder, ...]
    bucket_of: npt.NDArray[np.integer]
    seed: int | None

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common. In every lane, windows of all buckets are open."""
        shapes = [order.shape for order in self.inputs]
        is_shuffled = self.seed is not None or any(shape.is_shuffled for shape in shapes)
        windows = sum(shape.window_blocks for shape in shapes)
        return replace(shapes[0], block_rows=1, window_blocks=windows, is_shuffled=is_shuffled)

    @cached_property
    def _lanes(self) -> Ids:
        """Which lane of each bucket stands in every lane: int64 (buckets, lanes). The longest where there are fewest rows so far."""
        lanes = np.empty((len(self.inputs), self.shape.lanes), dtype=np.int64)
        so_far = np.zeros(self.shape.lanes, dtype=np.int64)
        for lane, order in zip(lanes, self.inputs, strict=True):
            rows = order.lane_rows()
            lane[np.argsort(so_far, kind="stable")] = np.argsort(-rows, kind="stable")
            so_far += rows[lane]
        return lanes

    @cached_property
    def _rows_of(self) -> Ids:
        """Rows of every bucket in every lane: int64 (buckets, lanes)."""
        return np.stack([order.lane_rows()[lane] for order, lane in zip(self.inputs, self._lanes, strict=True)])

    @cached_property
    def _steps_of(self) -> Ids:
        """Steps that every bucket has rows for in all of its lanes."""
        return np.asarray(self._rows_of.min(axis=1) // self.shape.rows_per_lane)

    @cached_property
    def _steps_key(self) -> tuple[int, ...]:
        return tuple(self._steps_of.tolist())

    @cached_property
    def even_steps(self) -> int:
        """Steps of one bucket each."""
        return int(self._steps_of.sum())

    @cached_property
    def _left(self) -> Ids:
        """Where in its lane what a bucket has left begins, and the lane's end: int64 (buckets + 1, lanes)."""
        left = self._rows_of - self._steps_of[:, None] * self.shape.rows_per_lane
        return np.cumsum([np.full(self.shape.lanes, self.even_steps * self.shape.rows_per_lane), *left], axis=0)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return np.asarray(self._left[-1])

    def _turns(self, epoch: int) -> Turns:
        return turns_of(self._steps_key, self.seed, epoch)

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        found = np.empty(count, dtype=np.int64)
        for at, number, row in self._parts(epoch, lane, first, count):
            found[at] = self.inputs[number].ids(epoch, int(self._lanes[number, lane]), row, len(at))
        return found

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps: natively, as long as each is of one bucket."""
        begin, end = share
        size, turns = self.shape.lanes * self.shape.rows_per_lane, self._turns(epoch)
        for number, some in enumerate(out.reshape(-1, end - begin), step):
            if number >= self.even_steps:
                super().step_ids(epoch, share, number, some, threads)
                continue
            bucket, whole = int(turns.group[number]), np.empty(size, dtype=np.int64)
            self.inputs[bucket].step_ids(epoch, (0, size), int(turns.ordinal[number]), whole, threads)
            some[:] = whole.reshape(self.shape.lanes, -1)[self._lanes[bucket]].reshape(-1)[begin:end]

    @property
    def has_draws(self) -> bool:
        """Whether a bucket has some."""
        return any(order.has_draws for order in self.inputs)

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epochs in which rows are drawn."""
        found = np.empty(count, dtype=np.int64)
        for at, number, row in self._parts(epoch, lane, first, count):
            found[at] = self.inputs[number].draws(epoch, int(self._lanes[number, lane]), row, len(at))
        return found

    def _parts(self, epoch: int, lane: int, first: int, count: int) -> Iterator[tuple[Ids, int, int]]:
        """Where rows of a lane come from: their places among them, the bucket, and the first of its rows there, which are neighbours."""
        rows, done = int(self.lane_rows()[lane]), 0
        if not rows:  # an empty lane borrows, only ever as padding
            yield np.arange(count), int(self._rows_of.sum(axis=1).argmax()), first
            return
        while done < count:
            begin = (first + done) % rows
            unbroken = min(count - done, rows - begin)
            bucket, row = self._inner(epoch, np.full(unbroken, lane), np.arange(begin, begin + unbroken))
            for number in np.flatnonzero(np.bincount(bucket)).tolist():
                mine = np.flatnonzero(bucket == number)
                yield mine + done, number, int(row[mine[0]])
            done += unbroken

    def _inner(self, epoch: int, lane: Ids, row: Ids) -> tuple[Ids, Ids]:
        """The bucket of rows of lanes, and which row of that bucket's lane each is."""
        rows_per_lane, turns = self.shape.rows_per_lane, self._turns(epoch)
        bucket = (row[:, None] >= self._left[1:, lane].T).sum(axis=1)
        inner = self._steps_of[np.minimum(bucket, len(self.inputs) - 1)] * rows_per_lane
        inner += row - self._left[bucket, lane]
        even = row < self.even_steps * rows_per_lane
        step, place = np.divmod(row[even], rows_per_lane)
        bucket[even], inner[even] = turns.group[step], turns.ordinal[step] * rows_per_lane + place
        return bucket, inner

    def _outer(self, epoch: int, number: int, lane: Ids, row: Ids) -> Ids:
        """The rows of lanes that rows of a bucket's lanes are."""
        rows_per_lane, even = self.shape.rows_per_lane, int(self._steps_of[number])
        left = self._left[number, lane]
        found = left + row - even * rows_per_lane
        step, place = np.divmod(row, rows_per_lane)
        in_step = step < even
        found[in_step] = self._turns(epoch).steps[number][step[in_step]] * rows_per_lane + place[in_step]
        return np.asarray(found)

    def _by_bucket(self, ids: Ids) -> Iterator[tuple[int, Ids]]:
        of = self.bucket_of[ids]
        for number in np.flatnonzero(np.bincount(of)).tolist():
            yield number, np.flatnonzero(of == number)

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Each row is a block: first ids, ends, and the block of each row."""
        first, which = distinct(ids)
        return first, first + 1, which

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: each row's with the row."""
        return lane, row + 1

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end), in which other buckets' rows are too."""
        lane, first, end = (np.zeros(len(ids), dtype=np.int64) for _ in range(3))
        for number, mine in self._by_bucket(ids):
            inner, one, other = self.inputs[number].windows(epoch, ids[mine], np.zeros_like(after))
            inner = np.where(inner < 0, -1, np.argsort(self._lanes[number])[inner])
            low, high = (self._left[number].argmin(), self._left[number].argmax()) if (inner < 0).any() else (0, 0)
            is_there, last = one < other, np.maximum(other - 1, 0)
            lane[mine] = inner
            first[mine] = np.where(is_there, self._outer(epoch, number, np.where(inner < 0, low, inner), one), 0)
            end[mine] = np.where(is_there, self._outer(epoch, number, np.where(inner < 0, high, inner), last) + 1, 0)
        return lane, first, end
