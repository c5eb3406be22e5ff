"""The verbs between two others of which every row has the columns that it had below: rules look through them."""

from __future__ import annotations

from collections.abc import Collection

from penstock.plan.columns import made_by, needed_by
from penstock.plan.nodes import Node, Select, Transform
from penstock.plan.tree import with_inputs


def below_order(node: Node, names: Collection[str]) -> tuple[list[Node], Node]:
    """The verbs of order and selects from a node down, and what is below them; a select that drops one of these columns is no such verb."""
    between = list[Node]()
    while node.is_order or (isinstance(node, Select) and {*names} <= {*node.columns}):
        between.append(node)
        (node,) = node.below
    return between, node


def on_top(between: list[Node], node: Node) -> Node:
    """The same verbs on another node."""
    for one in reversed(between):
        node = with_inputs(one, [node])
    return node


def goes_along(node: Transform) -> bool:
    """Whether a chain goes along with that of another column: with what this transform does to it, and no other one."""
    return any(getattr(op, "goes_along", False) for _, ops in node.ops for op in ops[:1])


def are_apart(below: Transform, node: Transform) -> bool:
    """Whether no chain works on what another chain of the transform below makes, under a name of its own."""
    made = {one for name, names in made_by(below).items() for one in names if one != name}
    return not made & {*needed_by(node), *dict(node.ops)}
