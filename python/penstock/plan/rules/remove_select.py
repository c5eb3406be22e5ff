"""A `select` of what comes anyway is no work."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.columns import known_columns
from penstock.plan.nodes import Node, Select
from penstock.plan.tree import flow


def remove_select(node: Node) -> Node | None:
    """A select of the columns that come anyway, in their order, is left out."""
    if not isinstance(node, Select):
        return None
    if isinstance(node.input, Select):
        return replace(node, input=node.input.input)
    return node.input if _gives(node.input, node.columns) else None


def _gives(node: Node, columns: tuple[str, ...]) -> bool:
    """Whether just these columns come out of a node, whichever dataset a row came of."""
    known = known_columns(node)
    if known is None or tuple(known) != columns:
        return False
    joined = [one for one in flow(node) if one.joins == "rows"]
    return all(len({tuple(known_columns(below) or ()) for below in one.below}) == 1 for one in joined)
