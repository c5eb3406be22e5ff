"""Neighbouring transforms become one, so that their ops run as one kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.plan.nodes import Batch, Node, Transform


def join_transforms(node: Node) -> Node | None:
    """A transform that follows another, with nothing or only batch between them, is joined to it."""
    if not isinstance(node, Transform):
        return None
    if isinstance(node.input, Transform):
        return _joined(node.input, node)
    if isinstance(node.input, Batch) and isinstance(node.input.input, Transform):
        return replace(node.input, input=_joined(node.input.input, node))
    return None


def _joined(first: Transform, second: Transform) -> Transform:
    ops: dict[str, tuple[Any, ...]] = dict(first.ops)
    for name, chain in second.ops:
        ops[name] = (*ops.get(name, ()), *chain)
    return replace(first, ops=tuple(ops.items()))
