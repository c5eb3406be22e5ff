"""Rows one by one, whichever are asked for by their ids (see `steps.asked.AskedById`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder, Shape


@dataclass(frozen=True, kw_only=True)
class ListedRows(RowOrder):
    """See `protocol.RowOrder`. Rows of `input`, each read by itself."""

    input: RowOrder

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return Shape(lanes=1, rows_per_lane=1)

    @property
    def is_listed(self) -> bool:
        """They are."""
        return True

    @property
    def has_draws(self) -> bool:
        """Whether sources are in other epochs than the plan."""
        return self.input.has_draws

    def lane_rows(self) -> Ids:
        """One row, since there is no order."""
        return np.ones(1, dtype=np.int64)

    def with_followers(self, ids: Ids) -> tuple[Ids, Ids | None]:
        """Ids, then those of the rows that follow them."""
        return self.input.with_followers(ids)

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """No rows come by themselves."""
        raise NotImplementedError

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Every row is a block."""
        return ids, ids + 1, np.arange(len(ids))

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: at once."""
        return lane, row + 1

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: whenever they are asked for."""
        return np.zeros_like(ids), np.zeros_like(ids), np.ones_like(ids)
