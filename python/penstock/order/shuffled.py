"""The shuffled order: blocks dealt to the lanes in another order every epoch, rows mixed within windows of blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from penstock.core import kernels
from penstock.order.keys import ORDER_KEY
from penstock.order.natural import Natural
from penstock.order.protocol import Shape


@dataclass(frozen=True, kw_only=True)
class Shuffled(Natural):
    """See `protocol.RowOrder`; `wanted_rows` are stretched by up to a quarter so that few rows are left over."""

    seed: int
    window_blocks: int = 1

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return replace(super().shape, window_blocks=self.window_blocks, is_shuffled=True)

    def make_epoch(self, epoch: int) -> kernels.EpochOrder:
        """The native order of an epoch."""
        sizes = self.segments.rows, self.lanes, self.rows_per_lane, self.wanted_rows
        return kernels.EpochOrder.shuffled(*sizes, self.window_blocks, kernels.mix([self.seed, epoch, ORDER_KEY]))

    @cached_property
    def _epochs(self) -> kernels.Epochs:
        return self._native_epochs(self.window_blocks, (self.seed, ORDER_KEY))
