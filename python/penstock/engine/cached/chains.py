"""Ops on both sides of a cache: they give what they would give as one chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.plan.nodes import Batch, Bucket, Cache, Every, Node, Repeat, Shard, Shuffle, Skip, Take, Transform
from penstock.plan.tree import rewrite, with_inputs
from penstock.transform.image import ToLayout

#: What changes no column.
_BETWEEN = (Batch, Cache, Shuffle, Take, Skip, Every, Repeat, Shard, Bucket)


@dataclass(frozen=True)
class AtCache(ToLayout):
    """A layout that the user did not write: of pixels on their way into a cache, and of those that come out of it again."""


def split_chains(root: Node) -> Node:
    """The plan, with pixels channels last in caches whose rows go on through image ops. The optimiser has joined transforms with no cache between."""
    return rewrite(root, (_split,))


def ops_before(node: Transform) -> tuple[Transform, dict[str, int]] | None:
    """The transform that a node goes on with behind a cache, and how many ops its columns went through; None where it begins anew."""
    below, is_next = _across_cache(node)
    if below is None or not is_next:
        return None
    further = ops_before(below)
    counts = {} if further is None else further[1]
    for name, ops in below.ops:
        counts[name] = counts.get(name, 0) + sum(not isinstance(op, AtCache) for op in ops)
    return below, counts


def _across_cache(node: Transform) -> tuple[Transform | None, bool]:
    """The transform below a cache that lies below this one, and whether the optimiser would have joined both if there were no cache."""
    below, batches, caches, others = node.input, 0, 0, 0
    while isinstance(below, _BETWEEN):
        batches, caches = batches + isinstance(below, Batch), caches + isinstance(below, Cache)
        others += not isinstance(below, (Batch, Cache))
        below = below.input
    return (below, not others and batches < 2) if isinstance(below, Transform) and caches else (None, False)


def _split(node: Node) -> Node | None:
    if not isinstance(node, Transform):
        return None
    below, is_next = _across_cache(node)
    if below is None:
        return None
    into, out = dict(below.ops), dict(node.ops)
    for name in [name for name in out if name in into]:
        layout = _layout_of(into[name])
        if is_next and not any(isinstance(op, ToLayout) for op in out[name]):
            out[name] = (*out[name], AtCache(layout))
        if layout != "NHWC":
            into[name] = (*into[name], AtCache("NHWC"))
    if into == dict(below.ops) and out == dict(node.ops):
        return None
    made = _with_below(node.input, replace(below, ops=tuple(into.items())))
    return replace(node, input=made, ops=tuple(out.items()))


def _layout_of(ops: tuple[Any, ...]) -> Any:
    return next((op.layout for op in reversed(ops) if isinstance(op, ToLayout)), "NCHW")


def _with_below(node: Node, below: Transform) -> Node:
    if isinstance(node, _BETWEEN):
        return with_inputs(node, [_with_below(node.input, below)])
    return below
