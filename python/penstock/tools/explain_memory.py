"""What a plan holds, what a batch of it costs, and what bounds both, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.limits import tightest
from penstock.deliver.launchers import processes_here
from penstock.lower.lowered import Lowered
from penstock.plan.nodes import Node
from penstock.plan.tree import leaves
from penstock.runtime.free_memory import default_memory


def explain_memory(root: Node, lowered: Lowered, memory_bytes: int | None) -> Iterator[str]:
    """memory_bytes: what the loader was given; None where the machine says."""
    needs, limits = lowered.needs, tightest([leaf.limits for leaf in leaves(root)])
    yield f"in any case: {needs.size_bytes:,} bytes: {', '.join(needs.words())}"
    if memory_bytes is None:
        limit = default_memory(processes_here(lowered.where.world_size))
        yield f"budget: {limit:,} bytes, this machine's now without memory=: a quarter of what it has, at most half of what is free, divided among its ranks"
    else:
        yield f"budget: memory={memory_bytes:,} bytes"
    yield (
        f"limits: records of {limits.record_bytes:,} bytes, files of {limits.unpacked_bytes:,} unpacked and {limits.ratio:,} times their size, images "
        f"of {limits.image_bytes:,}"
    )
