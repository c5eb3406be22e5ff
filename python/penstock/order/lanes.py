"""Lanes: the fixed number of sequences to which an epoch's order is dealt, whatever the number of ranks."""

from __future__ import annotations

from penstock.errors import PlanError

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


def lanes_of_rank(lanes: int, rank: int, world_size: int) -> tuple[int, int]:
    """The lanes [first, last) that a rank holds: lanes_of_rank(64, 1, 4) == (16, 32)."""
    if not 0 <= rank < world_size:
        raise PlanError(f"rank {rank} is not among the {world_size} ranks 0 … {world_size - 1}")
    if lanes % world_size:
        fitting = ", ".join(str(d) for d in divisors(lanes))
        raise PlanError(
            f"world_size={world_size} does not divide the {lanes} lanes of this plan; it would with {fitting} ranks, "
            f"or choose another batch size or batch(…, lanes=…)"
        )
    share = lanes // world_size
    return rank * share, (rank + 1) * share
