"""Which rows a piece of work takes where it is no step of an epoch: it carries them itself.

A lane stage asks for rows of those lanes that have fewest left, in pieces of any size; what stands in for bad rows is asked for by ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.order.protocol import NEVER, RowOrder


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedRows(ABC):
    """Rows that are asked for, of an order. step: the step of the epoch whose rows they are to be; None where no step has them yet."""

    step: int | None = None

    @abstractmethod
    def ids(self, rows: RowOrder, epoch: int) -> Ids:
        """Their ids."""

    @abstractmethod
    def draws(self, rows: RowOrder, epoch: int) -> Ids | None:
        """Their draws; None where all are the epoch."""

    @abstractmethod
    def place(self, index: Ids) -> tuple[Ids, Ids]:
        """The lanes of some of them, by their places among `ids`, and which rows of these lanes they are."""

    @abstractmethod
    def next_rows(self, *, after: bool = False) -> Ids:
        """The first row of each lane that this work or later work takes; `after`: that later work takes. NEVER of lanes of other ranks."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedOfLanes(AskedRows):
    """Rows [first[i], first[i] + count[i]) of lane[i], one after the other.

    later: the first row of each lane of the order that nothing has asked for yet, NEVER of lanes that nobody asks for here. is_last: behind which of these
    lanes no row comes in this epoch; None where lanes have no end.
    """

    lane: Ids
    first: Ids
    count: Ids
    later: Ids
    is_last: npt.NDArray[np.bool_] | None = None

    @cached_property
    def edges(self) -> Ids:
        """Where each lane's rows begin among all of them, and the end."""
        return np.concatenate([[0], np.cumsum(self.count)])

    def ids(self, rows: RowOrder, epoch: int) -> Ids:
        """Their ids, lane after lane."""
        return rows.rows_of_lanes(epoch, self.lane, self.first, self.count)

    def draws(self, rows: RowOrder, epoch: int) -> Ids | None:
        """Their draws."""
        return rows.rows_of_lanes(epoch, self.lane, self.first, self.count, draws=True) if rows.has_draws else None

    def place(self, index: Ids) -> tuple[Ids, Ids]:
        """The lanes of some of them, and which rows of these lanes they are."""
        which = np.searchsorted(self.edges[1:], index, side="right")
        return self.lane[which], self.first[which] + index - self.edges[which]

    def next_rows(self, *, after: bool = False) -> Ids:
        """The first row of each lane that is still to come."""
        if after:
            return self.later
        found = self.later.copy()
        np.minimum.at(found, self.lane, self.first)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedById(AskedRows):
    """Rows by their ids, whichever they are: each is read by itself, so that nothing stays open for later ones."""

    row_ids: Ids
    row_draws: Ids | None = None

    def ids(self, rows: RowOrder, epoch: int) -> Ids:
        """The ids that were asked for."""
        return self.row_ids

    def draws(self, rows: RowOrder, epoch: int) -> Ids | None:
        """Their draws."""
        return self.row_draws

    def place(self, index: Ids) -> tuple[Ids, Ids]:
        """They stand in no lane; all are in the one lane of `rows.by_id.ListedRows`."""
        return np.zeros_like(index), np.zeros_like(index)

    def next_rows(self, *, after: bool = False) -> Ids:
        """None comes by itself."""
        return np.array([NEVER])
