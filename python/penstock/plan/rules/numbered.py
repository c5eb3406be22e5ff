"""Numbers by which nodes draw random numbers: fixed before rules move or remove anything, so that none of them changes a draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.plan.drawing import draws_apart
from penstock.plan.nodes import Draws, MapVerb, Node, Transform, TransformBatch
from penstock.plan.rules.across_cache import ops_before
from penstock.plan.tree import inputs_of, with_inputs


def numbered(root: Node) -> Node:
    """The plan in which every transform and function knows its number, in flow order; below each lane stage they count anew."""
    return _numbered(root, Counter())


def _numbered(node: Node, met: Counter[str]) -> Node:
    below = Counter[str]() if node.row_effect == "counted" else met
    node = with_inputs(node, [_numbered(one, below) for one in inputs_of(node)])
    if isinstance(node, Transform):
        return replace(node, draws=_draws(node, met))
    if isinstance(node, TransformBatch):
        met["batch"] += 1
        return replace(node, draws=met["batch"] - 1)
    if isinstance(node, MapVerb):
        met["function"] += 1
        return replace(node, draws=met["function"] - 1)
    return node


def _draws(node: Transform, met: Counter[str]) -> tuple[Draws, ...]:
    before = ops_before(node)
    if before is None:
        number, done = met["transform"], dict[str, int]()
        met["transform"] += 1
    else:
        number, done = before[0].draws[0].transform, before[1]
    apart = {name for name, ops in node.ops if draws_apart(ops)}  # behind the others, so that they change no place
    names = sorted((name for name, _ in node.ops), key=apart.__contains__)
    places = {name: place for place, name in enumerate(dict.fromkeys([*done, *names]))}
    first, leaders = _first_of(node), {(one.column, one.place): (one.leader, one.leads) for one in node.follows}

    def number_of(column: str, place: int) -> int:
        """A chain alone counts its ops. Of those that share a key, the first does; what another one draws alone has numbers of its own."""
        column, place = leaders.get((column, place), (column, place))
        begin = done.get(column, 0) + place
        is_own = first[column] != column and getattr(dict(node.ops)[column][place], "is_random", False)
        return (places[column] + 1 << 32) + begin if is_own else begin

    return tuple(
        Draws(number, places[first[name]], tuple(number_of(name, place) for place in range(len(ops))))
        for name, ops in node.ops
    )


def _first_of(node: Transform) -> dict[str, str]:
    """For each chain, the first of those that draw with it."""
    names = [name for name, _ in node.ops]
    first = dict(zip(names, names, strict=True))
    for follow in node.follows:
        one, other = sorted((first[follow.column], first[follow.leader]), key=names.index)
        first = {name: one if lead == other else lead for name, lead in first.items()}
    return first
