"""Counts how many rows each lane of a plan gives, ahead of training: lane stages run as they will, and what they make is dropped."""

from __future__ import annotations

import time
from contextlib import nullcontext

import numpy as np

from penstock.core.arguments import check_progress, is_one_of
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import Progress
from penstock.core.messages import quoted
from penstock.deliver.numpy import ToNumpy
from penstock.derived.row_counts import drop_count, kept_count, one_counter
from penstock.lower import lower
from penstock.lower.lowered import Lowered
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.cursor import Position
from penstock.plan.nodes import Batch, Node, Take
from penstock.plan.skipping import skipping
from penstock.plan.tree import comes_once, find, flow, lane_stage, leaves, rewrite
from penstock.resolve.ordering import RankSettings, has_natural_ends, order_of
from penstock.runtime.free_memory import default_memory
from penstock.stages.bad_rows import Tolerance
from penstock.tools.counted_epochs import CountedEpochs

#: Rows of steps that are counted together, and seconds after which what was counted so far is kept.
_ROWS_TOGETHER, _KEEP_S = 1 << 16, 5.0


def count_rows(
    root: Node, *, epochs: int, world_size: int | None, again: bool, on_error: str, progress: Progress | None
) -> list[int]:
    """See `Dataset.count_rows`."""
    check_progress("count_rows", progress)
    if not is_one_of(on_error, ("raise", "substitute", "skip")):
        raise PlanError(
            f"count_rows: on_error={quoted(on_error)}; choose what the Loader has: 'raise', 'substitute' or 'skip'"
        )
    if (batch := find(root, Batch)) is None:
        raise PlanError("count_rows: rows are counted by the lanes of batch(…); write data.batch(256).count_rows()")
    if batch.per_rank and world_size is None:
        raise PlanError("count_rows: batch(…, per_rank=True) has as many lanes as its ranks ask for; pass world_size=…")
    if comes_once(root):
        raise PlanError(
            f"count_rows: rows of {', '.join(leaf.where for leaf in leaves(root))} come once, and would be gone for training; let from_iterable(…, spool=True) keep them"
        )
    where = RankSettings(cpus=usable_cpus())
    root = root if world_size is None else rewrite(root, [lambda node: _of_all(node, world_size)])
    taken = [node.count for node in flow(root) if isinstance(node, Take) and lane_stage(node) is not None]
    root = rewrite(root, [_untaken])
    if on_error == "skip" and has_natural_ends(order_of(root, where).order):
        root = skipping(root, None)
    tolerance = (
        None if on_error == "raise" else Tolerance(note=_unsaid, count=_unsaid, substitutes=on_error == "substitute")
    )
    lowered = lower(root, ToNumpy(), where, memory_bytes=default_memory(1), tolerance=tolerance)
    if not lowered.lanes.has_ends:
        return [min(lowered.order.samples, lowered.order.steps_per_epoch * lowered.order.batch_size)] * epochs
    counted = CountedEpochs(root, lowered.lanes)
    if not counted.is_named:
        lowered.workers.close()
        raise PlanError(
            f"count_rows: nothing tells whether {', '.join(leaf.where for leaf in leaves(root))} gives the same rows again, so no count could be kept; let "
            f"from_iterable(…, spool=True) keep the rows, or say batch(…, steps=…)"
        )
    try:
        return [min([_rows_of(lowered, counted, epoch, again, progress), *taken]) for epoch in range(epochs)]
    finally:
        lowered.lanes.close()
        lowered.workers.close()


def _unsaid(_: object) -> None:
    """Whoever trains is told of bad rows."""


def _of_all(node: Node, world_size: int) -> Node | None:
    return node.of_all(world_size) if isinstance(node, Batch) and node.per_rank else None


def _untaken(node: Node) -> Node | None:
    """Above a lane stage all rows are counted, however many of them are taken."""
    return node.input if isinstance(node, Take) and lane_stage(node) is not None else None


def _rows_of(lowered: Lowered, counted: CountedEpochs, epoch: int, again: bool, progress: Progress | None) -> int:
    key, lanes = counted.key(epoch), lowered.lanes
    if not lanes.order_of(epoch).is_known:
        if again and (epoch == 0 or not counted.are_alike):
            drop_count(key)
        with one_counter(key) or nullcontext():
            if not counted.tell(epoch):
                _count(lowered, counted, epoch, progress)
                counted.keep(epoch)
    return lanes.order_of(epoch).samples


def _count(lowered: Lowered, counted: CountedEpochs, epoch: int, progress: Progress | None) -> None:
    """Runs an epoch from where counting was interrupted, or from its beginning, and keeps now and then how far it is."""
    lanes, order = lowered.lanes, lowered.order
    begun = kept_count(counted.key(epoch))
    here = Position(epoch, 0 if begun is None else begun.step or 0)
    if begun is not None:
        ends = [begun.ends.get(str(lane), LANE_ROWS) for lane in range(order.lanes)]
        lanes.know(epoch, np.array(ends, dtype=np.int64))
        lanes.left[epoch] = {int(lane): [*places] for lane, places in begun.left.items()}
    lanes.begin(here, {} if begun is None else {int(lane): [*places] for lane, places in begun.lanes.items()})
    total, steps, kept_at = lanes.input_rows, max(1, _ROWS_TOGETHER // order.batch_size), time.monotonic()
    try:
        for work in lanes.steps(here, (0, 1), steps, None):
            lanes.pass_over(Position(epoch, work.step + work.steps))
            here = Position(epoch, work.step + work.steps)
            if progress is not None:
                progress(min(lanes.fed_rows, total), total)
            if time.monotonic() - kept_at > _KEEP_S:
                counted.keep(epoch, here.step)
                kept_at = time.monotonic()
    except BaseException:
        if here.step:
            counted.keep(epoch, here.step)
        raise
