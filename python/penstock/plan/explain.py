"""A plan in words."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.spec import Spec
from penstock.plan.nodes import Node, describe


def explain_nodes(title: str, nodes: Sequence[Node]) -> str:
    """One line a verb, under a title."""
    return "\n".join([title, *(f"  {number}. {describe(node)}" for number, node in enumerate(nodes, 1))])


def explain_spec(title: str, spec: Spec) -> str:
    """One line a column, under a title."""
    width = max((len(name) for name in spec), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {field}" for name, field in spec.items())])
