"""What can be known to be wrong before anything runs."""

from __future__ import annotations

from penstock.core.errors import PlanError
from penstock.plan.changed_weights import check_changing
from penstock.plan.node import Node
from penstock.plan.tree import flow


def check_verb(new: Node) -> None:
    """PlanError if the verb cannot follow its input, or names a column that is not there."""
    check_changing(new)
    new.check()


def check_picking(verb: str, below: Node) -> None:
    """PlanError where rows have another order, or other columns, than their sources give, so that none can be picked by these."""
    for node in flow(below):
        if node.row_effect not in ("same", "chosen") or node.column_effect not in ("same", "chosen", "computed"):
            other = f"{node.verb}(function)" if node.verb == verb else f"{node.verb}(…)"
            raise PlanError(
                f"{verb}: chooses among the rows as their sources have them, and {other} stands before it; put it first: {verb}(…).{other}"
            )
