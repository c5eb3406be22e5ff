"""Which ops of a plan the device does, after the copy, in place of the CPU before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.plan.nodes import Node, Transform, TransformBatch
from penstock.stages.moved_ops import MovedOps


def last_transform(root: Node) -> Node | None:
    """The transform whose result is delivered as it is, or as one op on whole batches mixes it: no function, cache or mix of datasets is between; None if there is none."""
    node, is_mixed = root, False
    while node.passes_pixels or (not is_mixed and _is_mixed(node)):
        is_mixed = is_mixed or not node.passes_pixels
        (node,) = node.below
    return node if isinstance(node, Transform) else None


def _is_mixed(node: Node) -> bool:
    """Whether a node is an op on whole batches that a device does."""
    return isinstance(node, TransformBatch) and node.op.mixed_on_device(()) is not None


@dataclass(frozen=True)
class OnDevice:
    """What a device may do of a plan. transform: the node whose chains may be split, but for those of excluded columns; None where it does nothing."""

    transform: Node | None = None
    excluded: frozenset[str] = frozenset()


def in_words(columns: Mapping[str, MovedOps]) -> str:
    """What a device does, for people: "image: RandomHorizontalFlip, Normalize, MixUp"; "" for nothing."""
    return "; ".join(f"{name}: {moved.words}" for name, moved in columns.items())
