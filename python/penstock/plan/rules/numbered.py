"""Numbers by which nodes draw random numbers: fixed before rules move or remove anything, so that none of them changes a draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.plan.nodes import LaneNode, Map, MapRows, Node, Transform
from penstock.plan.rules.across_cache import ops_before
from penstock.plan.tree import inputs_of, with_inputs


def numbered(root: Node) -> Node:
    """The plan in which every transform and function knows its number, in flow order; below each lane stage they count anew."""
    return _numbered(root, Counter())


def _numbered(node: Node, met: Counter[str]) -> Node:
    below = Counter[str]() if isinstance(node, LaneNode) else met
    node = with_inputs(node, [_numbered(one, below) for one in inputs_of(node)])
    if isinstance(node, Transform):
        return replace(node, draws=_draws(node, met))
    if isinstance(node, (Map, MapRows)):
        met["function"] += 1
        return replace(node, draws=met["function"] - 1)
    return node


def _draws(node: Transform, met: Counter[str]) -> tuple[tuple[int, int, int], ...]:
    before = ops_before(node)
    if before is None:
        number, done = met["transform"], dict[str, int]()
        met["transform"] += 1
    else:
        number, done = before[0].draws[0][0], before[1]
    names = [name for name, _ in node.ops]
    places = {name: place for place, name in enumerate(dict.fromkeys([*done, *names]))}
    return tuple((number, places[name], done.get(name, 0)) for name in names)
