"""Steps of epochs that end where the rows of a lane stage do: a function of how many rows each lane has in that epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        """Whether the ends of all lanes are known."""
        return bool((self.rows.lane_rows() < LANE_ROWS).all())

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
        steps = (
            f"{self.steps_per_epoch:,} steps in the first epoch"
            if self.is_known
            else "as many steps an epoch as the data gives"
        )
        return [f"{steps}, {self.batch_size} rows each, from {self.lanes} lanes", self.rows.words]

    def rows_before(self, step: int) -> Ids:
        """How many rows of each lane are taken before a step."""
        ends, even = self.rows.lane_rows(), min(step, self.even_steps) * self.rows_per_lane
        taken = np.minimum(ends, even)
        left = ends - taken
        rest = max(0, step - self.even_steps) * self.batch_size
        return np.asarray(taken + np.clip(rest - (np.cumsum(left) - left), 0, left))
