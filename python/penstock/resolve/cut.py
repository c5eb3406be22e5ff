"""Cuts a plan at its lane stages: each becomes a source for what is above it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import pyarrow as pa

from penstock.core.byte_ranges import ByteRanges
from penstock.core.shards import Shards
from penstock.core.spec import Spec
from penstock.order.lane_rows import LANE_BITS, LANE_ROWS, SPAN_BITS
from penstock.plan.nodes import Node, Opened, Read
from penstock.plan.tree import leaves, with_inputs
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, AnySource


@dataclass(frozen=True, eq=False)
class _LaneManifest(Manifest):
    """As many rows as ever come, which lie in no files."""

    verb: str = ""
    stated_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them, if each were as long as the records below are in the mean."""
        return self.stated_bytes

    def place(self, sample: int) -> str:
        """Where a row comes from, for messages."""
        return f"{self.verb}: row {sample % LANE_ROWS:,} of lane {sample >> LANE_BITS}"


@dataclass(frozen=True, eq=False)
class LaneOutput:
    """What a lane stage gives, as a source; its columns are known once they come."""

    node: Node

    access = Access.LANES

    @property
    def spec(self) -> Spec:
        """No columns are known ahead."""
        return {}

    @cached_property
    def manifest(self) -> Manifest:
        """As many rows as ever come."""
        sources = [leaf.opened.source for leaf in leaves(self.node)]
        samples = sum(source.manifest.samples for source in sources)
        mean_bytes = sum(source.manifest.size_bytes for source in sources) // max(1, samples)
        none = np.empty(0, dtype=np.int64)
        shards = Shards(pa.array([], pa.large_string()), none, none)
        edges, verb = np.array([0, 1 << SPAN_BITS]), self.node.verb
        return _LaneManifest("lanes", shards, edges, verb=verb, stated_bytes=mean_bytes << SPAN_BITS)


def lane_leaf(node: Node) -> Read:
    """A lane stage as a source for what is above it."""
    opened = Opened(source=cast("AnySource", LaneOutput(node)), read_ranges=ByteRanges())
    return Read(opened=opened, where=node.verb, format="lanes", columns=(), limits=leaves(node)[0].limits)


def cut(root: Node) -> Node:
    """The plan above its topmost lane stages, which are leaves of it; the plan itself where it has none."""
    if root.row_effect == "counted":
        return lane_leaf(root)
    inputs = [cut(below) for below in root.below]
    is_same = all(one is below for one, below in zip(inputs, root.below, strict=True))
    return root if is_same else with_inputs(root, inputs)
