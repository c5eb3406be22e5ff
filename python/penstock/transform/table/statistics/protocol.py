"""What a statistic answers."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy.typing as npt

from penstock.core.columns.row_sources import RowSources


class Block:
    """A column of some rows, as a statistic takes it. values: an array of float64, NaN where missing, or for categories an Arrow array.

    target: that of `Target`: an array of float64, else of Arrow; rows: the rows' ids, and sources: what they are ids in.
    """

    __slots__ = ("rows", "sources", "target", "values")

    def __init__(
        self,
        values: Any,
        target: Any = None,
        rows: npt.NDArray[Any] | None = None,
        sources: RowSources | None = None,
    ) -> None:
        self.values, self.target, self.rows, self.sources = values, target, rows, sources


class Statistic(Protocol):
    """Adds up over blocks; what one block or part gives never depends on another. takes_floats: whether it takes float64, else Arrow arrays."""

    takes_floats: bool

    def add(self, block: Block) -> None:
        """Takes some rows. RowError for a row that it cannot take."""

    def merge(self, other: Self) -> None:
        """Takes what another one took."""

    def next(self) -> Self | None:
        """What must be gathered in another pass over the same rows; None where nothing."""
