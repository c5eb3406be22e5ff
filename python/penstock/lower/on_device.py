"""Which ops of a plan the device does, after the copy, in place of the CPU before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.plan.nodes import (
    Batch,
    BatchTokens,
    Bucket,
    Every,
    Node,
    Pad,
    Repeat,
    Select,
    Shard,
    Shuffle,
    Skip,
    Take,
    Transform,
)
from penstock.plan.nodes.picked import PICKED, Exclude
from penstock.stages.moved_ops import MovedOps

#: What neither looks at images nor moves them from one dataset's rows to another's; ragged columns, which are padded, are no images.
_PASSES = (Batch, BatchTokens, Bucket, Pad, Shuffle, Shard, Repeat, Take, Skip, Every, Select, Exclude, *PICKED)


def last_transform(root: Node) -> Node | None:
    """The transform whose result is delivered as it is: no function, cache or mix is between; None if there is none."""
    node = root
    while isinstance(node, _PASSES):
        node = node.input
    return node if isinstance(node, Transform) else None


@dataclass(frozen=True)
class OnDevice:
    """What a device may do of a plan. transform: the node whose chains may be split, but for those of excluded columns; None where it does nothing."""

    transform: Node | None = None
    excluded: frozenset[str] = frozenset()


def in_words(columns: Mapping[str, MovedOps]) -> str:
    """What a device does, for people: "image: RandomHorizontalFlip, Normalize"; "" for nothing."""
    return "; ".join(f"{name}: {moved.kernel.words}" for name, moved in columns.items())
