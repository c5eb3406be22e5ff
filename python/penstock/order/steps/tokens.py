"""Steps of a bounded number of tokens: as many rows as fit, of similar length, the same number in every lane.

Why it is done so. A batch is a function of its step, epochs are equally long, and the global batch does not depend on the number of ranks. If rows were
shuffled first and then cut where a batch is full, as fairseq and most samplers do it, how many steps an epoch has would depend on its shuffle, and
to find step k one would have to cut all steps before it. So the cut comes first, once, by the lengths alone (`token_cut`): from the longest row on, *groups* of
similar lengths, each a whole number of steps in which every lane takes equally many rows. Within a group, another permutation every epoch says which rows
make a step, and groups take turns in another order every epoch. It is the scheme of tf.data's `bucket_batch_sizes`, with boundaries put so that
no group leaves rows over: one step of an epoch is short, the last, of the shortest rows.

What a rank takes is bounded by construction: a lane has at most max_tokens / lanes of every step, also if all of its rows are padded to the longest of the
group, so any number of neighbouring lanes together has at most its part. Rows of a step are dealt to the lanes from the longest on, forth and back, so
that ranks have equally many rows and nearly equally many tokens.

How many rows a step has differs, and everything that counts rows is written for steps of one size. So each lane has as many *places* in every step as
the fullest step has rows of it, and where there is no row the id is `NO_ROW`. Shares, ledgers and the cache's forecast count places.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Ids
from penstock.core.kernels import EpochOrder, mix
from penstock.order.keys import ORDER_KEY
from penstock.order.protocol import RowOrder, Shape
from penstock.order.rows.chosen import Chosen
from penstock.order.steps.group_turns import Turns, turns_of
from penstock.order.steps.token_cut import LengthGroup

#: The id at a place that no row has.
NO_ROW = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenRows(RowOrder):
    """See `protocol.RowOrder`, of which the rows are places here.

    chosen: the rows, group after group. lengths: theirs, in that order. seed: of the order of rows in their groups and of the turns of these, None for
    that of the data, and the longest first. drop_last: whether the rows that fill no step are left out.
    """

    chosen: Chosen
    lengths: npt.NDArray[np.unsignedinteger]
    groups: tuple[LengthGroup, ...]
    lanes: int
    seed: int | None
    drop_last: bool

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common. Each row is read by itself."""
        return Shape(lanes=self.lanes, rows_per_lane=self._most, is_shuffled=self.seed is not None)

    @cached_property
    def _most(self) -> int:
        """Places of a lane in a step."""
        rest = -(-self.rest // self.lanes)
        full = zip(self.groups, self._full_steps, strict=True)
        return max([rest, *(group.rows_per_lane for group, steps in full if steps)])

    @cached_property
    def _full_steps(self) -> tuple[int, ...]:
        """Full steps of every group."""
        return tuple((group.end - group.first) // (group.rows_per_lane * self.lanes) for group in self.groups)

    @cached_property
    def rest(self) -> int:
        """Rows of the last step, a short one; 0 where there is none."""
        return 0 if self.drop_last else self.chosen.rows - self.full_rows

    @cached_property
    def full_rows(self) -> int:
        """Rows of an epoch's full steps."""
        pairs = zip(self.groups, self._full_steps, strict=True)
        return sum(steps * group.rows_per_lane for group, steps in pairs) * self.lanes

    @cached_property
    def steps(self) -> int:
        """Steps of an epoch."""
        return sum(self._full_steps) + (self.rest > 0)

    def lane_rows(self) -> Ids:
        """How many places each lane has."""
        return np.full(self.lanes, self.steps * self._most)

    # Steps

    def _turns(self, epoch: int) -> Turns:
        return turns_of(self._full_steps, self.seed, epoch)

    def _step(self, epoch: int, step: int) -> tuple[int, int, int]:
        """The group of a step, and which of its rows: the first and how many."""
        turns = self._turns(epoch)
        if step == len(turns.group):
            last = self.groups[-1]
            return len(self.groups) - 1, last.end - last.first - self.rest, self.rest
        number = int(turns.group[step])
        size = self.lanes * self.groups[number].rows_per_lane
        return number, int(turns.ordinal[step]) * size, size

    def _rows(self, epoch: int, number: int, first: int, count: int) -> Ids:
        """Which of `chosen` come in a group from a row on."""
        begin, end = self.groups[number].first, self.groups[number].end
        if self.seed is None:
            return np.arange(begin + first, begin + first + count)
        return _shuffled(end - begin, self.seed, epoch, number).lane_ids(0, first, count) + begin

    @cached_property
    def _longest(self) -> np.unsignedinteger:
        longest: np.unsignedinteger = self.lengths.max()
        return longest

    def _longest_first(self, rows: Ids) -> Ids:
        """The order of rows of steps, along the last axis. Small unsigned numbers are sorted faster."""
        return np.argsort(self._longest - self.lengths[rows], axis=-1, kind="stable")

    def rows_at(self, epoch: int, step: int) -> Ids:
        """Which of `chosen` have the places of a step, NO_ROW where none has: int64 (lanes, places)."""
        rows = self._rows(epoch, *self._step(epoch, step))
        found = np.full(self.lanes * self._most, NO_ROW, dtype=np.int64)
        found[_dealt(self.lanes, len(rows), self._most)] = rows[self._longest_first(rows)]
        return found.reshape(self.lanes, -1)

    def _ids_of(self, _: int, rows: Ids) -> Ids:
        return np.where(rows >= 0, self.chosen.ids(rows), NO_ROW)

    def _draws_of(self, epoch: int, rows: Ids) -> Ids:
        if not self.chosen.repeats:
            return np.where(rows >= 0, epoch, NO_ROW)
        return np.where(rows >= 0, self.chosen.draws(epoch, rows), NO_ROW)

    def _of_lane(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        steps = range(first // self._most, -(-(first + count) // self._most))
        parts = [self.rows_at(epoch, step % self.steps)[lane] for step in steps]
        begin = first % self._most
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])[begin : begin + count]

    def _of_steps(self, epoch: int, share: tuple[int, int], step: int, steps: int) -> Ids:
        parts = [self.rows_at(epoch, number).reshape(-1)[slice(*share)] for number in range(step, step + steps)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids at places [first, first + count) of a lane."""
        return self._ids_of(epoch, self._of_lane(epoch, lane, first, count))

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps."""
        out[:] = self._ids_of(epoch, self._of_steps(epoch, share, step, len(out) // (share[1] - share[0])))

    @property
    def has_draws(self) -> bool:
        """Whether rows come several times, and each copy is drawn anew."""
        return self.chosen.repeats

    @property
    def has_copies(self) -> bool:
        """Whether rows come several times."""
        return self.chosen.repeats

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epoch in which each row is drawn, or a number for each of its copies."""
        return self._draws_of(epoch, self._of_lane(epoch, lane, first, count))

    def step_draws(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the draws of whole steps."""
        out[:] = self._draws_of(epoch, self._of_steps(epoch, share, step, len(out) // (share[1] - share[0])))

    # What is read when

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Each row is a block: first ids, ends, and the block of each row."""
        first, which = distinct(ids)
        return first, first + 1, which

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: each row's with the row."""
        return lane, row + 1

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their places [first, end). Of rows that come several times, the first that is not before `after`."""
        owner, row = self.chosen.every_place(ids)
        lane, place = _places_of_rows(self, epoch)[:, row]
        comes = np.flatnonzero(place >= np.where(place < 0, 0, after[lane]))
        earliest = comes[np.lexsort((place[comes], owner[comes]))]
        earliest = earliest[np.flatnonzero(np.diff(owner[earliest], prepend=-1))]
        found = np.zeros((3, len(ids)), dtype=np.int64)
        found[:, owner[earliest]] = lane[earliest], place[earliest], place[earliest] + 1
        return found[0], found[1], found[2]

    def _epoch_places(self, epoch: int) -> Ids:
        """The lane of each of `chosen` in an epoch, and its place there; -1 for those that are dropped."""
        found = np.full((2, self.chosen.rows), -1, dtype=np.int64)
        turns = self._turns(epoch)
        for number, (group, steps) in enumerate(zip(self.groups, turns.steps, strict=True)):
            size = self.lanes * group.rows_per_lane
            rows = self._rows(epoch, number, 0, len(steps) * size).reshape(-1, size)
            rows = np.take_along_axis(rows, self._longest_first(rows), axis=1)
            lane, place = np.divmod(_dealt(self.lanes, size, self._most), self._most)
            found[0, rows], found[1, rows] = lane, steps[:, None] * self._most + place
        if self.rest:
            last = self.rows_at(epoch, self.steps - 1)
            lane, place = np.nonzero(last >= 0)
            found[:, last[lane, place]] = lane, (self.steps - 1) * self._most + place
        return found


@lru_cache(maxsize=2)
def _places_of_rows(order: TokenRows, epoch: int) -> Ids:
    return order._epoch_places(epoch)  # noqa: SLF001  # its own cache


@lru_cache(maxsize=4096)
def _shuffled(rows: int, seed: int, epoch: int, group: int) -> EpochOrder:
    return EpochOrder.shuffled(rows, 1, 1, 1, 1, mix([seed, epoch, group, ORDER_KEY]))


@lru_cache(maxsize=256)
def _dealt(lanes: int, rows: int, places: int) -> Ids:
    """The places in a step that rows get, from the longest on: lane after lane, forth and back.

    _dealt(2, 5, 3) is [0, 3, 4, 1, 5]: rows 0 and 3 in lane 0, rows 1, 2 and 4 in lane 1.
    """
    counts = np.diff(np.arange(lanes + 1) * rows // lanes)
    turn = np.arange(int(counts.max(initial=0)))[:, None]
    lane = np.where(turn % 2, np.arange(lanes)[::-1], np.arange(lanes))
    is_there = turn < counts[lane]
    return np.asarray((lane * places + turn)[is_there])
