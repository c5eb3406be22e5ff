"""The shuffled order: blocks dealt to the lanes in another order every epoch, rows mixed within windows of blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from penstock.core.kernels import EpochOrder, Epochs, mix
from penstock.order.keys import ORDER_KEY
from penstock.order.protocol import Shape
from penstock.order.rows.natural import Natural


@dataclass(frozen=True, kw_only=True)
class Shuffled(Natural):
    """See `protocol.RowOrder`; `wanted_rows` are stretched by up to a quarter so that few rows are left over."""

    seed: int
    window_blocks: int = 1

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return replace(super().shape, window_blocks=self.window_blocks, is_shuffled=True)

    def epoch(self, epoch: int) -> EpochOrder:
        """The native order of an epoch, of places."""
        sizes = self.segments.rows, self.lanes, self.rows_per_lane, self.wanted_rows, self.window_blocks
        return _shuffled(*sizes, self.seed, epoch)

    @cached_property
    def _epochs(self) -> Epochs:
        return self._native_epochs(self.window_blocks, (self.seed, ORDER_KEY))


@lru_cache(maxsize=4096)
def _shuffled(
    rows: int, lanes: int, rows_per_lane: int, wanted_rows: int, window_blocks: int, seed: int, epoch: int
) -> EpochOrder:
    key = mix([seed, epoch, ORDER_KEY])
    return EpochOrder.shuffled(rows, lanes, rows_per_lane, wanted_rows, window_blocks, key)
