"""Counts how many rows each lane of a plan gives, ahead of training: lane stages run as they will, and what they make is dropped."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import numpy as np

from penstock.core.arguments import check_progress, is_one_of
from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import Progress
from penstock.core.messages import quoted
from penstock.deliver.jax_store import jax_processes
from penstock.deliver.numpy import ToNumpy
from penstock.deliver.ranks import Ranks
from penstock.derived.row_counts import drop_count, kept_count, one_counter
from penstock.lower import lower
from penstock.lower.lowered import Lowered
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.steps.cursor import Position
from penstock.plan.nodes import Batch, Node
from penstock.plan.skipping import skipping
from penstock.plan.tree import comes_once, find, leaves, rewrite
from penstock.resolve.dealt import settled
from penstock.resolve.ordering import RankSettings, order_of, steps_of
from penstock.runtime.free_memory import default_memory
from penstock.stages.bad_rows import Tolerance
from penstock.stages.lanes.all_feeds import EpochEnds, LaneFeeds
from penstock.tools.count_lanes import CountPace, CountReport
from penstock.tools.count_on_ranks import RanksCount
from penstock.tools.counted_epochs import CountedEpochs


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
    root = settled(root, 1)
    if on_error == "skip":
        root = skipping(root, partial(steps_of, order_of(root, where).order))
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
    members = Ranks().members() or jax_processes()
    ranks = None if members is None else RanksCount(root, tolerance, counted, members)
    try:
        return [_rows_of(lowered, counted, epoch, again, CountReport(progress), ranks) for epoch in range(epochs)]
    finally:
        lowered.lanes.close()
        lowered.workers.close()


def _unsaid(_: object) -> None:
    """Whoever trains is told of bad rows."""


def _of_all(node: Node, world_size: int) -> Node | None:
    return node.of_all(world_size) if isinstance(node, Batch) and node.per_rank else None


def _rows_of(
    lowered: Lowered, counted: CountedEpochs, epoch: int, again: bool, report: CountReport, ranks: RanksCount | None
) -> int:
    lanes = lowered.lanes
    if not lanes.order_of(epoch).is_known:
        keys = [counted.key(epoch, number) for number in range(len(lanes.feeds))]
        if again and (epoch == 0 or not counted.are_alike):
            for key in keys:
                drop_count(key)
        with (one_counter(keys[0]) if ranks is None else None) or nullcontext():
            if not counted.tell(epoch):
                report.begin(lanes.input_rows)
                each = enumerate(lanes.alone())
                count = _count if ranks is None else ranks.count
                lanes.know(epoch, np.stack([count(one, counted, epoch, number, report) for number, one in each]))
    lanes.check_ends(epoch)
    return lanes.order_of(epoch).samples


def _count(lanes: LaneFeeds, counted: CountedEpochs, epoch: int, number: int, report: CountReport) -> Ids:
    """Runs an epoch of a stage from where counting was interrupted, or from its beginning, and keeps now and then how far it is; how many rows each lane gives."""
    order = lanes.order_of(epoch)
    if order.is_known:
        return np.asarray(order.ends[0])
    begun = kept_count(counted.key(epoch, number))
    here = Position(epoch, 0 if begun is None else begun.step or 0)
    if begun is not None:
        ends = [begun.ends.get(str(lane), LANE_ROWS) for lane in range(order.lanes)]
        left = {int(lane): [*places] for lane, places in begun.left.items()}
        lanes.know_ends(epoch, EpochEnds(np.array([ends], dtype=np.int64), left))
        if begun.step is None:
            return np.asarray(lanes.order_of(epoch).ends[0])
    lanes.begin(here, {} if begun is None else {int(lane): [*places] for lane, places in begun.lanes.items()})

    def keep(step: int | None) -> None:
        places = {} if step is None else lanes.places(Position(epoch, step))
        counted.keep_stage(epoch, number, lanes.order_of(epoch).ends[0], lanes.left.get(epoch, {}), step, places)

    pace = CountPace(order.batch_size)
    try:
        for work in lanes.steps(here, (0, 1), pace.most, lambda: pace.steps - 1):
            here = Position(epoch, work.step + work.steps)
            lanes.pass_over(here)
            report.at(lanes.fed_rows)
            pace.counted(partial(keep, here.step))
    except BaseException:
        if here.step:
            keep(here.step)
        raise
    keep(None)
    report.end(lanes.input_rows)
    return np.asarray(lanes.order_of(epoch).ends[0])
