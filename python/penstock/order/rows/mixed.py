"""Several orders mixed by weights: in every lane, each row comes from the input whose turn it is.

Whose turn it is follows from one periodic sequence (`Mixture`), in which lanes begin at different places; the rest is counting. Weights 2 : 1, 2 lanes of which a
step takes 2 rows each:

    the sequence    A  B  A  A  B  A  A  B  A …
    lane 0          A0 B0 A1 A2 B1 A3 A4 B2 …      row 3 is A's row 2, since A had 2 turns before
    lane 1                A0 A1 B0 A2 A3 B1 …      begins 2 rows further, where the sequence is after lane 0's step

`counts` says how many turns an input had before a row, and `places` at which row a turn is: each inverts the other. Unless the epoch ends with it, an input's
lane that has no row left begins its next epoch: turn 7 of a lane of 5 rows is row 2 of epoch 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Ids
from penstock.core.kernels import MixedOrder, Mixture, MixtureWord
from penstock.order.protocol import Shape
from penstock.order.rows.several_inputs import Composed


class Stop(StrEnum):
    """When an epoch of a mixture ends."""

    FIRST = "first_exhausted"
    ALL = "all_exhausted"
    ROWS = "rows"


@dataclass(frozen=True, kw_only=True)
class Mixed(Composed):
    """See `several_inputs.Composed`. All lanes are equally long.

    quotas: of so many rows together, how many each input gives, from a row of every lane on: ascending, from 0. stop: FIRST: with the first input that has no row left, and every
    epoch is the next one of all inputs; ALL: when every input had all its rows, and those that had them begin their next epoch; ROWS: after
    `rows` rows, and every input continues where it was in the epoch before.
    """

    quotas: tuple[tuple[int, tuple[int, ...]], ...]
    stop: Stop
    rows: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Its fields: what follows from them is made anew in another process."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common. In every lane, windows of all inputs are open."""
        shape = super().shape
        return replace(shape, window_blocks=sum(order.shape.window_blocks for order in self.inputs))

    @property
    def words(self) -> str:
        """Which rows come when."""
        inputs = f"{len(self.inputs)} datasets in turn" if len(self.inputs) > 1 else "in the order of the data"
        if self.stop is Stop.ROWS:
            return f"{super().words if self.shape.is_shuffled else inputs}; every epoch continues where the one before ended"
        return super().words if self.shape.is_shuffled else f"{inputs}, {super().words}"

    @cached_property
    def _mixture(self) -> Mixture:
        return _mixture(self.quotas, self.shape.lanes, self.shape.rows_per_lane)

    @cached_property
    def _rows_of(self) -> Ids:
        """Rows of every input's lanes: int64 (inputs, lanes)."""
        return np.stack([order.lane_rows() for order in self.inputs])

    @cached_property
    def _lane_rows(self) -> int:
        """Rows of a lane in an epoch."""
        lanes = np.arange(self.shape.lanes)
        if self.rows is not None:
            return self.rows // self.shape.lanes
        if self.stop is Stop.FIRST:
            return min(int(self._mixture.places(c, lanes, rows).min()) for c, rows in enumerate(self._rows_of))
        return max(int(self._mixture.places(c, lanes, rows - 1).max()) + 1 for c, rows in enumerate(self._rows_of))

    @cached_property
    def _rounds(self) -> list[int]:
        """How many epochs of each input an epoch of the mixture begins at most."""
        lanes = np.arange(self.shape.lanes)
        end = np.full(self.shape.lanes, self._lane_rows)
        counts = [self._mixture.counts(c, lanes, end) for c in range(len(self.inputs))]
        return [int((-(-count // rows)).max()) for count, rows in zip(counts, self._rows_of, strict=True)]

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return np.full(self.shape.lanes, self._lane_rows, dtype=np.int64)

    def given(self, number: int, epoch: int, row: Ids) -> Ids:
        """How many rows an input has given, from its first epoch on, before row `row[lane]` of every lane; for `Stop.ROWS`."""
        return self._mixture.counts(number, np.arange(self.shape.lanes), row + self._begin(epoch, number)[0])

    def _begin(self, epoch: int, number: int) -> tuple[int, int]:
        """Where an epoch begins: the row of the lanes' sequence, and the input's epoch at that sequence's begin."""
        if self.stop is Stop.ROWS:
            return epoch * self._lane_rows, 0
        return 0, epoch * (self._rounds[number] if self.stop is Stop.ALL else 1)

    def _parts(
        self, epoch: int, lane: int, first: int, count: int
    ) -> Iterator[tuple[Ids, int, tuple[int, int, int, int]]]:
        """Where rows of a lane come from: their places among them, the input, and its epoch, lane, first row and number of rows."""
        done = 0
        while done < count:  # rows past the end begin again
            row = (first + done) % self._lane_rows
            unbroken = min(count - done, self._lane_rows - row)
            sources, ordinals = self._mixture.rows(lane, row + self._begin(epoch, 0)[0], unbroken)
            for number in np.flatnonzero(np.bincount(sources)).tolist():
                mine = np.flatnonzero(sources == number)
                rows, base = int(self._rows_of[number, lane]), self._begin(epoch, number)[1]
                at = int(ordinals[mine[0]])  # and one more each
                taken = 0
                while taken < len(mine):
                    past, place = divmod(at + taken, rows)
                    some = min(len(mine) - taken, rows - place)
                    yield mine[taken : taken + some] + done, number, (base + past, lane, place, some)
                    taken += some
            done += unbroken

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        if self._native is not None:
            return self._native.lane(False, epoch, lane, first, count)
        found = np.empty(count, dtype=np.int64)
        for at, number, part in self._parts(epoch, lane, first, count):
            found[at] = self.inputs[number].ids(*part)
        return found

    @property
    def has_draws(self) -> bool:
        """Whether inputs begin again on their own, or have draws."""
        return self.stop is not Stop.FIRST or super().has_draws

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epochs in which rows are drawn."""
        if self._native is not None:
            return self._native.lane(True, epoch, lane, first, count)
        found = np.empty(count, dtype=np.int64)
        for at, number, part in self._parts(epoch, lane, first, count):
            found[at] = self.inputs[number].draws(*part)
        return found

    @cached_property
    def _native(self) -> MixedOrder | None:
        """The same natively, where all inputs are."""
        inputs = [native for order in self.inputs if (native := order.native_epochs()) is not None]
        if len(inputs) < len(self.inputs):
            return None
        rounds = None if self.stop is Stop.ROWS else [self._begin(1, number)[1] for number in range(len(inputs))]
        return MixedOrder(self._mixture, inputs, self._lane_rows, rounds)

    def rows_of_lanes(self, epoch: int, lane: Ids, first: Ids, count: Ids, *, draws: bool = False) -> Ids:
        """Ids, or draws, of rows of several lanes."""
        if self._native is None:
            return super().rows_of_lanes(epoch, lane, first, count, draws=draws)
        return self._native.segments(draws, epoch, lane, first, count)

    def native_epochs(self) -> MixedOrder | None:
        """The native order of all epochs, where the inputs have one."""
        return self._native

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps."""
        if self._native is None:
            super().step_ids(epoch, share, step, out, threads)
        else:
            self._native.steps(False, epoch, share, step, out, threads)

    def step_draws(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the draws of the same rows."""
        if self._native is None:
            super().step_draws(epoch, share, step, out, threads)
        else:
            self._native.steps(True, epoch, share, step, out, threads)

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row."""
        if self._native is None or not self._native.has_blocks:
            return super().blocks(epoch, ids)
        found, which = distinct(self._native.block_numbers(ids))
        return *self._native.block_edges(found), which

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: the lane and its row."""
        if self._native is not None and self._native.has_blocks:
            return self._native.until(epoch, lane, row, last)
        found, end = lane.copy(), row + 1
        for number, mine in self.by_input(last):
            begin, base = self._begin(epoch, number)
            rows, of = self._rows_of[number], lane[mine]
            ordinal = self._mixture.counts(number, of, row[mine] + begin)
            rounds, which = distinct(ordinal // rows[of])
            for turn, one in enumerate(rounds.tolist()):
                some = np.flatnonzero(which == turn)
                at = ordinal[some] - one * rows[of[some]]
                inner, stop = self.inputs[number].until(base + one, of[some], at, last[mine[some]])
                _, stop = self._rows_at(number, inner, np.zeros_like(stop), stop, one * rows)
                found[mine[some]], end[mine[some]] = inner, np.minimum(stop - begin, self._lane_rows)
        return found, end

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end), of the input's epoch that ends behind a row of every lane."""
        lane, first, end = (np.zeros(len(ids), dtype=np.int64) for _ in range(3))
        for number, mine in self.by_input(ids):
            lane[mine], first[mine], end[mine] = self._windows_of(number, epoch, ids[mine], after)
        return lane, first, end

    def _windows_of(self, number: int, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        begin, base = self._begin(epoch, number)
        lanes, rows = np.arange(self.shape.lanes), self._rows_of[number]
        behind = self._mixture.counts(number, lanes, after + begin)  # rows of the input that lanes have had
        last = self._mixture.counts(number, lanes, np.full_like(after, begin + self._lane_rows)) - 1
        lane, first, end = (np.zeros(len(ids), dtype=np.int64) for _ in range(3))
        left = np.arange(len(ids))
        low, high = int((behind // rows).min()), int((behind // rows).max()) + 1
        for past in range(low, min(high, int((last // rows).max())) + 1):
            inner, one, other = self.inputs[number].windows(base + past, ids[left], np.maximum(behind - past * rows, 0))
            begins, ends = self._rows_at(number, inner, one, other, past * rows)
            begins, ends = np.clip(begins - begin, 0, self._lane_rows), np.clip(ends - begin, 0, self._lane_rows)
            comes = (begins < ends) & (ends > np.where(inner < 0, int(after.min()), after[inner]))
            lane[left[comes]], first[left[comes]], end[left[comes]] = inner[comes], begins[comes], ends[comes]
            left = left[~comes]
            if not len(left):
                break
        return lane, first, end

    def _rows_at(self, number: int, lane: Ids, first: Ids, end: Ids, shift: Ids) -> tuple[Ids, Ids]:
        """The rows of the mixture's lanes at which rows [first, end) of an input's lanes begin and end; lane -1 is all of them."""
        some = np.maximum(lane, 0)
        one = self._mixture.places(number, some, first + shift[some])
        other = self._mixture.places(number, some, np.maximum(end - 1, 0) + shift[some]) + 1
        if (lane < 0).any():
            for every in range(1, self.shape.lanes):
                same = np.where(lane < 0, every, some)
                one = np.minimum(one, self._mixture.places(number, same, first + shift[same]))
                other = np.maximum(other, self._mixture.places(number, same, np.maximum(end - 1, 0) + shift[same]) + 1)
        return one, np.where(first < end, other, one)


def _mixture(quotas: tuple[tuple[int, tuple[int, ...]], ...], lanes: int, rows_per_lane: int) -> Mixture:
    return Mixture([(first, _word(some)) for first, some in quotas], lanes, rows_per_lane)


@lru_cache(maxsize=64)
def _word(quotas: tuple[int, ...]) -> MixtureWord:
    """Kept, since a long period of many inputs takes half a second."""
    return MixtureWord(list(quotas))


def mixed_rows(quotas: Sequence[int], rows: Sequence[int], stop: Stop, given: int | None) -> int:
    """Rows of an epoch if there were one lane; lanes end together, with some rows fewer (or more, for ALL) in each."""
    if given is not None or not all(rows):
        return given or 0
    mixture, lane = _mixture(((0, tuple(quotas)),), 1, 1), np.zeros(1, dtype=np.int64)
    last = 0 if stop is Stop.FIRST else 1
    ends = [int(mixture.places(c, lane, np.array([count - last]))[0]) + last for c, count in enumerate(rows)]
    return min(ends) if stop is Stop.FIRST else max(ends)


def input_rows(quotas: Sequence[int], rows: int) -> list[int]:
    """How many of so many rows each input gives, if there were one lane."""
    mixture, lane = _mixture(((0, tuple(quotas)),), 1, 1), np.zeros(1, dtype=np.int64)
    return [int(mixture.counts(number, lane, np.array([rows]))[0]) for number in range(len(quotas))]
