"""Neighbouring transforms become one, so that their ops run as one kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.plan.nodes import Batch, Node, Select, Transform
from penstock.plan.tree import with_inputs


def join_transforms(node: Node) -> Node | None:
    """Ops of neighbouring transforms run as one kernel a column."""
    if not isinstance(node, Transform):
        return None
    between = list[Batch | Select]()
    below = node.input
    while isinstance(below, (Batch, Select)):
        if isinstance(below, Select) and not {*below.columns} >= {name for name, _ in node.ops}:
            return None  # one of the columns is not there, which the transform says when it runs
        between.append(below)
        below = below.input
    if not isinstance(below, Transform):
        return None
    made: Node = _joined(below, node)
    for one in reversed(between):
        made = with_inputs(one, [made])
    return made


def _joined(first: Transform, second: Transform) -> Transform:
    ops: dict[str, tuple[Any, ...]] = dict(first.ops)
    for name, chain in second.ops:
        ops[name] = (*ops.get(name, ()), *chain)
    return replace(first, ops=tuple(ops.items()))
