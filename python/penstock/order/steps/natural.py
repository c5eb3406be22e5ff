"""Steps of epochs that end where the rows of a lane stage do: a function of how many rows each lane has in that epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.rows.ends import BesideRows, CutRows, first_rows, lanes_of, parts_of, with_ends
from penstock.order.rows.lane_rows import LANE_ROWS, LaneRows
from penstock.order.rows.mixed import Mixed
from penstock.order.rows.rows_given import rows_given
from penstock.order.steps.batches import BatchOrder


@dataclass(frozen=True, kw_only=True)
class NaturalBatches(BatchOrder):
    """See `batches.BatchOrder`. A lane whose end is not known has more rows than ever come, so that what follows is right for steps that do not reach it.

    What fills up the last step are rows of the same step: the first ones of a lane are gone by then.
    """

    def __post_init__(self) -> None:
        """An epoch may have no step."""

    def of(self, ends: Ids) -> NaturalBatches:
        """The order of an epoch in which lanes of each stage give so many rows: int64 (stages, lanes), `LANE_ROWS` where that is not known."""
        return replace(self, rows=with_ends(self.rows, ends))

    @cached_property
    def ends(self) -> Ids:
        """How many rows the lanes of each stage give: int64 (stages, lanes), `LANE_ROWS` where that is not known."""
        return np.stack([leaf.lane_rows() for leaf in lanes_of(self.rows)])

    @property
    def is_known(self) -> bool:
        """Whether it is known how many steps there are: by the ends of all lanes, or since as many rows came as are taken."""
        return self.steps is not None or bool((self.ends < LANE_ROWS).all())

    @cached_property
    def given(self) -> Ids:
        """How many rows an epoch takes of the lanes of each stage, and those before them: int64 (stages, lanes)."""
        return self.given_before(self.rows.lane_rows())

    def given_before(self, row: Ids) -> Ids:
        """The same before row `row[lane]` of every lane."""
        found = rows_given(self.rows, 0, row)
        return np.stack([found[leaf.first_id] for leaf in lanes_of(self.rows)])

    @property
    def is_cut(self) -> bool:
        """Whether an epoch ends before its data does, as far as is known."""
        return bool((self.given < self.ends).any())

    @property
    def takes_all(self) -> bool:
        """Whether an epoch has all rows of the one stage, as far as is known."""
        return len(self.ends) == 1 and np.array_equal(self.rows.lane_rows(), self.ends[0])

    @property
    def pairs_all(self) -> bool:
        """Whether all rows of several stages are paired, so that each must end where the others do."""
        kinds = {type(part) for part in parts_of(self.rows)}
        return BesideRows in kinds and not kinds & {CutRows, Mixed}

    @property
    def is_single(self) -> bool:
        """Whether rows come as the one stage gives them."""
        return isinstance(self.rows, LaneRows)

    @cached_property
    def samples(self) -> int:
        """Rows of an epoch."""
        return int(self.rows.lane_rows().sum())

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
        most = self.samples if self.samples < LANE_ROWS else None
        steps = (
            f"{self.steps_per_epoch:,} steps in the first epoch"
            if self.is_known
            else f"as many steps an epoch as the data gives{'' if most is None else f', of {most:,} rows at most in all'}"
        )
        return [f"{steps}, {self.batch_size} rows each, from {self.lanes} lanes", self.rows.words]

    def rows_before(self, step: int) -> Ids:
        """How many rows of each lane are taken before a step."""
        return first_rows(self.rows.lane_rows(), self.rows_per_lane, min(step * self.batch_size, self.samples))
