"""What a cache keeps: that which is needed soonest (Belady, 1966). Numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.core.spec import Ids

#: Seconds until something is needed, infinite for never.
Expected = npt.NDArray[np.float64]

#: When room is made, this share of the limit is freed at once, so that not every piece has to look for what to drop.
FREED_SHARE = 0.02


class Forecast(Protocol):
    """What somebody knows of the future."""

    @property
    def margin_s(self) -> float:
        """By so much sooner must something be needed to take the place of something else."""

    def __call__(self, begin: Ids) -> Expected:
        """In how many seconds the pieces that begin at some places are needed next; NaN for places it knows nothing of."""


@dataclass(frozen=True, eq=False)
class Choice:
    """dropped: rows of what is held. kept: rows of what is new. until_s: what is needed later than this is not worth a place."""

    dropped: Ids
    kept: Ids
    until_s: float


def choose(held: Expected, held_bytes: Ids, new: Expected, new_bytes: Ids, *, excess: int, spare: int) -> Choice:
    """Makes room for what is new among what is held, by dropping what is needed last.

    excess: bytes by which both together exceed the limit. spare: bytes that are freed beyond that. What is held goes only for something that
    is needed sooner.

    choose(np.array([9.0, 1.0, 5.0]), np.full(3, 10), np.array([2.0]), np.array([10]), excess=10, spare=0).dropped == [0]
    """
    if excess + spare <= 0:
        return Choice(np.empty(0, dtype=np.int64), np.arange(len(new)), np.inf)
    turn = np.argsort(-held, kind="stable")
    later = int(np.searchsorted(-held[turn], -new.min() if len(new) else np.inf, side="left"))
    freed = np.cumsum(held_bytes[turn])
    count = min(later, int(np.searchsorted(freed, excess + spare)) + 1)
    dropped = turn[:count]
    until_s = float(held[dropped[-1]]) if count else (float(held[turn[0]]) if len(held) else np.inf)
    # What does not fit all the same goes without, the last one needed first.
    left = excess - (int(freed[count - 1]) if count else 0)
    order = np.argsort(-new, kind="stable")
    without = int(np.searchsorted(np.cumsum(new_bytes[order]), left)) + 1 if left > 0 else 0
    kept = np.sort(order[without:])
    return Choice(dropped, kept[new[kept] < until_s] if count else kept, until_s)
