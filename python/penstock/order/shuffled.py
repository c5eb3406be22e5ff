"""The shuffled order: blocks dealt to the lanes in another order every epoch, rows mixed within windows of blocks."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core import kernels
from penstock.order.keys import ORDER_KEY
from penstock.order.natural import Natural


@dataclass(frozen=True, kw_only=True)
class Shuffled(Natural):
    """See `protocol.RowOrder`; `wanted_rows` are stretched by up to a quarter so that few rows are left over."""

    seed: int
    windows_of: int = 1

    @property
    def is_shuffled(self) -> bool:
        """Whether epochs differ."""
        return True

    @property
    def window_blocks(self) -> int:
        """Blocks of a lane among which rows are mixed."""
        return self.windows_of

    def make_epoch(self, epoch: int) -> kernels.EpochOrder:
        """The native order of an epoch."""
        sizes = self.segments.rows, self.lanes, self.rows_per_lane, self.wanted_rows
        return kernels.EpochOrder.shuffled(*sizes, self.windows_of, kernels.mix([self.seed, epoch, ORDER_KEY]))
