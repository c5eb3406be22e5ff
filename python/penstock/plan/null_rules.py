"""Rules about nulls that are put off: expressions see the nulls, and what is left of them meets the rule behind the last verb that computes."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import Node, Read, WithColumns
from penstock.plan.tree import with_inputs
from penstock.source.nulls import seeing_nulls


def put_off(root: Node) -> tuple[Node, dict[str, str]]:
    """The node with its nulls, and the rule of each column that may have some. Beyond what joins, keeps or changes columns rules are not put off."""
    if isinstance(root, Read):
        source, found = seeing_nulls(root.opened.source)
        return (replace(root, opened=replace(root.opened, source=source)) if found else root), found
    if isinstance(root, WithColumns):
        return replace(root, nulls=()), dict(root.nulls)
    if len(root.below) == 1 and (root.is_order or root.column_effect == "chosen"):
        below, found = put_off(root.below[0])
        return (with_inputs(root, [below]) if found else root), found
    return root, {}


def with_nulls_kept(node: WithColumns) -> WithColumns:
    """The node that leaves nulls where they would be errors, for batches that are frames."""
    return replace(node, nulls=tuple((name, rule) for name, rule in node.nulls if rule != "error"))
