"""Why a plan is dealt to fewer lanes than its batch alone would say, in words."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.messages import counted
from penstock.order.steps.batches import BatchOrder
from penstock.plan.nodes import Node
from penstock.resolve.dealt import OPEN_BYTES, Dealt, dealt_of, usually_open


def explain_dealt(root: Node, order: BatchOrder, world_size: int) -> Iterator[str]:
    """A line where blocks are large; none where lanes are the usual ones, or the plan names them."""
    dealt, usual = dealt_of(root, world_size), Dealt.usual(order.batch_size)
    if dealt is None or dealt == usual:
        return
    windows = "" if dealt.window_blocks is None else f" and windows of {counted(dealt.window_blocks, 'block')}"
    yield (
        f"{counted(dealt.lanes, 'lane')}{windows}, not {usual.lanes}, since blocks are large: {usual.lanes} lanes would hold {usually_open(root, world_size):,} bytes of open blocks, "
        f"more than {OPEN_BYTES:,}; batch(…, lanes={usual.lanes}) mixes rows of more blocks, for that memory"
    )
