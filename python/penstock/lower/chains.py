"""Ops on both sides of a cache: they give what they would give as one chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.plan.nodes import Node, Transform
from penstock.plan.rules.across_cache import across_cache, is_between
from penstock.plan.tree import rewrite, with_inputs
from penstock.transform.image import ToLayout


@dataclass(frozen=True)
class AtCache(ToLayout):
    """A layout that the user did not write: of pixels on their way into a cache, and of those that come out of it again."""


def split_chains(root: Node) -> Node:
    """The plan, with pixels channels last in caches whose rows go on through image ops. The optimiser has joined transforms with no cache between."""
    return rewrite(root, (_split,))


def _split(node: Node) -> Node | None:
    if not isinstance(node, Transform):
        return None
    below, is_next = across_cache(node)
    if below is None:
        return None
    into, out = dict(below.ops), dict(node.ops)
    for name in [name for name in out if name in into]:
        layout = layout_of(into[name])
        if is_next and not any(isinstance(op, ToLayout) for op in out[name]):
            out[name] = (*out[name], AtCache(layout))
        if layout != "NHWC":
            into[name] = (*into[name], AtCache("NHWC"))
    if into == dict(below.ops) and out == dict(node.ops):
        return None
    made = _with_below(node.input, replace(below, ops=tuple(into.items())))
    return replace(node, input=made, ops=tuple(out.items()))


def layout_of(ops: tuple[Any, ...]) -> Any:
    """The layout that a chain ends with: "NCHW" where it does not say."""
    return next((op.layout for op in reversed(ops) if isinstance(op, ToLayout)), "NCHW")


def _with_below(node: Node, below: Transform) -> Node:
    return with_inputs(node, [_with_below(node.below[0], below)]) if is_between(node) else below
