"""How many rows a lane stage gives, where that is arithmetic: `pack` of rows whose lengths are known without reading."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.batch.pack import sequences_of
from penstock.core.columns.spec import Ids
from penstock.core.verbs.lengths import Lengths
from penstock.order.steps.demand import DemandOrder
from penstock.plan.nodes import InLanes, Node, Pack, Read
from penstock.plan.tree import flow, leaves
from penstock.resolve.resolved import below_all_rows, resolve
from penstock.source.protocol import AnySource


def known_ends(node: Node, order: DemandOrder) -> Callable[[int], Ids] | None:
    """By epoch, how many rows of each lane come out of a stage; None where only the data says. order: of its input, epoch by epoch."""
    rows = order.epoch_rows
    if not order.has_ends or rows is None:
        return None
    if isinstance(node, InLanes):
        return lambda _: rows
    if not isinstance(node, Pack):
        return None
    lengths = (
        _held_lengths(node.input, node.columns[0]) if node.lengths is None else _given_lengths(node.input, node.lengths)
    )
    return None if lengths is None else lambda epoch: _packed(node, lengths, order, epoch)


def _packed(node: Pack, lengths: Ids, order: DemandOrder, epoch: int) -> Ids:
    rows, lanes = order.epochs.lane_rows(), np.arange(order.lanes)
    ids = order.epochs.rows_of_lanes(epoch, lanes, np.zeros_like(rows), rows)
    window = node.window if node.strategy == "best_fit" else max(1, int(rows.max()))
    number = -(-rows // window)
    lane = np.repeat(lanes, number)
    at = np.arange(len(lane)) - np.repeat(np.cumsum(number) - number, number)
    groups = np.minimum(window, rows[lane] - at * window)
    sequences = sequences_of(lengths[ids], node, groups.tolist())
    return np.bincount(lane, sequences, order.lanes).astype(np.int64)


def _given_lengths(root: Node, lengths: Lengths) -> Ids:
    """How long rows are, by their ids, as was said."""
    below = resolve(below_all_rows(root))
    found = np.zeros(below.ids, dtype=np.int64)
    found[below.natural.ids(np.arange(below.rows))] = lengths.numbers
    return found


def _held_lengths(root: Node, name: str) -> Ids | None:
    """How long a column of lists is in each row, by the row's id; None where that is not known, or something may change it."""
    if resolve(root).links or not all(map(_keeps_lengths, flow(root))):
        return None
    found = [_lengths_of(leaf.opened.source, name) for leaf in leaves(root)]
    known = [one for one in found if one is not None]
    return np.concatenate(known) if len(known) == len(found) else None


def _keeps_lengths(node: Node) -> bool:
    return isinstance(node, Read) or node.is_order or node.joins == "rows"


def _lengths_of(source: AnySource, name: str) -> Ids | None:
    """Of a column that lies in memory, or whose rows are all of one length."""
    field = source.spec.get(name)
    if field is not None and field.is_fixed and field.shape:
        return np.full(source.manifest.samples, field.shape[0], dtype=np.int64)
    held = getattr(source, "columns", None)
    column = held.get(name) if isinstance(held, dict) else None
    if isinstance(column, (pa.ListArray, pa.LargeListArray)) and not column.null_count:
        edges: Ids = column.offsets.to_numpy().astype(np.int64)
        return np.diff(edges)
    return None
