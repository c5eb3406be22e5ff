"""The end of a chain of ops that a device does, after the copy, in place of the CPU before it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, Ids
from penstock.order.keys import TRANSFORM_KEY
from penstock.transform.family import DeviceKernel


@dataclass(frozen=True, kw_only=True)
class MovedOps:
    """The end of one column's chain. draw: the two numbers that key the chain's random choices, beside seed and epoch."""

    kernel: DeviceKernel
    seed: int
    draw: tuple[int, int]

    def flags(self, epoch: int, keys: Ids) -> Bytes | None:
        """What each row drew, as bits; None where nothing is drawn. See `Item.draw_of` for epoch and keys."""
        return self.kernel.flags(kernels.mix([self.seed, epoch, TRANSFORM_KEY, *self.draw]), keys)
