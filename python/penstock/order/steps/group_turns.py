"""In which order groups of rows, each of so many steps, take their turns in an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Ids
from penstock.core.kernels import EpochOrder
from penstock.order.keys import BUCKET_KEY


@dataclass(frozen=True)
class Turns:
    """Which group each step of an epoch takes, and how many of its steps came before; of each group, its steps."""

    group: Ids
    ordinal: Ids
    steps: tuple[Ids, ...]


@lru_cache(maxsize=8)
def turns_of(steps: tuple[int, ...], seed: int | None, epoch: int) -> Turns:
    """The turns of groups that have so many steps, by chance; with seed None one after the other."""
    total = sum(steps)
    group = np.repeat(np.arange(len(steps)), steps)
    if seed is not None and total:
        key = kernels.mix([seed, epoch, BUCKET_KEY])
        group = group[EpochOrder.shuffled(total, 1, 1, 1, 1, key).lane_ids(0, 0, total)]
    turn = np.argsort(group, kind="stable")
    edges = np.cumsum([0, *steps])
    ordinal = np.empty(total, dtype=np.int64)
    ordinal[turn] = np.arange(total) - np.repeat(edges[:-1], steps)
    return Turns(group, ordinal, tuple(np.split(turn, edges[1:-1])))
