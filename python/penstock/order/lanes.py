"""Lanes: the fixed number of sequences to which an epoch's order is dealt, whatever the number of ranks."""

from __future__ import annotations

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError

#: More lanes than this mix no better and cost memory, since each has a window of blocks open.
MAX_LANES = 64


def divisors(number: int) -> list[int]:
    """All divisors in ascending order: divisors(12) == [1, 2, 3, 4, 6, 12]."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*low, *(number // d for d in low)})


def default_lanes(batch_size: int) -> int:
    """The largest divisor up to 64 among those that keep as many factors of two as possible.

    default_lanes(256) == 64, default_lanes(240) == 48, default_lanes(120) == 40
    """
    small = [d for d in divisors(batch_size) if d <= MAX_LANES]
    return max(small, key=lambda d: (d & -d, d))


def share_of_rank(batch_size: int, rank: int, world_size: int) -> tuple[int, int]:
    """The places [first, last) of every global batch that a rank takes: share_of_rank(96, 1, 3) == (32, 64)."""
    if not 0 <= rank < world_size:
        raise PlanError(f"rank {rank} is not among the {world_size} ranks 0 … {world_size - 1}")
    if batch_size % world_size:
        raise PlanError(
            f"world_size={world_size} does not divide the global batch of {batch_size:,} rows, and every rank takes equally many; "
            f"it would with {nearest_ranks(batch_size, world_size)} ranks, or with {nearest_batches(batch_size, world_size)} rows"
        )
    rows = batch_size // world_size
    return rank * rows, (rank + 1) * rows


def nearest_ranks(batch_size: int, world_size: int) -> str:
    """The numbers of ranks below and above that divide a batch: nearest_ranks(96, 7) == "6 or 8"."""
    fitting = divisors(batch_size)
    below, above = [d for d in fitting if d < world_size], [d for d in fitting if d > world_size]
    return " or ".join(f"{number:,}" for number in below[-1:] + above[:1])


def nearest_batches(batch_size: int, world_size: int) -> str:
    """The batch sizes below and above that so many ranks divide: nearest_batches(96, 7) == "91 or 98"."""
    below = batch_size // world_size * world_size
    return " or ".join(f"{size:,}" for size in (below, below + world_size) if size)


def deal(rows: int, room: Ids) -> Ids:
    """How many of so many rows fall to each lane, as equally as their room allows; of the rest, lanes at equal distances get one more.

    deal(5, np.array([3, 3, 3])) is [1, 2, 2]; rows beyond all room are left out.
    """
    rows, low, high = min(rows, int(room.sum())), 0, int(room.max(initial=0))
    while low < high:  # the largest number that all lanes can be given, as far as they have room
        middle = (low + high + 1) // 2
        low, high = (middle, high) if int(np.minimum(room, middle).sum()) <= rows else (low, middle - 1)
    dealt = np.minimum(room, low)
    more, rest = np.flatnonzero(room > low), rows - int(dealt.sum())
    if rest:
        edges = np.arange(len(more) + 1) * rest // len(more)
        dealt[more[np.diff(edges) > 0]] += 1
    return dealt
