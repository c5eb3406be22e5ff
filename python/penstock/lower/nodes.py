"""The one table that knows every node: what becomes of it, after its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.lower.branch import Branch
from penstock.lower.columns import lower_cache, lower_pad, lower_select, lower_source_column, lower_with_columns
from penstock.lower.context import Context
from penstock.lower.functions import lower_map, lower_map_rows
from penstock.lower.rows import lower_joined, lower_lane_output, lower_order, lower_read, lower_zip
from penstock.lower.transform import lower_transform, lower_transform_batch
from penstock.plan.nodes import (
    Cache,
    Concat,
    LaneOutput,
    Map,
    MapRows,
    Mix,
    Node,
    Pad,
    Read,
    Select,
    SourceColumn,
    Transform,
    TransformBatch,
    WithColumns,
    Zip,
)
from penstock.plan.tree import inputs_of

#: What becomes of a node: of what its inputs give, in a context.
Lower = Callable[[Any, Sequence[Branch], Context], Branch]

#: A row for each kind of node that changes columns, or joins them; all others say which rows come when (`is_order`). `LaneNode`s have none: a plan is cut at them (`resolve.cut`).
STAGES: dict[type, Lower] = {
    Read: lower_read,
    LaneOutput: lower_lane_output,
    Concat: lower_joined,
    Mix: lower_joined,
    Zip: lower_zip,
    SourceColumn: lower_source_column,
    Select: lower_select,
    WithColumns: lower_with_columns,
    Cache: lower_cache,
    Pad: lower_pad,
    Transform: lower_transform,
    TransformBatch: lower_transform_batch,
    Map: lower_map,
    MapRows: lower_map_rows,
}


def lower_node(node: Node, context: Context, after: dict[int, int], before: int = 0) -> Branch:
    """What becomes of a node and all below it; TypeError for a kind that no row of STAGES knows.

    after: gets how many stages there are up to each node, of which `before` are there already.
    """
    lower = lower_order if node.is_order else STAGES.get(type(node))
    if lower is None:
        raise TypeError(
            f"lower: no row of STAGES says what becomes of {type(node).__name__}; write one in penstock/lower/nodes.py"
        )
    inputs, source = list[Branch](), context.source
    is_frozen = context.is_frozen or (isinstance(node, Cache) and node.freeze_random)
    for below in inputs_of(node):
        inputs.append(lower_node(below, context.at(source, is_frozen=is_frozen), after, before))
        source, before = inputs[-1].sources[1], after[id(below)]
    found = lower(node, inputs, context)
    own = found.stages[sum(len(branch.stages) for branch in inputs) :]
    after[id(node)] = before + sum(not stage.is_with_one_before for stage in own)
    return found
