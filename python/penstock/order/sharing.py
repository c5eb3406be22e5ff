"""What it costs that ranks share lanes, and which numbers avoid it, in words."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.order.lanes import MAX_LANES, divisors
from penstock.order.steps.batches import BatchOrder

#: As many numbers as a line holds.
_SHOWN = 8


def explain_ranks(order: BatchOrder) -> str:
    """Which numbers of ranks an order allows, and which of them share lanes."""
    allowed = divisors(order.ranks_divide)
    sharing = [ranks for ranks in allowed if order.lanes % ranks] if _has_blocks(order) else []
    if not sharing:
        return f"ranks: any number that divides {order.ranks_divide:,}"
    alone = [ranks for ranks in allowed if order.lanes % ranks == 0]
    lanes = lanes_for(order.batch_size, sharing)
    served = [ranks for ranks in sharing if lanes % ranks == 0]
    return (
        f"ranks: {_listed(alone)} read each block once; others that divide {order.batch_size:,} ({_listed(sharing)}) share lanes "
        f"and read some blocks more than once; lanes={lanes} avoids it for {_listed(served)}"
    )


def explain_sharing(order: BatchOrder, world_size: int) -> list[str]:
    """A line if so many ranks share lanes and read blocks more than once for it; none if they do not."""
    if not _has_blocks(order) or order.lanes % world_size == 0:
        return []
    extra, lanes = extra_blocks(order, world_size), lanes_for(order.batch_size, [world_size])
    why = f"ranks share lanes, since {world_size} does not divide {order.lanes} lanes: up to {extra:.0%} more blocks are read"
    return [f"{why}; batch(…, lanes={lanes}) avoids it, as a plan with another order"]


def extra_blocks(order: BatchOrder, world_size: int) -> float:
    """How much more the ranks read at most than each block once, as a share: 0.0625 for 3 ranks with 32 lanes of 3 rows."""
    shares = (order.share(rank, world_size) for rank in range(world_size))
    return (
        sum(-(-last // order.rows_per_lane) - first // order.rows_per_lane for first, last in shares) / order.lanes - 1
    )


def lanes_for(batch_size: int, ranks: Sequence[int]) -> int:
    """The number of lanes that serves most of these numbers of ranks, each a divisor of the batch size, with whole lanes.

    lanes_for(96, [3, 6, 12, 24, 48, 96]) == 48
    """
    usual = [lanes for lanes in divisors(batch_size) if lanes <= MAX_LANES]
    best = max(usual, key=lambda lanes: (sum(lanes % number == 0 for number in ranks), lanes))
    return best if any(best % number == 0 for number in ranks) else min(ranks)


def _has_blocks(order: BatchOrder) -> bool:
    """Whether rows of one lane come out of blocks that are read together; else every row is read by one rank alone."""
    return order.rows.shape.is_shuffled and order.rows.shape.block_rows > 1


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(f"{number:,}" for number in numbers[:_SHOWN])
    return f"{shown}, …" if len(numbers) > _SHOWN else shown
