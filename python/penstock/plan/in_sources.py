"""Expressions of columns that a plan computes, written as expressions of the columns that its sources have."""

from __future__ import annotations

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.expression import Expression, columns_of, written_out
from penstock.plan.node import Node
from penstock.plan.tree import flow


def in_sources(verb: str, root: Node, expression: Expression) -> Expression:
    """The expression of what sources have; PlanError where datasets that are joined compute its columns each for itself."""
    node = root
    while True:
        expression = written_out(expression, node.made)
        if len(node.below) != 1:
            break
        (node,) = node.below
    for below in flow(node):
        if found := sorted(columns_of(expression) & below.made.keys()):
            raise PlanError(
                f"{verb}: {quoted(found[0])} is computed in a dataset below {node.verb}, where columns may differ from dataset to dataset; write {verb} before {node.verb}, or "
                f"with_columns behind it"
            )
    return expression
