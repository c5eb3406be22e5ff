"""Transforms of other columns become one stage where only verbs of order stand between them."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import Node, Transform
from penstock.plan.rules.between import are_apart, below_order, goes_along, on_top
from penstock.plan.rules.join_transforms import drawn_of


def join_transforms_across_order(node: Node) -> Node | None:
    """Transforms of different columns, with only verbs of order between them, are one stage."""
    if not isinstance(node, Transform):
        return None
    names = {name for name, _ in node.ops}
    between, below = below_order(node.input, names)
    if not isinstance(below, Transform) or goes_along(below) or goes_along(node) or not are_apart(below, node):
        return None
    if {name for name, _ in below.ops} & names:
        return None  # a column's second chain begins with what the first one made: with other axes, or not at all
    joined = replace(
        below,
        ops=(*below.ops, *node.ops),
        draws=(*below.draws, *node.draws),
        follows=(*below.follows, *node.follows),
        channels_first=(*below.channels_first, *node.channels_first),
        drawn=drawn_of(below, node),
    )
    return on_top(between, joined)
