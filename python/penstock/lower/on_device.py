"""Which ops of a plan the device does, after the copy, in place of the CPU before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.plan.nodes import Node, Transform
from penstock.stages.moved_ops import MovedOps


def last_transform(root: Node) -> Node | None:
    """The transform whose result is delivered as it is: no function, cache or mix is between; None if there is none."""
    node = root
    while node.passes_pixels:
        (node,) = node.below
    return node if isinstance(node, Transform) else None


@dataclass(frozen=True)
class OnDevice:
    """What a device may do of a plan. transform: the node whose chains may be split, but for those of excluded columns; None where it does nothing."""

    transform: Node | None = None
    excluded: frozenset[str] = frozenset()


def in_words(columns: Mapping[str, MovedOps]) -> str:
    """What a device does, for people: "image: RandomHorizontalFlip, Normalize"; "" for nothing."""
    return "; ".join(f"{name}: {moved.kernel.words}" for name, moved in columns.items())
