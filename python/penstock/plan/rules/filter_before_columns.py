"""Rows that a function filters out are not computed, where the function says that it looks at other columns."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import FilterFunction, Node, WithColumns
from penstock.plan.rules.between import below_order, on_top


def filter_before_columns(node: Node) -> Node | None:
    """Rows are filtered before their other columns are computed."""
    if not isinstance(node, FilterFunction) or node.columns is None:
        return None
    between, below = below_order(node.input, ())
    if not isinstance(below, WithColumns) or below.nulls or {*node.columns} & below.made.keys():
        return None
    return replace(below, input=replace(node, input=on_top(between, below.input)))
