"""Rows that a function filters out are not transformed, where the function says that it looks at other columns.

Not where a chain draws random numbers: rows have other numbers above a filter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.plan.columns import made_by, needed_by
from penstock.plan.nodes import FilterFunction, Node, Transform
from penstock.plan.rules.between import below_order, on_top


def filter_before_transform(node: Node) -> Node | None:
    """Rows are filtered before their other columns are transformed."""
    if not isinstance(node, FilterFunction) or node.columns is None:
        return None
    between, below = below_order(node.input, ())
    if not isinstance(below, Transform) or any(len(names) > 1 for names in needed_by(below).values()):
        return None
    chains, makes = list(zip(below.ops, below.draws, strict=True)), made_by(below)
    later = [
        (chain, draws) for chain, draws in chains if not {*makes[chain[0]]} & {*node.columns} and _may_wait(chain[1])
    ]
    if not later:
        return None
    first = [chain for chain in chains if chain not in later]
    made = replace(node, input=on_top(between, _with(below, first)))
    return _with(replace(below, input=made), later)


def _with(node: Transform, chains: list[Any]) -> Node:
    if not chains:
        return node.input
    ops, draws = zip(*chains, strict=True)
    return replace(node, ops=ops, draws=draws)


def _may_wait(ops: tuple[Any, ...]) -> bool:
    """Whether ops make the same of a row whatever its number is, and note nothing about it: a JPEG index has places by rows of files."""
    return not any(getattr(op, "is_random", True) or getattr(op, "entry_points", "") == "build" for op in ops)
