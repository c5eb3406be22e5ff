"""Rows by demand: each piece of work takes rows of some lanes, as many as a lane stage asks for, and no step is the same for all lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from penstock.core.spec import Ids
from penstock.order.batches import BatchOrder
from penstock.order.lane_rows import LANE_ROWS
from penstock.order.protocol import RowOrder


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Rows [first[i], first[i] + count[i]) of lane[i]; next_row: the first row of each lane of the order that nothing has asked for yet, NEVER of lanes that nobody asks for here."""

    lane: Ids
    first: Ids
    count: Ids
    next_row: Ids

    @cached_property
    def edges(self) -> Ids:
        """Where each lane's rows begin among all of them, and the end."""
        return np.concatenate([[0], np.cumsum(self.count)])


@dataclass(frozen=True, kw_only=True)
class DemandOrder(BatchOrder):
    """See `batches.BatchOrder`. Work number n, of one step, takes the rows of asked[n]; `rows` has one endless epoch.

    epochs: the same rows in epochs as the data has them, if they have an end.
    """

    epochs: RowOrder
    asked: dict[int, Asked] = field(default_factory=dict)

    @cached_property
    def epoch_rows(self) -> Ids | None:
        """How many rows of each lane an epoch has; None if it has no end."""
        rows = self.epochs.lane_rows()
        return rows if rows.min() < LANE_ROWS else None

    def step_of(self, work: int) -> int | None:
        """None: no step has these rows yet."""
        return None

    def ids(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids:
        """Ids of the rows of a piece of work, lane after lane."""
        asked = self.asked[step]
        return self.rows.rows_of_lanes(epoch, asked.lane, asked.first, asked.count)

    def draws(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids | None:
        """The draws of the same rows."""
        if not self.rows.has_draws:
            return None
        asked = self.asked[step]
        return self.rows.rows_of_lanes(epoch, asked.lane, asked.first, asked.count, draws=True)

    def place(self, step: int, steps: int, rank: int, world_size: int, index: Ids) -> tuple[Ids, Ids]:
        """The lanes of some of a work's rows, by their places among `ids`, and which rows of these they are."""
        asked = self.asked[step]
        which = np.searchsorted(asked.edges[1:], index, side="right")
        return asked.lane[which], asked.first[which] + index - asked.edges[which]

    def next_rows(self, step: int, rank: int, world_size: int) -> Ids:
        """The first row of each lane that the work of this number or later ones take, NEVER of lanes that are not this rank's."""
        asked = self.asked.get(step)
        if asked is None:
            return self.asked[step - 1].next_row
        found = asked.next_row.copy()
        np.minimum.at(found, asked.lane, asked.first)
        return found
