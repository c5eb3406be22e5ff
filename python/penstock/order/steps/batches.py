"""Which rows each step of an epoch takes of an order, and which of them each rank."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError
from penstock.order.lanes import share_of_rank
from penstock.order.protocol import NEVER, OfRows, RowOrder


class Last(StrEnum):
    """What becomes of the last samples of an epoch if they do not fill a batch."""

    SHORT = "short"
    DROP = "drop"
    PAD = "pad"
    WRAP = "wrap"


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """An order cut into global batches: every step takes equally many rows of every lane, lane after lane, while all have that many.

    What lanes have left then is taken lane after lane.

    steps: overrides how many an epoch has, to fewer than its rows give, or with pad and wrap to more; None derives it from them.
    equal_parts: in a step that is not full, ranks take neighbouring places, equally many each. Its rows lie in the first places, in order, and
    come again from the first on in what is left: ranks have 3 and 2 + 1 of 5 rows, and with pad and wrap as many as in a full step.
    """

    #: Whether a step has as many rows as its data allows, `batch_size` at most.
    rows_vary: ClassVar[bool] = False

    rows: RowOrder
    last: Last = Last.SHORT
    steps: int | None = None
    equal_parts: bool = False

    def __post_init__(self) -> None:
        if self.steps_per_epoch == 0:
            raise PlanError(
                f"batch size {self.batch_size} is larger than the dataset ({self.samples:,} samples) and drop_last drops it; "
                f"use a smaller batch or pad=True"
            )

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return self.rows.shape.lanes

    @property
    def rows_per_lane(self) -> int:
        """Rows that a step takes from every lane."""
        return self.rows.shape.rows_per_lane

    @cached_property
    def batch_size(self) -> int:
        """Rows of a full global batch."""
        return self.lanes * self.rows_per_lane

    def part_in_words(self, ranks: int) -> str:
        """What each of so many ranks has of a step: "8 rows"."""
        return f"{self.batch_size // ranks:,} rows"

    def in_words(self, world_size: int) -> list[str]:  # that others need
        """How many steps there are and what each holds on so many ranks, then where its rows come from."""
        return [
            f"{self.steps_per_epoch:,} steps an epoch, {self.batch_size} rows each, from {self.lanes} lanes",
            self.rows.words,
        ]

    @property
    def ranks_divide(self) -> int:
        """What a number of ranks must divide."""
        return self.batch_size

    @property
    def rows_per_step(self) -> int:
        """The same; where steps have different numbers of rows, the mean."""
        return self.batch_size

    @property
    def fills_lanes(self) -> bool:
        """Whether lanes that have no row left begin anew, each by itself, to fill up the last steps."""
        return self.last in (Last.PAD, Last.WRAP) and not self.equal_parts

    @cached_property
    def samples(self) -> int:
        """Rows of an epoch."""
        return int(self.rows.lane_rows().sum())

    @cached_property
    def even_steps(self) -> int:
        """Steps in which every lane has rows for its part."""
        return int(self.rows.lane_rows().min()) // self.rows_per_lane

    @cached_property
    def full_steps(self) -> int:
        """Steps of an epoch whose batch is full of samples."""
        full = self.even_steps if self.fills_lanes else self.samples // self.batch_size
        return full if self.steps is None else min(full, self.steps)

    @cached_property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch, the same on every rank."""
        if self.steps is not None:
            return self.steps
        if self.last is Last.DROP:
            return self.full_steps
        if not self.fills_lanes:
            return -(-self.samples // self.batch_size)
        return -(-int(self.rows.lane_rows().max()) // self.rows_per_lane)

    def share(self, rank: int, world_size: int) -> tuple[int, int]:
        """The places [first, last) of every full global batch that a rank takes; PlanError if it cannot be shared equally.

        Whole lanes where the number of ranks divides that of the lanes; otherwise neighbouring ranks share some.
        """
        return share_of_rank(self.batch_size, rank, world_size)

    def check_ranks(self, world_size: int) -> None:
        """PlanError if the ranks cannot share a batch equally, or the last, short one leaves a rank without a row."""
        self.share(0, world_size)
        rest = self.samples % self.batch_size
        if self.last is Last.SHORT and not self.equal_parts and 0 < rest < world_size:
            raise PlanError(
                f"the last global batch has {rest} rows, too few for {world_size} ranks; "
                f"choose drop_last=True, pad=True or wrap=True in batch(…), or to evaluate Loader(…, equal_parts=True)"
            )

    def real_rows(self, step: int) -> int:
        """Rows of a step's global batch without those that fill it up."""
        if step < self.full_steps:
            return self.batch_size
        if self.fills_lanes:
            left = self.rows.lane_rows() - step * self.rows_per_lane
            return int(left.clip(0, self.rows_per_lane).sum())
        return max(0, min(self.batch_size, self.samples - step * self.batch_size))

    def places(self, step: int, rank: int, world_size: int) -> tuple[int, int]:
        """The places [first, last) of a step's global batch that a rank takes: of a full one its share, of the last, short one as nearly as can be."""
        rows = self.batch_size if self.last in (Last.PAD, Last.WRAP) else self.real_rows(step)
        if self.equal_parts:
            rows = -(-rows // world_size) * world_size
        return rank * rows // world_size, (rank + 1) * rows // world_size

    def parts(self, step: int, rank: int, world_size: int) -> tuple[Ids, Ids, Ids]:
        """Where a rank's rows of a step lie: in which lanes, from which row of each lane on, and how many (all int64).

        Lanes take equal parts of the step while they have them, and so do ranks (see `places`).
        """
        taken, begin, rows = min(step, self.even_steps), 0, self.batch_size
        if step < self.even_steps or self.fills_lanes:
            taken, left = step, np.full(self.lanes, self.rows_per_lane)
            rows = self.batch_size if self.fills_lanes else self.real_rows(step)
        else:
            left = self.rows.lane_rows() - self.even_steps * self.rows_per_lane
            begin, rows = (step - self.even_steps) * self.batch_size, self.real_rows(step)
        low, high = self.places(step, rank, world_size)
        edges = np.concatenate([[0], np.cumsum(left)])
        first = np.maximum(edges[:-1], begin + low)
        count = np.minimum(edges[1:], begin + min(high, rows)) - first
        lanes = np.flatnonzero(count > 0)
        first, count = (first - edges[:-1])[lanes], count[lanes]
        if 0 < rows < high:  # what comes again
            place = begin + np.arange(max(low, rows), high) % rows
            again = np.searchsorted(edges, place, side="right") - 1
            lanes, first = np.concatenate([lanes, again]), np.concatenate([first, place - edges[again]])
            count = np.concatenate([count, np.ones_like(again)])
        return lanes, taken * self.rows_per_lane + first, count

    def ids(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids:
        """Ids of a rank's rows in steps [step, step + steps): int64, step after step, lane after lane.

        The ranks' ids, joined in rank order, are the same for every number of ranks.
        """
        share, even = self.share(rank, world_size), self._even_of(step, steps)
        found = np.empty(even * (share[1] - share[0]), dtype=np.int64)
        self.rows.step_ids(epoch, share, step, found, threads)
        return self._with_rest(found, self.rows.ids, epoch, range(step + even, step + steps), rank, world_size)

    def draws(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids | None:
        """The draws of the same rows (see `protocol.RowOrder`); None where all are the epoch."""
        if not self.rows.has_draws:
            return None
        share, even = self.share(rank, world_size), self._even_of(step, steps)
        found = np.empty(even * (share[1] - share[0]), dtype=np.int64)
        self.rows.step_draws(epoch, share, step, found, threads)
        return self._with_rest(found, self.rows.draws, epoch, range(step + even, step + steps), rank, world_size)

    def _even_of(self, step: int, steps: int) -> int:
        """Of steps from one on, how many take equal parts of all lanes."""
        return steps if self.fills_lanes else min(steps, max(0, self.even_steps - step))

    def _with_rest(self, found: Ids, of: OfRows, epoch: int, steps: range, rank: int, world_size: int) -> Ids:
        """What was found, and behind it what rows have of the steps that take what lanes have left."""
        if not steps:
            return found
        parts = [self.parts(step, rank, world_size) for step in steps]
        taken = [of(epoch, *part) for some in parts for part in zip(*map(np.ndarray.tolist, some), strict=True)]
        return np.concatenate([found, *taken])

    def lane_rows_before(self, epoch: int, step: int) -> Ids:
        """How many rows every lane has given before a step, from the first epoch on."""
        rows = self.rows.lane_rows()
        return epoch * rows + np.minimum(step * self.rows_per_lane, rows)

    def valid(self, step: int, rank: int, world_size: int) -> npt.NDArray[np.bool_]:
        """Which rows of a rank's batch are samples and not padding: all True but in the last steps with pad, wrap or equal parts."""
        place = np.arange(*self.places(step, rank, world_size))
        if not self.fills_lanes or step < self.full_steps:
            return np.asarray(place < self.real_rows(step))
        left = self.rows.lane_rows() - step * self.rows_per_lane
        return np.asarray(place % self.rows_per_lane < left[place // self.rows_per_lane])

    def place(self, step: int, steps: int, rank: int, world_size: int, index: Ids) -> tuple[Ids, Ids]:
        """The lanes of some of a rank's rows in steps [step, step + steps), by their places among `ids`, and which rows of these they are."""
        first, last = self.share(rank, world_size)
        place = first + index % (last - first)
        lane, row = place // self.rows_per_lane, place % self.rows_per_lane
        row += (step + index // (last - first)) * self.rows_per_lane
        even = self._even_of(step, steps)
        if (behind := index >= even * (last - first)).any():
            parts = [self.parts(step + more, rank, world_size) for more in range(even, steps)]
            rest = index[behind] - even * (last - first)
            lane[behind] = np.concatenate([np.repeat(lanes, counts) for lanes, _, counts in parts])[rest]
            rows = [
                first + np.arange(count)
                for _, firsts, counts in parts
                for first, count in zip(firsts, counts, strict=True)
            ]
            row[behind] = np.concatenate(rows)[rest]
        return lane, row % np.maximum(self.rows.lane_rows()[lane], 1)

    def next_rows(self, step: int, rank: int, world_size: int) -> Ids:
        """The first row of each lane that a rank takes from a step on, NEVER of lanes that are not its own."""
        lanes, rows, _ = self.parts(step, rank, world_size)
        found = np.full(self.lanes, NEVER)
        np.minimum.at(found, lanes, rows)
        return found

    def next_uses(self, epoch: int, share: tuple[int, int], ids: Ids, step: int = 0) -> Ids:
        """The step, from `step` on, at which a share of the global batch needs each row's block; -1 where it never does.

        Of a row that comes once in an epoch it is the only one, also where that was before. Where shares have parts of a lane, or
        epochs are repeated, a copy of a row that others take may hide a later one in this share.

        Rows that `drop_last` drops have a step past the epoch's end. Of what lanes have left after the even steps, all shares that
        have rows of the lane in other steps are taken to need it. In the natural order, blocks belong to all.
        """
        rows_per_lane = self.rows_per_lane
        after = np.full(self.lanes, step * rows_per_lane)
        if self.rows.has_copies:  # what comes in another lane as well counts where it comes in one of these
            begin = np.arange(self.lanes) * rows_per_lane
            is_other = (begin >= share[1]) | (begin + rows_per_lane <= share[0])
            after[is_other] = np.maximum(after, self.rows.lane_rows())[is_other]
        lane, first, end = self.rows.windows(epoch, ids, after)
        of_lane = np.maximum(lane, 0) * rows_per_lane
        low, high = np.maximum(share[0] - of_lane, 0), np.minimum(share[1] - of_lane, rows_per_lane)
        place = first % rows_per_lane
        row = first - place + np.where(place < low, low, np.where(place < high, place, rows_per_lane + low))
        even = self.even_steps * rows_per_lane
        row = np.where(row < np.minimum(end, even), row, np.where(end > even, np.maximum(first, even), -rows_per_lane))
        found = np.where(lane < 0, first, row) // rows_per_lane
        return np.where((first < end) & ((lane < 0) | (low < high)), found, -1)
