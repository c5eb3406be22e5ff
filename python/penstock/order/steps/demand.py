"""The order of what a lane stage is fed with: work takes rows of it by demand (see `asked.AskedOfLanes`), and no step is the same for all lanes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder
from penstock.order.rows.ends import lanes_of
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.batches import BatchOrder


@dataclass(frozen=True, kw_only=True)
class DemandOrder(BatchOrder):
    """See `batches.BatchOrder`: one endless epoch, of which batches say only how many lanes there are, and which of them a rank has.

    epochs: the same rows in epochs as the data has them, if they have an end. has_ends: each epoch is one by itself, which ends where these rows do.
    """

    epochs: RowOrder
    has_ends: bool = False

    @cached_property
    def epoch_rows(self) -> Ids | None:
        """How many rows of each lane an epoch has; None if it has no end."""
        rows = self.epochs.lane_rows()
        if self.has_ends:
            return None if lanes_of(self.epochs) else rows
        return rows if rows.min() < LANE_ROWS else None
