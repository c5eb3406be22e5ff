"""Which sources only the order works on before their rows meet."""

from __future__ import annotations

from penstock.plan.nodes import (
    Batch,
    BatchTokens,
    Bucket,
    Concat,
    Every,
    Mix,
    Node,
    Read,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
)
from penstock.plan.nodes.picked import PICKED, Exclude
from penstock.plan.tree import flow, inputs_of, leaves

#: What changes which rows come when, and no column.
ORDER_NODES = (Repeat, Take, Skip, Every, Exclude, *PICKED, Shuffle, Shard, Bucket, Batch, BatchTokens)


def untouched(root: Node, first: int = 0) -> list[tuple[int, int]]:
    """Runs of sources [low, high) that together make all of each other's rows: what joins them and lies below is order alone."""
    if all(isinstance(node, (Read, Concat, Mix, *ORDER_NODES)) for node in flow(root)):
        return [(first, first + len(leaves(root)))]
    found = list[tuple[int, int]]()
    for below in inputs_of(root):
        found += untouched(below, found[-1][1] if found else first)
    return found
