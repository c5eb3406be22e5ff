"""The plan of a loader that leaves out bad rows: lane stages go on with the next row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.core.errors import PlanError
from penstock.plan.ends import with_lanes
from penstock.plan.nodes import Batch, Cache, Mix, Node, Pad, SkipBad, Transform
from penstock.plan.tree import ends_with_data, find, find_where, flow, inputs_of, lane_stage, with_inputs


def skipping(root: Node, steps: Callable[[], int]) -> Node:
    """The same without bad rows, in epochs that end where its data does: what may meet one is followed by a stage that leaves it out.

    steps: of an epoch of the plan as it is, for one whose epochs cannot end so: it then has as many. Of the datasets of a mix they are left out before it, so that its weights are exact, unless something above the mix orders its rows anew.
    PlanError for a plan of which rows cannot be left out.
    """
    if (fixing := find_where(root, lambda node: node.fixes_epoch)) is not None:
        raise PlanError(
            f"on_error='skip': with {fixing.called} every row has its place in an epoch, and none can be left out; choose on_error='substitute'"
        )
    for node in flow(root):
        if isinstance(node, Cache) and find(node, Mix) is not None:
            raise PlanError(
                "on_error='skip': bad rows are left out of each dataset before a mix, and cache() after it would keep rows that have no numbers; write cache() before the "
                "mix, for each dataset, or choose on_error='substitute'"
            )
    guarded = _guarded(root, keeps_order=True)
    made = _below_batch(guarded, None)
    batch = find(made, Batch)
    if batch is not None and batch.steps is None and lane_stage(made) is not None:
        made = _with_ends(made) if ends_with_data(made) else _below_batch(guarded, steps())
    for node in flow(made):
        if isinstance(node, SkipBad) and any(isinstance(below, Mix) and below.changes for below in flow(node)):
            raise PlanError(
                "on_error='skip': what may meet bad rows, or orders rows, comes after a mix whose weights change by step; write it before the mix, for each "
                "dataset, or choose on_error='substitute'"
            )
    return made


def _with_ends(node: Node) -> Node:
    """The same, with all that stands beside stages as rows of lanes."""
    if isinstance(node, Batch):
        return replace(node, input=with_lanes(node.input))
    return with_inputs(node, [_with_ends(below) for below in inputs_of(node)])


def _below_batch(node: Node, steps: int | None) -> Node:
    """A plan whose bad rows are left out below the batch, which has so many steps; what may meet some above it goes below it with all that stands between."""
    if isinstance(node, Batch):
        return replace(node, input=_below_batch(node.input, steps), steps=node.steps or steps)
    if isinstance(node, Pad) or (node.row_effect == "chosen" and lane_stage(node) is not None):
        return with_inputs(node, [_below_batch(below, steps) for below in inputs_of(node)])
    if find(node, Batch) is None:
        return _without_bad(node)
    if not node.may_fail:
        return with_inputs(node, [_below_batch(below, steps) for below in inputs_of(node)])
    (below,) = inputs_of(node)
    padded = find(below, Pad)
    if padded is None or padded.length is not None:
        return _without_bad(with_inputs(node, [_of_steps(below, steps)]))
    moved = _below_padding(node) if isinstance(node, Transform) else node
    if isinstance(moved, Batch):
        return _below_batch(moved, steps)
    raise PlanError(
        f"on_error='skip': {node.verb} may meet bad rows, and comes after batch_padded, which pads the rows of a whole batch; write it before batch_padded, give that a length=, "
        "or choose on_error='substitute'"
    )


def _of_steps(node: Node, steps: int | None) -> Node:
    """The same, in epochs of so many steps."""
    if isinstance(node, Batch):
        return replace(node, steps=node.steps or steps)
    return with_inputs(node, [_of_steps(below, steps) for below in inputs_of(node)])


def _below_padding(node: Transform) -> Node:
    """The same with the ops before batch and pad, which leave images as they are."""
    below = node.input
    if isinstance(below, Transform):
        below = _below_padding(below)
    if isinstance(below, (Batch, Pad)):
        return replace(below, input=_below_padding(replace(node, input=below.input)))
    return replace(node, input=below)


def _guarded(node: Node, *, keeps_order: bool) -> Node:
    """A plan of which no lane stage, and no mix that keeps its order, gets a bad row."""
    is_counted = node.row_effect == "counted"
    keeps_order = is_counted or (keeps_order and node.keeps_order)
    inputs = [_guarded(below, keeps_order=keeps_order) for below in inputs_of(node)]
    if is_counted or (isinstance(node, Mix) and keeps_order):
        inputs = list(map(_without_bad, inputs))
    return with_inputs(node, inputs)


def _without_bad(node: Node) -> Node:
    return SkipBad(input=node) if _may_fail(node) else node


def _may_fail(node: Node) -> bool:
    """Whether bad rows may come out of a node: not out of a lane stage."""
    if node.row_effect == "counted":
        return False
    return node.may_fail or any(map(_may_fail, inputs_of(node)))
