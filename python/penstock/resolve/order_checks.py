"""What is refused when a verb is written: sources that cannot be read in the order that it asks for."""

from __future__ import annotations

from penstock.core.errors import PlanError
from penstock.core.quoted import quoted
from penstock.order.streamed import WINDOW_ROWS
from penstock.plan.nodes import (
    Batch,
    BatchTokens,
    Bucket,
    LaneNode,
    Node,
    Shard,
    Shuffle,
    Zip,
)
from penstock.plan.nodes.picked import REORDERING
from penstock.plan.tree import flow, inputs_of, leaves
from penstock.resolve.cut import cut
from penstock.resolve.ordering import demand_order, order_of, some_rank
from penstock.resolve.row_counts import is_forward, rows_of
from penstock.source.manifest import MOST_IDS
from penstock.source.protocol import Access

#: Verbs whose ids may be more than those of any of their inputs.
_GROWS = ("concat", "mix", "zip", "repeat")


def check_order(root: Node) -> None:
    """PlanError where the sources cannot be read in the order that a verb asks for."""
    if root.verb in _GROWS:
        _check_countable(root)
    if isinstance(root, Shuffle):
        _check_shuffle(root)
    if isinstance(root, (Bucket, BatchTokens, *REORDERING)) and is_forward(root):
        raise PlanError(
            f"{root.verb}: this source can only be read in one order, and nothing of it is stored; let from_iterable(…, spool=True) store the rows"
        )
    if isinstance(root, Shard):
        _check_shard(root)
    if isinstance(root, Zip):
        _check_pairs(root)
    if isinstance(root, Batch):
        order = order_of(root, some_rank(root)).order  # says if no batch can be made of so few samples
        for node in flow(root):
            if isinstance(node, LaneNode):
                (below,) = inputs_of(node)
                demand_order(cut(below), order)


def _check_countable(node: Node) -> None:
    """PlanError where row ids, which are int64, would not suffice."""
    inputs = inputs_of(node)
    if any(isinstance(below, LaneNode) for one in inputs for below in flow(one)):
        return
    rows = sum(map(rows_of, inputs)) if len(inputs) > 1 else rows_of(node)
    if rows > MOST_IDS:
        raise PlanError(
            f"{node.verb}: {rows:,} rows in all, and ids are counted in 63 bits; leave some datasets out, or repeat fewer times"
        )


def _check_shuffle(node: Shuffle) -> None:
    """PlanError where rows can only be read in one order and are to come in any, or the other way round."""
    if not is_forward(node):
        if node.window is not None:
            raise PlanError(
                f"shuffle: window={node.window:,} is for sources that can only be read in one order; the order covers all samples here, so there "
                f"is no buffer to size; leave it out"
            )
        return
    given = {"mode": "block", "block_rows": None, "window_blocks": None}
    for name, default in given.items():
        if (value := getattr(node, name)) != default:
            raise PlanError(
                f"shuffle: {name}={quoted(value)}, and this source can only be read in one order; mix its rows within a window, "
                f"shuffle(seed=…, window={WINDOW_ROWS}), or let from_iterable(…, spool=True) store them"
            )


def _check_pairs(node: Zip) -> None:
    """PlanError where rows have no counterpart."""
    first, *others = map(rows_of, node.inputs)
    for number, rows in enumerate(others, 1):
        if rows != first:
            raise PlanError(
                f"zip: dataset 0 has {first:,} rows and dataset {number} has {rows:,}, so that some would have no counterpart; look whether rows are "
                f"missing, or cut all of them to the shortest with strict=False"
            )


def _check_shard(node: Shard) -> None:
    """PlanError where a node's own files cannot be trained on beside those of the others."""
    own = rows_of(node)
    if own not in node.samples:
        raise PlanError(
            f"shard: {own:,} samples lie here, which none of the {len(node.samples)} nodes has by samples=…; pass len(dataset) of "
            f"every node, in the order of the nodes"
        )
    for source in (leaf.opened.source for leaf in leaves(node)):
        if source.access is Access.FORWARD:
            raise PlanError(
                "shard: this source is drawn in one order, and every rank draws all of it; let each node read its own"
            )
        if getattr(source, "classes", ()) and not getattr(source, "classes_given", False):
            raise PlanError(
                "shard: another node may have other class folders, and number its classes differently; name all of them, in one "
                "order on every node: read(…, classes=[…])"
            )
