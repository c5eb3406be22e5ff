"""Random numbers of a batch's own: the global generators are seeded for it, and put back afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

_MASK = (1 << 64) - 1


def seed_of(base_seed: int, batch: int) -> int:
    """64 bits for a batch of an epoch whose seed is `base_seed` (splitmix64 of both)."""
    mixed = (base_seed + (batch + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)


def seed_all(seed: int) -> None:
    """Seeds the generators of random, NumPy and torch's CPU; those of devices are left alone."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002  # that one is meant
    torch.default_generator.manual_seed(seed)


class Drawn:
    """Whether a batch drew random numbers."""

    any = False


@contextmanager
def seeded(seed: int, *, looks: bool) -> Iterator[Drawn]:
    """Runs with seeded generators, which are put back. looks: whether to find out if any number was drawn."""
    drawn, before = Drawn(), _states()
    seed_all(seed)
    begun = _states() if looks else None
    try:
        yield drawn
        if begun is not None:
            now = _states()
            drawn.any = (
                begun[0] != now[0] or not np.array_equal(begun[1][1], now[1][1]) or begun[1][2] != now[1][2]
            ) or not torch.equal(begun[2], now[2])
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.default_generator.set_state(before[2])


def _states() -> tuple[Any, Any, torch.Tensor]:
    return random.getstate(), np.random.get_state(), torch.default_generator.get_state()  # noqa: NPY002
