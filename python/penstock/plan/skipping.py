"""The plan of a loader that leaves out bad rows: lane stages go on with the next row."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.errors import PlanError
from penstock.plan.nodes import (
    Batch,
    Bucket,
    Cache,
    LaneNode,
    Map,
    MapRows,
    Mix,
    Node,
    Pad,
    Read,
    Select,
    Shard,
    SkipBad,
    SourceColumn,
    Transform,
)
from penstock.plan.tree import find, flow, inputs_of, with_inputs

#: Verbs that may meet a bad row.
_FALLIBLE = (Read, Transform, MapRows)

#: What leaves the order of a mix below it as it is, so that rows may be left out of each of its datasets.
_KEEPS_ORDER = (Batch, Pad, Select, Transform, Map, MapRows, SourceColumn, Mix, LaneNode)


def skipping(root: Node, steps: int) -> Node:
    """The same without bad rows, in epochs of so many steps: what may meet one is followed by a stage that leaves it out.

    Of the datasets of a mix they are left out before it, so that its weights are exact, unless something above the mix orders its rows anew.
    PlanError for a plan of which rows cannot be left out.
    """
    for kind, name in ((Bucket, "batch_bucketed"), (Shard, "shard")):
        if find(root, kind) is not None:
            raise PlanError(
                f"on_error='skip': with {name} every row has its place in an epoch, and none can be left out; choose on_error='substitute'"
            )
    for node in flow(root):
        if isinstance(node, Cache) and find(node, Mix) is not None:
            raise PlanError(
                "on_error='skip': bad rows are left out of each dataset before a mix, and cache() after it would keep rows that have no numbers; write cache() before the "
                "mix, for each dataset, or choose on_error='substitute'"
            )
    made = _below_batch(_guarded(root, keeps_order=True), steps)
    for node in flow(made):
        if isinstance(node, SkipBad) and any(isinstance(below, Mix) and below.changes for below in flow(node)):
            raise PlanError(
                "on_error='skip': what may meet bad rows, or orders rows, comes after a mix whose weights change by step; write it before the mix, for each "
                "dataset, or choose on_error='substitute'"
            )
    return made


def _below_batch(node: Node, steps: int) -> Node:
    if isinstance(node, Batch):
        return replace(node, input=_below_batch(node.input, steps), steps=node.steps or steps)
    if isinstance(node, Pad):
        return replace(node, input=_below_batch(node.input, steps))
    return _without_bad(node)


def _guarded(node: Node, *, keeps_order: bool) -> Node:
    """A plan of which no lane stage, and no mix that keeps its order, gets a bad row."""
    keeps_order = isinstance(node, LaneNode) or (keeps_order and isinstance(node, _KEEPS_ORDER))
    inputs = [_guarded(below, keeps_order=keeps_order) for below in inputs_of(node)]
    if isinstance(node, LaneNode) or (isinstance(node, Mix) and keeps_order):
        inputs = list(map(_without_bad, inputs))
    return with_inputs(node, inputs)


def _without_bad(node: Node) -> Node:
    return SkipBad(input=node) if _may_fail(node) else node


def _may_fail(node: Node) -> bool:
    """Whether bad rows may come out of a node: not out of a lane stage."""
    if isinstance(node, LaneNode):
        return False
    return isinstance(node, _FALLIBLE) or any(map(_may_fail, inputs_of(node)))
