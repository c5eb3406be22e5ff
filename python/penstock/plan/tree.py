"""The tree of a plan: its nodes in flow order, its leaves, and rewriting by rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from penstock.plan.nodes import Concat, Mix, Node, Read, Zip

_Kind = TypeVar("_Kind", bound=Node)

#: A rule of the optimiser: what stands for a node that gives the same with less work, or None where the rule does not apply.
Rule = Callable[[Node], Node | None]


def inputs_of(node: Node) -> tuple[Node, ...]:
    """What a node gets its rows from; nothing for a leaf."""
    if isinstance(node, Read):
        return ()
    return node.inputs if isinstance(node, (Concat, Mix, Zip)) else (node.input,)


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The same node on other inputs."""
    if isinstance(node, Read):
        return node
    return (
        replace(node, inputs=tuple(inputs)) if isinstance(node, (Concat, Mix, Zip)) else replace(node, input=inputs[0])
    )


def flow(root: Node) -> tuple[Node, ...]:
    """All nodes, each after its inputs: for a plan of one source the verbs as they were written."""
    return (*(node for below in inputs_of(root) for node in flow(below)), root)


def leaves(root: Node) -> tuple[Read, ...]:
    """The sources, in order."""
    return tuple(node for node in flow(root) if isinstance(node, Read))


def comes_once(root: Node) -> bool:
    """Whether rows that were read are gone, so that they cannot be read again."""
    return any(getattr(leaf.opened.source, "comes_once", False) for leaf in leaves(root))


def find(root: Node, kind: type[_Kind]) -> _Kind | None:
    """The first node of a kind, in flow order."""
    return next((node for node in flow(root) if isinstance(node, kind)), None)


def rewrite(root: Node, rules: Sequence[Rule], note: Callable[[Rule, Node, Node], None] | None = None) -> Node:
    """The tree with rules applied to every node, from the leaves up, until none applies. note: is called with the rule, before and after."""
    node = with_inputs(root, [rewrite(below, rules, note) for below in inputs_of(root)])
    for rule in rules:
        if (other := rule(node)) is not None:
            if note is not None:
                note(rule, node, other)
            return rewrite(other, rules, note)
    return node
