"""The tree of a plan: its nodes in flow order, its leaves, and rewriting by rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from penstock.core.errors import PlanError
from penstock.plan.node import Node

if TYPE_CHECKING:
    from penstock.plan.nodes import Origin, Read

_Kind = TypeVar("_Kind", bound=Node)

#: A rule of the optimiser: what stands for a node that gives the same with less work, or None where the rule does not apply.
Rule = Callable[[Node], Node | None]


def inputs_of(node: Node) -> tuple[Node, ...]:
    """What a node gets its rows from; nothing for a leaf."""
    return node.below


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The same node on other inputs."""
    return node.with_inputs(inputs)


def flow(root: Node) -> tuple[Node, ...]:
    """All nodes, each after its inputs: for a plan of one source the verbs as they were written."""
    return tuple(_flow(root))


def _flow(root: Node) -> Iterator[Node]:
    chain = [root]
    while len(below := chain[-1].below) == 1:
        chain.append(below[0])
    for one in below:
        yield from _flow(one)
    yield from reversed(chain)


def leaves(root: Node) -> tuple[Read, ...]:
    """The sources, in order."""
    return tuple(origin for origin in origins(root) if origin.row_effect != "counted")


def origins(root: Node) -> tuple[Origin, ...]:
    """All leaves, in order: the sources, and what lane stages give to a plan that was cut there."""
    return tuple(cast("Origin", node) for node in _flow(root) if not node.below)


def comes_once(root: Node) -> bool:
    """Whether rows that were read are gone, so that they cannot be read again."""
    return any(getattr(leaf.opened.source, "comes_once", False) for leaf in leaves(root))


def find(root: Node, kind: type[_Kind]) -> _Kind | None:
    """The first node of a kind, in flow order."""
    return next((node for node in _flow(root) if isinstance(node, kind)), None)


def find_where(root: Node, says: Callable[[Node], object]) -> Node | None:
    """The first node of which something is true, in flow order."""
    return next(filter(says, _flow(root)), None)


def lane_stage(root: Node) -> Node | None:
    """The first verb that gives as many rows as the data says, so that nobody knows how many come out."""
    return find_where(root, lambda node: node.row_effect == "counted")


def ends_with_data(node: Node) -> bool:
    """Whether epochs end with the rows of the lane stages below: each gets rows of epochs with an end, and all above them keeps these."""
    if node.row_effect == "counted":
        apart = find_where(node, lambda one: one.needs_all_lanes and lane_stage(one) is not None)
        return apart is None and all(lane_stage(below) is None or ends_with_data(below) for below in node.below)
    staged = [below for below in node.below if lane_stage(below) is not None]
    return bool(staged) and node.keeps_ends and all(map(ends_with_data, staged))


def check_endless(verb: str, root: Node, *, by_lane: bool = False) -> None:
    """PlanError where a verb above a lane stage asks for the ends of its lanes: only a batch that ends with them may follow. by_lane: what asks for those of each lane by itself may stand there."""
    found = find_where(
        root, lambda node: node.needs_ends and (node.needs_all_lanes or not by_lane) and lane_stage(node) is not None
    )
    staged = None if found is None else lane_stage(found)
    if found is not None and staged is not None:
        raise PlanError(
            f"{verb}: {found.verb}(…) after {staged.verb} needs epochs that end with their data, and here it asks for rows before it is known where that is; write "
            f"{found.verb}(…) before {staged.verb}(…), or leave it out"
        )


def is_column_unknown(root: Node) -> bool:
    """Whether only a function knows which columns there are."""
    return find_where(root, lambda node: node.column_effect == "unknown") is not None


def rewrite(root: Node, rules: Sequence[Rule], note: Callable[[Rule, Node, Node], None] | None = None) -> Node:
    """The tree with rules applied to every node, from the leaves up, until none applies. note: is called with the rule, before and after."""
    node = with_inputs(root, [rewrite(below, rules, note) for below in root.below])
    for rule in rules:
        if (other := rule(node)) is not None:
            if note is not None:
                note(rule, node, other)
            return rewrite(other, rules, note)
    return node
