"""The same plan with less work: neighbouring transforms become one, so that their ops run as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.plan.nodes import Batch, Node, Transform


def optimize(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Joins transforms with nothing, or only batch, between them; the result gives the same batches."""
    kept: list[Node] = []
    last_transform: int | None = None
    for node in nodes:
        if isinstance(node, Transform) and last_transform is not None:
            kept[last_transform] = _join(kept[last_transform], node)
            continue
        if isinstance(node, Transform):
            last_transform = len(kept)
        elif not isinstance(node, Batch):
            last_transform = None
        kept.append(node)
    return tuple(kept)


def _join(first: Node, second: Transform) -> Transform:
    if not isinstance(first, Transform):
        raise TypeError(f"{first} is no transform")
    ops: dict[str, tuple[Any, ...]] = dict(first.ops)
    for name, chain in second.ops:
        ops[name] = (*ops.get(name, ()), *chain)
    return Transform(ops=tuple(ops.items()))
