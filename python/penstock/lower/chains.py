"""Ops on both sides of a cache: they give what they would give as one chain."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import Node, Transform
from penstock.plan.rules.across_cache import across_cache, is_between
from penstock.plan.tree import rewrite, with_inputs
from penstock.transform.family import family_of


def split_chains(root: Node) -> Node:
    """The plan, with what families do to chains that a cache parts. The optimiser has joined transforms with no cache between."""
    return rewrite(root, (_split,))


def _split(node: Node) -> Node | None:
    if not isinstance(node, Transform):
        return None
    below, is_next = across_cache(node)
    if below is None:
        return None
    into, out = dict(below.ops), dict(node.ops)
    for name in [name for name in out if name in into]:
        into[name], out[name] = family_of(into[name]).at_cache(into[name], out[name], goes_on=is_next)
    if into == dict(below.ops) and out == dict(node.ops):
        return None
    made = _with_below(node.input, replace(below, ops=tuple(into.items())))
    return replace(node, input=made, ops=tuple(out.items()))


def _with_below(node: Node, below: Transform) -> Node:
    return with_inputs(node, [_with_below(node.below[0], below)]) if is_between(node) else below
