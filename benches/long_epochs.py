"""Epochs that do not end, and rates in the midst of them.

Where an epoch is short, a DataLoader's workers run dry at its end, and a loader that reads ahead into the next one looks up to a quarter too fast. And whoever waited for its
turn has batches ready, which no clock saw being made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler


class Endless(Sampler[int]):
    """The numbers below `count`, again and again, as one epoch; each time in another order if they are shuffled."""

    def __init__(self, count: int, *, shuffle: bool = False) -> None:
        self._count, self._shuffle = count, shuffle

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from torch.randperm(self._count).tolist() if self._shuffle else range(self._count)


def endless(loader: Any) -> Iterator[Any]:
    """Batches of epoch after epoch."""
    while True:
        yield from loader


def batches_in(batches: Iterator[Any], seconds: float) -> tuple[int, float]:
    """How many come in about so many seconds, and in how many exactly."""
    taken, began_at = 0, time.perf_counter()
    while (took_s := time.perf_counter() - began_at) < seconds:
        next(batches)
        taken += 1
    return taken, took_s


def steady_rate(batches: Iterator[Any], seconds: float) -> float:
    """Batches a second, behind half as many seconds that do not count: what was ready is gone by then."""
    batches_in(batches, seconds / 2)
    taken, took_s = batches_in(batches, seconds)
    return taken / took_s
