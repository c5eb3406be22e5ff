"""What a device does of a plan, after the copy, in place of the CPU before it: the end of a chain of ops, and an op on whole batches behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from penstock.core import kernels
from penstock.core.draw_keys import DrawKeys
from penstock.order.keys import BATCH_KEY, TRANSFORM_KEY
from penstock.runtime.stage import Columned, ItemPart
from penstock.transform.family import DeviceKernel, DeviceMix


@dataclass(frozen=True, kw_only=True)
class BatchDraws:
    """By what an op on whole batches draws. number: keys it, beside seed and epoch. together: see `Workspace`, of a full step. is_full: whether a step of an epoch is."""

    seed: int
    number: int
    together: int
    is_full: Callable[[int], bool]

    def of(self, item: Columned, part: ItemPart) -> tuple[DrawKeys, int]:
        """The keys of an item's rows, which are one step, and how many of these the op takes together."""
        step, (epoch, rows) = item.work.step_in_epoch, item.draw_of(part, is_frozen=False)
        key, of_step = (kernels.mix([self.seed, epoch, BATCH_KEY, self.number, *some]) for some in ([], [step or 0]))
        if step is None:
            return DrawKeys(rows, key), 1
        return DrawKeys(rows, key, of_step), self.together if self.is_full(step) else 1


@dataclass(frozen=True, kw_only=True)
class MovedMix:
    """The images of an op on whole batches. kernel: None in a plan that is described only. words: the op, for people."""

    kernel: DeviceMix | None
    draws: BatchDraws
    words: str

    def drawn(self, item: Columned, part: ItemPart) -> Mapping[str, npt.NDArray[Any]]:
        """See `DeviceMix`."""
        assert self.kernel is not None
        return self.kernel.mixed(*self.draws.of(item, part))


@dataclass(frozen=True, kw_only=True)
class MovedOps:
    """The end of one column's chain. draw: the two numbers that key the chain's random choices, beside seed and epoch. mix: what mixes the images that come of it, if any does."""

    kernel: DeviceKernel
    seed: int
    draw: tuple[int, int]
    mix: MovedMix | None = None

    @property
    def words(self) -> str:
        """The ops of the device, for people."""
        return self.kernel.words if self.mix is None else f"{self.kernel.words}, {self.mix.words}"

    def drawn(self, item: Columned, part: ItemPart, shape: tuple[int, ...]) -> dict[str, npt.NDArray[Any]]:
        """What the rows of a batch of bytes of this shape drew, by kind: "flags" and "patches" (see `DeviceKernel`), and what `DeviceMix` says."""
        epoch, keys = item.draw_of(part, is_frozen=False)
        key = kernels.mix([self.seed, epoch, TRANSFORM_KEY, *self.draw])
        made = {"flags": self.kernel.flags(key, keys), "patches": self.kernel.patches(key, keys, shape)}
        made |= {} if self.mix is None else self.mix.drawn(item, part)
        return {kind: drawn for kind, drawn in made.items() if drawn is not None}
