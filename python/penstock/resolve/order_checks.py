"""What is refused when a verb is written: sources that cannot be read in the order that it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.order.rows.streamed import WINDOW_ROWS
from penstock.plan.nodes import Batch, Node, Pack, Shard, Shuffle, Zip
from penstock.plan.tree import find_where, flow, lane_stage, leaves
from penstock.resolve.cut import cut
from penstock.resolve.ordering import demand_order, order_of, some_rank
from penstock.resolve.resolved import below_all_rows, resolve
from penstock.source.manifest import MOST_IDS
from penstock.source.protocol import Access


def check_order(root: Node) -> None:
    """PlanError where the sources cannot be read in the order that a verb asks for."""
    if root.grows:
        _check_countable(root)
    if root.reads_by_number and _is_forward(root):
        raise PlanError(
            f"{root.verb}: this source can only be read in one order, and nothing of it is stored; let from_iterable(…, spool=True) store the rows"
        )
    for kind, check in _CHECKS.items():
        if isinstance(root, kind):
            check(root)


def _is_forward(node: Node) -> bool:
    """Whether some rows can only be read in one order."""
    return any(leaf.access is Access.FORWARD for leaf in leaves(node))


def _check_countable(node: Node) -> None:
    """PlanError where row ids, which are int64, would not suffice."""
    inputs = resolve(node).inputs
    if lane_stage(node) is not None:
        return
    rows = sum(one.rows for one in inputs) if len(inputs) > 1 else resolve(node).rows
    if rows > MOST_IDS:
        raise PlanError(
            f"{node.verb}: {rows:,} rows in all, and ids are counted in 63 bits; leave some datasets out, or repeat fewer times"
        )


def _check_shuffle(node: Shuffle) -> None:
    """PlanError where rows can only be read in one order and are to come in any, or the other way round."""
    if not _is_forward(node):
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
    if lane_stage(node) is not None:
        return  # each lane's are compared where it ends
    first, *others = (one.rows for one in resolve(node).inputs)
    for number, rows in enumerate(others, 1):
        if rows != first:
            raise PlanError(
                f"zip: dataset 0 has {first:,} rows and dataset {number} has {rows:,}, so that some would have no counterpart; look whether rows are "
                f"missing, or cut all of them to the shortest with strict=False"
            )


def _check_shard(node: Shard) -> None:
    """PlanError where a node's own files cannot be trained on beside those of the others."""
    own = resolve(node).rows
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


def _check_batch(node: Batch) -> None:
    """PlanError where no batch can be made of so few rows, here or by a lane stage below."""
    order = order_of(node, some_rank(node)).order
    for below in flow(node):
        if below.row_effect == "counted":
            (fed,) = below.below
            demand_order(cut(fed), order)


def check_rows_have_lengths(root: Node) -> None:
    """PlanError where rows have no places in the data, by which `pack` is told their lengths."""
    if lane_stage(root) is None and resolve(below_all_rows(root)).chosen is not None:
        return
    other = lane_stage(root) or find_where(root, lambda one: not one.keeps_places and not isinstance(one, Shuffle))
    verb = "take" if other is None else other.verb
    raise PlanError(
        f"pack: lengths=… are those of rows as the data has them, and {verb} stands between; leave lengths= out, and count sequences ahead with count_rows()"
    )


def _check_lengths(node: Pack) -> None:
    """PlanError where lengths were given that are not those of the rows."""
    if node.lengths is None:
        return
    check_rows_have_lengths(node.input)
    count, rows = len(node.lengths.numbers), resolve(below_all_rows(node.input)).rows
    if count != rows:
        raise PlanError(f"pack: lengths=… has {count:,} numbers, and there are {rows:,} rows; pass one for each")


#: What else is asked of some verbs.
_CHECKS: dict[type[Node], Callable[[Any], None]] = {
    Shuffle: _check_shuffle,
    Shard: _check_shard,
    Zip: _check_pairs,
    Pack: _check_lengths,
    Batch: _check_batch,
}
