"""Puts the stages of a plan together: those that read, those of its nodes, and what delivers."""

from __future__ import annotations

from dataclasses import replace

from penstock.deliver import Deliver
from penstock.lower.context import Context, context_of
from penstock.lower.lanes import feed_of
from penstock.lower.lowered import Stages
from penstock.lower.nodes import lower_node
from penstock.lower.reading import Readers, open_readers, reading_stages
from penstock.order.rows.by_id import ListedRows
from penstock.order.steps.batches import BatchOrder
from penstock.plan.nodes import LaneOutput
from penstock.resolve.open_blocks import open_blocks
from penstock.resolve.ordering import RankSettings
from penstock.resolve.resolved import resolve
from penstock.runtime.item_bytes import ColumnBytes
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Stage, run_together, told_apart
from penstock.stages.bad_rows import BadRows
from penstock.stages.deliver_columns import DeliverColumns
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.substitutes import SideStages, Substitutes, check_substitutes


def stages_of(context: Context) -> Stages:
    """The stages of a plan that is cut at its lane stages."""
    if context.is_tolerant and context.tolerance is not None and context.tolerance.substitutes:
        check_substitutes(context.root)
    feeds, below = dict[int, LaneFeed](), list[Stages]()
    for number, origin in enumerate(context.sources.origins):
        if isinstance(origin, LaneOutput):
            feeds[number], stages = feed_of(origin, number, len(feeds), context, stages_of)
            below.append(stages)
    opened = open_readers(context, feeds)
    context = replace(context, read_as_one=opened.sources, caches=opened.of_nodes, bad=_bad_rows(context, opened))
    after = dict[int, int]()
    made = lower_node(context.root, context, after)
    item_bytes = ColumnBytes(context.sources.record_bytes, made.widest, made.beside_bytes)
    reading = reading_stages(context, opened, item_bytes)
    return Stages(
        context=context,
        stages=tuple(told_apart(run_together([*reading, *made.stages]))),
        made=made,
        after={node: number + len(reading) for node, number in after.items()},
        feeds=tuple(feeds.values()),
        below=tuple(below),
        item_bytes=item_bytes,
        blocks=open_blocks(resolve(context.root), context.order.rows, len(context.lanes)) if opened.in_order else None,
    )


def _bad_rows(context: Context, opened: Readers) -> BadRows | None:
    """How stages leave bad rows out; None where they are errors."""
    tolerance = context.tolerance
    if tolerance is None or not context.is_tolerant:
        return None
    fill = None
    if tolerance.substitutes:
        fill = Substitutes(
            context.order.rows,
            context.sources.first_ids,
            context.seed,
            lambda: _side_stages(context),
            opened.sources,
            context.slots,
            context.where.cpus,
        )
    return BadRows(tolerance, context.sources.places(), fill)


def _side_stages(context: Context) -> SideStages:
    """The same stages for rows one by one."""
    assert context.tolerance is not None
    order = BatchOrder(rows=ListedRows(input=context.order.rows))
    side = context_of(
        context.root,
        order,
        RankSettings(cpus=context.where.cpus),
        seed=context.seed,
        slots=Slots(),
        memory_bytes=context.budget.limit_bytes,
        workers=context.workers,
    )
    tolerance = replace(context.tolerance, substitutes=False)
    side = replace(side, on_device=context.on_device, tolerance=tolerance, is_tolerant=True)
    stages = stages_of(side).stages
    until = [number + 1 for number, stage in enumerate(stages) if stage.leaves_bad_out]
    return SideStages(stages=stages, until=until, budget=side.budget)


def delivering(lowered: Stages, deliver: Deliver) -> Stage:
    """The last stage: columns become what a framework works with."""
    context = lowered.context
    copied_slots = None if deliver.new_memory is None else context.slots
    work = DeliverColumns(deliver, context.order, context.where, context.record_slots, lowered.made.moved, copied_slots)
    return Stage("deliver", "copy" if deliver.copies else "cpu", work, threads=context.threads)
