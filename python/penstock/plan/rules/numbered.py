"""Numbers by which nodes draw random numbers: fixed before rules move or remove anything, so that none of them changes a draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.plan.nodes import LaneNode, Map, MapRows, Node, Transform
from penstock.plan.tree import inputs_of, with_inputs


def numbered(root: Node) -> Node:
    """The plan in which every transform and function knows its number, in flow order; below each lane stage they count anew."""
    return _numbered(root, Counter())


def _numbered(node: Node, met: Counter[str]) -> Node:
    below = Counter[str]() if isinstance(node, LaneNode) else met
    node = with_inputs(node, [_numbered(one, below) for one in inputs_of(node)])
    if isinstance(node, Transform):
        met["transform"] += 1
        return replace(node, draws=tuple((met["transform"] - 1, place) for place in range(len(node.ops))))
    if isinstance(node, (Map, MapRows)):
        met["function"] += 1
        return replace(node, draws=met["function"] - 1)
    return node
