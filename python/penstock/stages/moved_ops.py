"""The end of a chain of ops that a device does, after the copy, in place of the CPU before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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

    def drawn(self, epoch: int, keys: Ids, shape: tuple[int, ...]) -> tuple[Bytes | None, npt.NDArray[np.int32] | None]:
        """What the rows of a batch of this shape drew, see `DeviceKernel`: flags and patches. See `Item.draw_of` for epoch and keys."""
        key = kernels.mix([self.seed, epoch, TRANSFORM_KEY, *self.draw])
        return self.kernel.flags(key, keys), self.kernel.patches(key, keys, shape)
