"""Plans whose epochs end where the rows of their lane stages do: all that stands beside such a stage comes lane by lane, too."""

from __future__ import annotations

from penstock.plan.node import Node
from penstock.plan.nodes.lanes import InLanes
from penstock.plan.tree import ends_with_data, lane_stage, with_inputs


def with_lanes(root: Node) -> Node:
    """The same plan, with the inputs of joins that no lane stage makes as rows of lanes; itself where no epoch ends with its data."""
    return _in_lanes(root) if lane_stage(root) is not None and ends_with_data(root) else root


def _in_lanes(node: Node) -> Node:
    if lane_stage(node) is None:
        return node
    inputs = [_in_lanes(below) for below in node.below]
    if node.joins:
        inputs = [one if lane_stage(one) is not None else InLanes(input=one) for one in inputs]
    is_same = all(one is below for one, below in zip(inputs, node.below, strict=True))
    return node if is_same else with_inputs(node, inputs)
