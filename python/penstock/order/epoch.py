"""The order of all epochs: which samples a rank gets at (epoch, step). Numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.core.spec import Ids
from penstock.order.lanes import share_of_rank

#: Purposes of keys; a key made for one purpose says nothing about another.
ORDER_KEY, TRANSFORM_KEY, SHARD_KEY, SOURCE_KEY = 1, 2, 3, 4


class Last(StrEnum):
    """What becomes of the last samples of an epoch if they do not fill a batch."""

    SHORT = "short"
    DROP = "drop"
    PAD = "pad"
    WRAP = "wrap"


@dataclass(frozen=True, kw_only=True)
class Order:
    """The whole arithmetic of a plan's order. `batch_size` is the global batch's; `seed` None is the natural order.

    steps: how many an epoch has where that is not for these samples alone to say: fewer than they give, or with pad and wrap more.
    """

    samples: int
    batch_size: int
    lanes: int
    block_rows: int = 1
    window_blocks: int = 1
    seed: int | None = None
    last: Last = Last.SHORT
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size % self.lanes:
            raise PlanError(f"lanes={self.lanes} does not divide the batch size {self.batch_size}")
        if self.steps_per_epoch == 0:
            raise PlanError(
                f"batch size {self.batch_size} is larger than the dataset ({self.samples:,} samples) and drop_last drops it; "
                f"use a smaller batch or pad=True"
            )

    @property
    def rows_per_lane(self) -> int:
        """Rows that a step takes from every lane."""
        return self.batch_size // self.lanes

    @property
    def full_steps(self) -> int:
        """Steps of an epoch whose batch is full of samples."""
        full = self.samples // self.batch_size
        return full if self.steps is None else min(full, self.steps)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch, the same on every rank."""
        if self.steps is not None:
            return self.steps
        rest = self.samples % self.batch_size and self.last is not Last.DROP
        return self.full_steps + bool(rest)

    def epoch(self, epoch: int) -> kernels.EpochOrder:
        """The native order of one epoch."""
        return _epoch_of(self, epoch)

    def share(self, rank: int, world_size: int) -> tuple[int, int]:
        """The places [first, last) of every full global batch that a rank takes; PlanError if it cannot be shared equally.

        Whole lanes where the number of ranks divides that of the lanes; otherwise neighbouring ranks share some.
        """
        return share_of_rank(self.batch_size, rank, world_size)

    def check_ranks(self, world_size: int) -> None:
        """PlanError if the ranks cannot share a batch equally, or the last, short one leaves a rank without a row."""
        self.share(0, world_size)
        rest = self.samples % self.batch_size
        if self.last is Last.SHORT and 0 < rest < world_size:
            raise PlanError(
                f"the last global batch has {rest} rows, too few for {world_size} ranks; "
                f"choose drop_last=True, pad=True or wrap=True in batch(…)"
            )

    def parts(self, step: int, rank: int, world_size: int) -> tuple[Ids, Ids, Ids]:
        """Where a rank's rows of a step lie: in which lanes, from which row of each lane on, and how many (all int64).

        Lanes take equal parts of the step, and so do ranks: of a full one exactly, of the last, short one as nearly as can be.
        """
        is_short = step >= self.full_steps and self.last is Last.SHORT
        rows = self.samples % self.batch_size if is_short else self.batch_size
        edges = np.arange(self.lanes + 1, dtype=np.int64) * rows // self.lanes
        first = np.maximum(edges[:-1], rank * rows // world_size)
        count = np.minimum(edges[1:], (rank + 1) * rows // world_size) - first
        lanes = np.flatnonzero(count > 0)
        return lanes, step * self.rows_per_lane + (first - edges[:-1])[lanes], count[lanes]

    def ids(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids:
        """Sample ids of a rank's rows in steps [step, step + steps): int64, step after step, lane after lane.

        The ranks' ids, joined in rank order, are the same for every number of ranks.
        """
        share = self.share(rank, world_size)
        if step + steps <= self.full_steps or self.last is not Last.SHORT:
            found = np.empty(steps * (share[1] - share[0]), dtype=np.int64)
            self.epoch(epoch).step_ids(share, step, found, threads)
            return found
        full = self.ids(epoch, step, steps - 1, rank, world_size, threads) if steps > 1 else np.empty(0, dtype=np.int64)
        last = self.parts(step + steps - 1, rank, world_size)
        return np.concatenate([full, *map(self.epoch(epoch).lane_ids, *(column.tolist() for column in last))])

    def valid(self, epoch: int, step: int, rank: int, world_size: int) -> npt.NDArray[np.bool_]:
        """Which rows of a rank's batch are samples and not padding: all True but in the last steps with pad or wrap."""
        first, last = self.share(rank, world_size)
        if step < self.full_steps:
            return np.ones(last - first, dtype=bool)
        place = np.arange(first, last)
        left = np.array([self.epoch(epoch).lane_rows(lane) for lane in range(self.lanes)]) - step * self.rows_per_lane
        return np.asarray(place % self.rows_per_lane < left[place // self.rows_per_lane])


@lru_cache(maxsize=64)
def _epoch_of(order: Order, epoch: int) -> kernels.EpochOrder:
    sizes = order.samples, order.lanes, order.rows_per_lane, order.block_rows
    if order.seed is None:
        return kernels.EpochOrder.natural(*sizes)
    return kernels.EpochOrder.shuffled(*sizes, order.window_blocks, kernels.mix([order.seed, epoch, ORDER_KEY]))
