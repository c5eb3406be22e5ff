"""Why a plan is dealt to fewer lanes than its batch alone would say, and what that costs many ranks, in words."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.messages import counted
from penstock.order.sharing import extra_blocks, lanes_for
from penstock.order.steps.batches import BatchOrder
from penstock.plan.nodes import Node
from penstock.resolve.dealt import Dealt, dealt_of, opened_by


def explain_dealt(root: Node, order: BatchOrder, world_size: int) -> Iterator[str]:
    """A line where blocks are large, and one where that makes ranks share lanes; none where lanes are the usual ones, or the plan names them."""
    dealt, usual = dealt_of(root, world_size), Dealt.usual(order.batch_size)
    if dealt is None or dealt == usual:
        return
    windows = "" if dealt.window_blocks is None else f" and windows of {counted(dealt.window_blocks, 'block')}"
    yield (
        f"{counted(dealt.lanes, 'lane')}{windows}, not {usual.lanes}, since blocks are large: {usual.lanes} lanes would hold {opened_by(root, order.batch_size, usual):,} bytes of them "
        f"open; batch(…, lanes={usual.lanes}) mixes rows of more blocks, for that memory"
    )
    if words := shared_lanes(root, dealt, order, world_size):
        yield words


def shared_lanes(root: Node, dealt: Dealt | None, order: BatchOrder, world_size: int) -> str:
    """What it costs that there are fewer lanes than ranks since blocks are large, and what to write; "" where that is not so. dealt: to how many, if the plan does not name them."""
    size = order.batch_size
    if dealt is None or dealt.lanes >= min(world_size, Dealt.usual(size).lanes):
        return ""
    lanes = lanes_for(size, [world_size])
    opened = opened_by(root, size, Dealt(lanes=lanes), world_size)
    return (
        f"{world_size} ranks share {counted(dealt.lanes, 'lane')}, about {-(-world_size // dealt.lanes)} each, and read blocks of these {1 + extra_blocks(order, world_size):.3g} times; "
        f"batch(…, lanes={lanes}), which is another order, lets each rank read blocks of its own, and holds up to {opened:,} bytes of them open on each"
    )
