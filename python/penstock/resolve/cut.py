"""Cuts a plan at its lane stages: what each gives is a leaf of the plan above it."""

from __future__ import annotations

from penstock.order.rows.lane_rows import LANE_ROWS, SPAN_BITS
from penstock.plan.nodes import LaneOutput, Node
from penstock.plan.tree import with_inputs


def cut(root: Node) -> Node:
    """The plan above its topmost lane stages, whose outputs are leaves of it; the plan itself where it has none, or was cut."""
    if root.row_effect == "counted":
        return LaneOutput(node=root, samples=1 << SPAN_BITS, lane_rows=LANE_ROWS) if root.below else root
    inputs = [cut(below) for below in root.below]
    is_same = all(one is below for one, below in zip(inputs, root.below, strict=True))
    return root if is_same else with_inputs(root, inputs)
