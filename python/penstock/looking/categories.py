"""The categories of a column, looked for in what the data holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.core.columns.categories import Categories, joined
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.columns import check_names, known_columns, made_by
from penstock.plan.expression import Expression, uses
from penstock.plan.node import Node
from penstock.plan.nodes import Read
from penstock.source.nulls import stored
from penstock.source.protocol import CategorySource


def categories_of(verb: str, root: Node, name: str) -> tuple[Any, ...]:
    """The categories of a column, of all files and datasets together; PlanError where it has none."""
    check_names(verb, [name], root)
    try:
        found = joined(_parts(root, name))
    except PlanError as error:
        raise PlanError(
            f"{verb}: categories of column {quoted(name)}: {error}; say which there are: codes([…]), in order"
        ) from None
    if not found:
        raise PlanError(f"{verb}: column {quoted(name)} has no category, so that every row is missing; leave it out")
    return found


def with_categories(verb: str, root: Node, expression: Any) -> Any:
    """An expression in which every `cat.codes()` knows its categories."""
    if not isinstance(expression, Expression) or not uses("cat.codes", expression):
        return expression
    if expression.operation != "cat.codes":
        operands = tuple(with_categories(verb, root, one) for one in expression.operands)
        return Expression(expression.operation, operands)
    (column,) = expression.operands
    if column.operation != "column":
        raise PlanError(
            f"{verb}: {quoted(expression)}: what is computed has no categories; write cat.codes() behind penstock.col(…), or say which there are: codes([…])"
        )
    return column.codes(categories_of(verb, root, column.operands[0])).fill_null(-1)


def _parts(node: Node, name: str) -> Iterator[Categories]:
    """The categories of a column below a node, part after part."""
    if isinstance(node, Read):
        source, found = stored(node.opened.source), False
        for part in source.categories(name) if isinstance(source, CategorySource) else ():
            found = True
            yield part
        if not found:
            raise PlanError(f"there are none in {node.where}, where it holds plain values")
        return
    if name in node.made:
        made = node.made[name]
        if made.operation != "column":
            raise PlanError(f"it is computed by {node.verb}")
        name = made.operands[0]
    elif any(name in names for names in made_by(node).values()) or node.column_effect == "unknown":
        raise PlanError(f"it comes of {node.verb}")
    inputs = [below for below in node.below if name in (known_columns(below) or {})]
    if not inputs:
        raise PlanError(f"it comes of {node.verb}")
    for below in inputs:
        yield from _parts(below, name)
