"""The shuffled order of rows that can only be read ascending: mixed within windows of neighbouring ones, as they come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from penstock.core.kernels import EpochOrder, Epochs, mix
from penstock.order.keys import ORDER_KEY
from penstock.order.protocol import Shape
from penstock.order.rows.natural import Natural

#: Rows of all open windows together, where none are given.
WINDOW_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Streamed(Natural):
    """See `protocol.RowOrder`. window_rows: of the windows of all lanes together."""

    seed: int
    window_rows: int = WINDOW_ROWS

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        window_blocks = self.epoch(0).window_blocks
        return replace(super().shape, window_blocks=window_blocks, is_shuffled=True)

    def epoch(self, epoch: int) -> EpochOrder:
        """The native order of an epoch, of places."""
        return _streamed(self.segments.rows, self.lanes, self.rows_per_lane, self.window_rows, self.seed, epoch)

    def native_epochs(self) -> Epochs | None:
        """A mix takes its rows one by one: streams are slower than that."""
        return None


@lru_cache(maxsize=64)
def _streamed(rows: int, lanes: int, rows_per_lane: int, window_rows: int, seed: int, epoch: int) -> EpochOrder:
    return EpochOrder.streamed(rows, lanes, rows_per_lane, window_rows, mix([seed, epoch, ORDER_KEY]))
