"""Steps of epochs that end where the rows of a lane stage do: a function of how many rows each lane has in that epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.rows.lane_rows import LANE_ROWS, LaneRows
from penstock.order.steps.batches import BatchOrder


@dataclass(frozen=True, kw_only=True)
class NaturalBatches(BatchOrder):
    """See `batches.BatchOrder`. A lane whose end is not known has more rows than ever come, so that what follows is right for steps that do not reach it.

    What fills up the last step are rows of the same step: the first ones of a lane are gone by then.
    """

    def __post_init__(self) -> None:
        """An epoch may have no step."""

    def of(self, ends: Ids) -> NaturalBatches:
        """The order of an epoch in which lanes have so many rows, `LANE_ROWS` where that is not known."""
        return replace(self, rows=replace(cast("LaneRows", self.rows), ends=ends))

    @property
    def is_known(self) -> bool:
        """Whether it is known how many steps there are: by the ends of all lanes, or since as many rows came as are taken."""
        return self.steps is not None or bool((self.rows.lane_rows() < LANE_ROWS).all())

    @property
    def is_cut(self) -> bool:
        """Whether an epoch ends before its data does, as far as is known."""
        return self.samples < int(self.rows.lane_rows().sum())

    @cached_property
    def samples(self) -> int:
        """Rows of an epoch."""
        rows, most = int(self.rows.lane_rows().sum()), cast("LaneRows", self.rows).most
        return rows if most is None else min(rows, most)

    @cached_property
    def whole_steps(self) -> int:
        """Steps that take equal parts of all lanes, and are full."""
        return min(self.even_steps, self.full_steps)

    def _even_of(self, step: int, steps: int) -> int:
        return min(steps, max(0, self.whole_steps - step))

    @property
    def fills_lanes(self) -> bool:
        """None begins anew."""
        return False

    def check_ranks(self, world_size: int) -> None:
        """PlanError if ranks cannot share a batch equally; whether the last one leaves a rank without a row is known with the ends."""
        self.share(0, world_size)
        if self.is_known:
            super().check_ranks(world_size)

    def in_words(self, world_size: int) -> list[str]:
        """How many steps there are, as far as is known, then where rows come from."""
        most = cast("LaneRows", self.rows).most
        steps = (
            f"{self.steps_per_epoch:,} steps in the first epoch"
            if self.is_known
            else f"as many steps an epoch as the data gives{'' if most is None else f', of {most:,} rows at most in all'}"
        )
        return [f"{steps}, {self.batch_size} rows each, from {self.lanes} lanes", self.rows.words]

    def rows_before(self, step: int) -> Ids:
        """How many rows of each lane are taken before a step."""
        ends, even = self.rows.lane_rows(), min(step, self.even_steps) * self.rows_per_lane
        taken = np.minimum(ends, even)
        left = ends - taken
        rest = max(0, min(step * self.batch_size, self.samples) - self.even_steps * self.batch_size)
        return np.asarray(taken + np.clip(rest - (np.cumsum(left) - left), 0, left))
