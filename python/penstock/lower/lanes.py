"""What runs below a lane stage: a plan of its own, with its own stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.core import kernels
from penstock.lower.context import ITEM_BYTES, Context, context_of
from penstock.lower.functions import call_of
from penstock.lower.lowered import Stages
from penstock.order.keys import STAGE_KEY
from penstock.order.steps.batches import BatchOrder
from penstock.plan.nodes import FlatMap, LaneNode, LaneOutput, Node, SkipBad
from penstock.plan.tree import comes_once
from penstock.resolve.cut import cut
from penstock.resolve.ordering import RankSettings, demand_order
from penstock.runtime.run import Run
from penstock.runtime.slots import Slots
from penstock.runtime.tune import Depth
from penstock.runtime.tuner import Tuner
from penstock.source.protocol import Access
from penstock.stages.lanes.ending_feed import EndingFeed
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.stages import STAGES

#: Below a lane stage so many rows are made together as soon as so many are wanted, if they are not long, and then more. Above it an item has no more than the second
#: number, so that the first one comes soon. Of a row may come many: fewer at first.
_FIRST_GROWN_ROWS, _FIRST_LANE_ROWS, LANE_ROWS, _FEWEST_LANE_ROWS, _MOST_LANE_ROWS = 8, 128, 1024, 16, 1 << 14
_LANE_DEPTH = 2
#: Rows that are asked for at once take no more than such a part of the memory, nor does what comes of them.
_ITEM_PART = 16


def feed_of(
    output: LaneOutput, number: int, lane_stage: int, above: Context, lower: Callable[[Context], Stages]
) -> tuple[LaneFeed, Stages]:
    """A lane stage, with what is below it lowered for itself. number: of the source that it is above; lane_stage: of those there."""
    node: Any = output.node
    seed = kernels.mix([above.seed, STAGE_KEY, lane_stage])  # rows here have ids that rows above have as well
    root = cut(node.input)
    order = demand_order(root, above.order)
    below = lower(_below(node, root, order, seed, above))
    here, budget, depth, stages = below.context, below.context.budget, _LANE_DEPTH, below.stages
    tuner = Tuner(stages, (budget,), above.fixed, has_kernels=False)  # kernels are tuned for all runs together
    feed = (EndingFeed if order.has_ends else LaneFeed)(
        STAGES[type(node)](node, above.where.cpus, partial(call_of, context=above)),
        order,
        lambda works, last, wake: Run(
            (*stages, last),
            budget.follow(works),
            Depth(out=depth, between=depth, most=2 * depth),
            budget,
            tuner,
            thread_setup=None if here.thread_setup is None else here.thread_setup(),
            wake=wake,
        ),
        first_id=int(above.sources.first_ids[number]),
        place=here.sources.places(),
        mine=above.lanes,
        together=_together(node, below, above),
        most_bytes=lambda: budget.limit_bytes // _ITEM_PART,
        seed=seed,
        budget=above.budget,
        cpus=above.where.cpus,
        below=below.feeds,
        goes_back=not comes_once(node.input),
    )
    return feed, below


def _below(node: LaneNode, root: Node, order: BatchOrder, seed: int, above: Context) -> Context:
    here = context_of(
        root,
        order,
        RankSettings(cpus=above.where.cpus),
        seed=seed,
        slots=Slots(),
        memory_bytes=above.budget.limit_bytes,
        is_exact=False,
        workers=above.workers,
    )
    here.budget.learns_first = "memory" in above.fixed
    return replace(
        here,
        lanes=above.lanes,
        tolerance=above.tolerance,
        is_tolerant=above.tolerance is not None and (above.tolerance.substitutes or isinstance(node, SkipBad)),
        is_described=above.is_described,
        fixed=above.fixed,
        thread_setup=above.thread_setup,
    )


def _together(node: LaneNode, below: Stages, above: Context) -> tuple[int, int]:
    """How many rows to ask for at once: as soon as so many are wanted, and at most."""
    first, most = _FIRST_GROWN_ROWS if isinstance(node, FlatMap) else _FIRST_LANE_ROWS, _MOST_LANE_ROWS
    if Access.FORWARD in below.context.sources.access:
        # Request no more rows of a slow stream than a batch needs: an item of several lanes takes all rows between.
        first, most = len(above.lanes) * below.context.order.rows_per_lane, LANE_ROWS
    fitting = max(_FEWEST_LANE_ROWS, ITEM_BYTES // below.row_bytes)
    return min(first, fitting), min(most, fitting)
