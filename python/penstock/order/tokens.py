"""Steps of a bounded number of tokens: as many rows as fit, of similar length, the same number in every lane.

Why it is done so. A batch is a function of its step, epochs are equally long, and the global batch does not depend on the number of ranks. If rows were
shuffled first and then cut where a batch is full, as fairseq and most samplers do it, how many steps an epoch has would depend on its shuffle, and
to find step k one would have to cut all steps before it. So the cut comes first, once, by the lengths alone (`cut`): from the longest row on, *groups* of
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
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.core.distinct import distinct
from penstock.core.lengths import Lengths
from penstock.core.spec import Ids
from penstock.order.lanes import MAX_LANES
from penstock.order.protocol import RowOrder, Shape
from penstock.order.turns import Turns, turns_of

#: The id at a place that no row has.
NO_ROW = -1
#: A lane of the usual number of lanes has room for so many of the longest rows: fewer would leave much of it empty.
_LONGEST_A_LANE = 4
#: A group has at least so many steps, so that epochs differ in which rows come together.
_FEWEST_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a lane has room for in a step. lane_tokens: so many. is_padded: rows count as padded to the longest, else as long as they are.

    multiple_of: padded lengths are rounded up to this. fill: a group's rows are at least so long, as a share of its longest. drop_last: whether
    rows that make no step are dropped.
    """

    lane_tokens: int
    lanes: int
    is_padded: bool = True
    multiple_of: int = 1
    fill: float = 0.9
    drop_last: bool = False

    def costs(self, lengths: Ids) -> Ids:
        """What rows cost; nothing is free, so that their number is bounded too."""
        return np.maximum(-(-lengths // self.multiple_of) * self.multiple_of, 1)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Neighbours in the rows sorted by length, longest first: [first, end). rows_per_lane: that each of its steps takes."""

    first: int
    end: int
    rows_per_lane: int


def default_token_lanes(max_tokens: int, longest: int) -> int:
    """The largest power of two up to 64 of which a lane holds some of the longest rows: default_token_lanes(32_768, 1_024) == 8."""
    lanes = MAX_LANES
    while lanes > 1 and max_tokens // lanes < _LONGEST_A_LANE * longest:
        lanes //= 2
    return lanes


def cut(lengths: Lengths, budget: Budget) -> tuple[Ids, tuple[Group, ...]]:
    """The rows from the longest to the shortest, and their groups: every one but the last is a whole number of steps.

    For lengths [4, 9, 5, 9], and two lanes of 10 tokens: rows [1, 3, 2, 0], and groups [0, 2) of 1 row a lane and [2, 4) of 2.
    """
    costs = budget.costs(lengths.numbers)
    turn = np.argsort(-costs, kind="stable")
    costs, groups, first = costs[turn], list[Group](), 0
    total = np.cumsum(costs)
    while first < len(costs):
        rows = _rows_per_lane(costs, total, first, budget)
        size = rows * budget.lanes
        steps = (len(costs) - first) // size
        if not steps:
            groups = _with_last(groups, costs, first, rows, budget)
            break
        similar = int(np.searchsorted(-costs, -budget.fill * costs[first], side="right")) - first
        end = first + min(steps, max(_FEWEST_STEPS, similar // size)) * size
        groups.append(Group(first=first, end=end, rows_per_lane=rows))
        first = end
    return turn, tuple(groups)


def _with_last(groups: list[Group], costs: Ids, first: int, rows: int, budget: Budget) -> list[Group]:
    """The groups with the rows from one on, too few for a step: in the last group, if that costs little, so that each epoch leaves others over."""
    left = len(costs) - first
    if groups and (left < budget.lanes or costs[-1] >= budget.fill * costs[groups[-1].first]):
        *groups, last = groups
        return [*groups, Group(first=last.first, end=len(costs), rows_per_lane=last.rows_per_lane)]
    if budget.drop_last:  # a full step all the same, of fewer rows
        rows = max(1, left // budget.lanes)
    return [*groups, Group(first=first, end=len(costs), rows_per_lane=rows)]


def _rows_per_lane(costs: Ids, total: Ids, first: int, budget: Budget) -> int:
    """How many of the rows from one on, the longest of them, a lane has room for."""
    if budget.is_padded:
        return budget.lane_tokens // int(costs[first])
    before = int(total[first] - costs[first])
    return int(np.searchsorted(total, before + budget.lane_tokens, side="right")) - first


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenRows(RowOrder):
    """See `protocol.RowOrder`, of which the rows are places here.

    inputs: the orders of the groups, of one lane each. rows_per_lane: that a step of each takes. length_of: of each row, by id. seed: of the order in
    which groups take turns, None for the longest first. drop_last: whether the rows that fill no step are left out.
    """

    inputs: tuple[RowOrder, ...]
    rows_per_lane: tuple[int, ...]
    lanes: int
    length_of: Ids
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
        return max([rest, *(rows for rows, steps in zip(self.rows_per_lane, self._full_steps, strict=True) if steps)])

    @cached_property
    def _rows_of(self) -> tuple[int, ...]:
        return tuple(int(order.lane_rows().sum()) for order in self.inputs)

    @cached_property
    def _full_steps(self) -> tuple[int, ...]:
        """Full steps of every group."""
        pairs = zip(self._rows_of, self.rows_per_lane, strict=True)
        return tuple(rows // (self.lanes * per_lane) for rows, per_lane in pairs)

    @cached_property
    def rest(self) -> int:
        """Rows of the last step, a short one; 0 where there is none."""
        return 0 if self.drop_last else self.samples - self.full_rows

    @cached_property
    def samples(self) -> int:
        """Rows of all groups."""
        return sum(self._rows_of)

    @cached_property
    def full_rows(self) -> int:
        """Rows of an epoch's full steps."""
        pairs = zip(self._full_steps, self.rows_per_lane, strict=True)
        return sum(steps * self.lanes * per_lane for steps, per_lane in pairs)

    @cached_property
    def steps(self) -> int:
        """Steps of an epoch."""
        return sum(self._full_steps) + (self.rest > 0)

    def lane_rows(self) -> Ids:
        """How many places each lane has."""
        return np.full(self.lanes, self.steps * self._most)

    def _turns(self, epoch: int) -> Turns:
        return turns_of(self._full_steps, self.seed, epoch)

    def _step(self, epoch: int, step: int) -> tuple[int, int, int]:
        """The group of a step, and its rows there: the first and how many."""
        turns, group = self._turns(epoch), len(self.inputs) - 1
        if step == len(turns.group):
            return group, self._rows_of[group] - self.rest, self.rest
        group = int(turns.group[step])
        size = self.lanes * self.rows_per_lane[group]
        return group, int(turns.ordinal[step]) * size, size

    def rows_in(self, epoch: int, step: int) -> int:
        """Rows of a step on all ranks."""
        return self._step(epoch, step)[2]

    def places(self, epoch: int, step: int, *, draws: bool = False) -> Ids:
        """The ids, or the draws, of a step's rows, NO_ROW where there is none: int64 (lanes, places)."""
        group, first, count = self._step(epoch, step)
        ids = found = self.inputs[group].ids(epoch, 0, first, count)
        if draws:
            found = self.inputs[group].draws(epoch, 0, first, count)
        out = np.full(self.lanes * self._most, NO_ROW, dtype=np.int64)
        out[_dealt(self.lanes, count, self._most)] = found[np.argsort(-self.length_of[ids], kind="stable")]
        return out.reshape(self.lanes, -1)

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids at places [first, first + count) of a lane."""
        return self._of_lane(epoch, lane, first, count, draws=False)

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps."""
        for number, some in enumerate(out.reshape(-1, share[1] - share[0]), step):
            some[:] = self.places(epoch, number).reshape(-1)[slice(*share)]

    @property
    def has_draws(self) -> bool:
        """Whether a group has some."""
        return any(order.has_draws for order in self.inputs)

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epochs in which rows are drawn."""
        return self._of_lane(epoch, lane, first, count, draws=True)

    def step_draws(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the draws of whole steps."""
        for number, some in enumerate(out.reshape(-1, share[1] - share[0]), step):
            some[:] = self.places(epoch, number, draws=True).reshape(-1)[slice(*share)]

    def _of_lane(self, epoch: int, lane: int, first: int, count: int, *, draws: bool) -> Ids:
        steps = range(first // self._most, -(-(first + count) // self._most))
        parts = [self.places(epoch, step % self.steps, draws=draws)[lane] for step in steps]
        begin = first % self._most
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])[begin : begin + count]

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Each row is a block: first ids, ends, and the block of each row."""
        first, which = distinct(ids)
        return first, first + 1, which

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: each row's with the row."""
        return lane, row + 1

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their places [first, end)."""
        place = _places_of_ids(self, epoch)[ids]
        step, place = np.divmod(place, self.lanes * self._most)
        lane, row = np.divmod(place, self._most)
        first = np.where(step < 0, 0, step * self._most + row)
        return lane, first, first + (step >= 0)

    def _epoch_places(self, epoch: int) -> Ids:
        """The place of every row among those of an epoch's steps, by id; -1 where it has none."""
        size, found = self.lanes * self._most, np.full(len(self.length_of), -1, dtype=np.int64)
        turns = self._turns(epoch)
        for order, rows, steps in zip(self.inputs, self.rows_per_lane, turns.steps, strict=True):
            count = self.lanes * rows
            ids = order.ids(epoch, 0, 0, len(steps) * count).reshape(-1, count)
            ids = np.take_along_axis(ids, np.argsort(-self.length_of[ids], axis=1, kind="stable"), axis=1)
            found[ids] = steps[:, None] * size + _dealt(self.lanes, count, self._most)
        if self.rest:
            last = self.places(epoch, self.steps - 1).reshape(-1)
            at = np.flatnonzero(last != NO_ROW)
            found[last[at]] = (self.steps - 1) * size + at
        return found


@lru_cache(maxsize=2)
def _places_of_ids(order: TokenRows, epoch: int) -> Ids:
    return order._epoch_places(epoch)  # noqa: SLF001  # its own cache


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


def groups_of(turn: Ids, groups: tuple[Group, ...], of_rows: Ids) -> list[Ids]:
    """The ids of each group, in the order of the data. of_rows: those of all rows."""
    assert all(one.end == other.first for one, other in pairwise(groups))
    return [of_rows[np.sort(turn[group.first : group.end])] for group in groups]


def is_row(ids: Ids) -> npt.NDArray[np.bool_]:
    """At which places there are rows."""
    return np.asarray(ids != NO_ROW)
