"""A transform below a cache and one above it: they draw as the one that they would be without the cache."""

from __future__ import annotations

from penstock.plan.nodes import Cache, Node, Transform
from penstock.plan.rules.between import goes_along


def across_cache(node: Transform) -> tuple[Transform | None, bool]:
    """The transform below a cache that lies below this one, and whether the optimiser would have joined both if there were no cache."""
    below, batches, caches, others = node.input, 0, 0, 0
    while is_between(below):
        is_cache = isinstance(below, Cache)
        batches, caches = batches + below.is_batch, caches + is_cache
        others += not is_cache and not below.is_batch
        (below,) = below.below
    if not isinstance(below, Transform) or not caches:
        return None, False
    return below, not others and batches < 2 and not goes_along(below) and not goes_along(node)


def ops_before(node: Transform) -> tuple[Transform, dict[str, int]] | None:
    """The transform with which a node continues behind a cache, and how many ops its columns went through; None where it begins anew."""
    below, is_next = across_cache(node)
    if below is None or not is_next:
        return None
    further = ops_before(below)
    counts = {} if further is None else further[1]
    for name, ops in below.ops:
        counts[name] = counts.get(name, 0) + len(ops)
    return below, counts


def is_between(node: Node) -> bool:
    """Whether a node changes no column, so that transforms on both sides of it and of a cache draw as one."""
    return node.is_order or isinstance(node, Cache)
