"""What a cache holds: the pieces that are needed soonest (Belady, 1966). Numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids

#: Seconds until something is needed, infinite for never.
Expected = npt.NDArray[np.float64]

#: An eviction frees this share of the limit at once, so that not every piece has to search for victims.
FREED_SHARE = 0.02


class Forecast(Protocol):
    """When pieces will be needed."""

    @property
    def margin_s(self) -> float:
        """How many seconds sooner a piece must be needed to replace another."""

    def __call__(self, begin: Ids) -> Expected:
        """Seconds until the pieces that begin at some positions are needed next; NaN for unknown positions."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What to evict and store. dropped: rows of held pieces. kept: rows of new pieces. until_s: pieces needed later are not worth storing."""

    dropped: Ids
    kept: Ids
    until_s: float


def choose(held: Expected, held_bytes: Ids, new: Expected, new_bytes: Ids, *, excess: int, spare: int) -> Choice:
    """Make room for new pieces by evicting the held ones that are needed last.

    excess: bytes by which both together exceed the limit. spare: bytes to free beyond that. A held piece is evicted only for one that
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
    # New pieces that still do not fit are not stored, those needed last first.
    left = excess - (int(freed[count - 1]) if count else 0)
    order = np.argsort(-new, kind="stable")
    without = int(np.searchsorted(np.cumsum(new_bytes[order]), left)) + 1 if left > 0 else 0
    kept = np.sort(order[without:])
    return Choice(dropped, kept[new[kept] < until_s] if count else kept, until_s)
