"""The order of all epochs: which samples a rank gets at (epoch, step). Numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock import kernels
from penstock.errors import PlanError
from penstock.order.lanes import lanes_of_rank
from penstock.spec import Ids

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
    def hand(self) -> int:
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

    def check_ranks(self, world_size: int) -> None:
        """PlanError if the ranks cannot share the lanes, or the last, short batch leaves one without a row."""
        lanes_of_rank(self.lanes, 0, world_size)
        rest = self.samples % self.batch_size
        if self.last is Last.SHORT and rest and min(self.rows_of_last(r, world_size) for r in range(world_size)) == 0:
            raise PlanError(
                f"the last global batch has {rest} rows, too few for {world_size} ranks; "
                f"choose drop_last=True, pad=True or wrap=True in batch(…)"
            )

    def rows_of_last(self, rank: int, world_size: int) -> int:
        """Rows of the last, short local batch that are in the dataset (not padding)."""
        epoch = self.epoch(0)
        done = self.full_steps * self.hand
        first, last = lanes_of_rank(self.lanes, rank, world_size)
        return sum(epoch.lane_rows(lane) - done for lane in range(first, last))

    def ids(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids:
        """Sample ids of a rank's rows in steps [step, step + steps): int64, step after step, lane after lane.

        The ranks' ids, joined in rank order, are the same for every number of ranks.
        """
        lanes = lanes_of_rank(self.lanes, rank, world_size)
        if step + steps <= self.full_steps or self.last is not Last.SHORT:
            found = np.empty(steps * (lanes[1] - lanes[0]) * self.hand, dtype=np.int64)
            self.epoch(epoch).step_ids(lanes, step, found, threads)
            return found
        parts = [self.ids(epoch, step, steps - 1, rank, world_size, threads)] if steps > 1 else []
        return np.concatenate([*parts, *self._last_ids(epoch, lanes)])

    def _last_ids(self, epoch: int, lanes: tuple[int, int]) -> list[Ids]:
        order, done = self.epoch(epoch), self.full_steps * self.hand
        return [order.lane_ids(lane, done, order.lane_rows(lane) - done) for lane in range(*lanes)]

    def valid(self, epoch: int, step: int, rank: int, world_size: int) -> npt.NDArray[np.bool_]:
        """Which rows of a rank's batch are samples and not padding: all True but in the last steps with pad or wrap."""
        lanes = lanes_of_rank(self.lanes, rank, world_size)
        rows = (lanes[1] - lanes[0]) * self.hand
        if step < self.full_steps:
            return np.ones(rows, dtype=bool)
        left = [self.epoch(epoch).lane_rows(lane) - step * self.hand for lane in range(*lanes)]
        return (np.arange(self.hand) < np.array(left)[:, None]).reshape(-1)


@lru_cache(maxsize=64)
def _epoch_of(order: Order, epoch: int) -> kernels.EpochOrder:
    sizes = order.samples, order.lanes, order.hand, order.block_rows
    if order.seed is None:
        return kernels.EpochOrder.natural(*sizes)
    return kernels.EpochOrder.shuffled(*sizes, order.window_blocks, kernels.mix([order.seed, epoch, ORDER_KEY]))
