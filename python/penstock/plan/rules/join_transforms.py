"""Neighbouring transforms become one, so that their ops run as one kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.plan.nodes import Node, Select, Transform
from penstock.plan.rules.between import are_apart, below_order, goes_along, on_top


def join_transforms(node: Node) -> Node | None:
    """Ops of neighbouring transforms run as one kernel a column."""
    if not isinstance(node, Transform):
        return None
    between, below = below_order(node.input, [name for name, _ in node.ops])
    if not isinstance(below, Transform) or not all(one.is_batch or isinstance(one, Select) for one in between):
        return None
    if goes_along(below) or goes_along(node) or not are_apart(below, node):
        return None
    return on_top(between, _joined(below, node))


def _joined(first: Transform, second: Transform) -> Transform:
    ops: dict[str, tuple[Any, ...]] = dict(first.ops)
    before = {name: len(chain) for name, chain in first.ops}
    for name, chain in second.ops:
        ops[name] = (*ops.get(name, ()), *chain)
    later = (
        follow._replace(
            place=follow.place + before.get(follow.column, 0), leads=follow.leads + before.get(follow.leader, 0)
        )
        for follow in second.follows
    )
    return replace(first, ops=tuple(ops.items()), follows=(*first.follows, *later), drawn=drawn_of(first, second))


def drawn_of(first: Transform, second: Transform) -> str | None:
    """What to say of two transforms that are one: which ops draw together, their own `follows` says."""
    return "together" if "together" in (first.drawn, second.drawn) else first.drawn or second.drawn
