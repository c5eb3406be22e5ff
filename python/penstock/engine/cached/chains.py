"""Ops on both sides of a cache: they give what they would give as one chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.plan.nodes import Batch, Cache, Node, Transform
from penstock.plan.tree import rewrite, with_inputs
from penstock.transform.image import ToLayout


@dataclass(frozen=True)
class AtCache(ToLayout):
    """A layout that the user did not write: of pixels on their way into a cache, and of those that come out of it again."""


def split_chains(root: Node) -> Node:
    """The plan, with pixels channels last in caches whose rows go on through image ops. The optimiser has joined transforms with no cache between."""
    return rewrite(root, (_split,))


def ops_before(node: Transform) -> tuple[Transform, dict[str, int]] | None:
    """The transform that a node goes on with behind a cache, and how many ops its columns went through; None where it begins anew."""
    below = _across_cache(node)
    if below is None:
        return None
    further = ops_before(below)
    counts = {} if further is None else further[1]
    for name, ops in below.ops:
        counts[name] = counts.get(name, 0) + sum(not isinstance(op, AtCache) for op in ops)
    return below, counts


def _across_cache(node: Transform) -> Transform | None:
    """The transform that the optimiser would have joined this one to, if there were no cache between."""
    below, batches, caches = node.input, 0, 0
    while isinstance(below, (Batch, Cache)):
        batches, caches = batches + isinstance(below, Batch), caches + isinstance(below, Cache)
        below = below.input
    return below if isinstance(below, Transform) and caches and batches < 2 else None


def _split(node: Node) -> Node | None:
    below = _across_cache(node) if isinstance(node, Transform) else None
    if below is None:
        return None
    assert isinstance(node, Transform)
    into, out = dict(below.ops), dict(node.ops)
    for name in [name for name in out if name in into]:
        layout = _layout_of(into[name])
        if not any(isinstance(op, ToLayout) for op in out[name]):
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
    if isinstance(node, (Batch, Cache)):
        return with_inputs(node, [_with_below(node.input, below)])
    return below
