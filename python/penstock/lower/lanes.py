"""What runs below a lane stage: a plan of its own, with its own stages."""

from __future__ import annotations

from typing import Any

from penstock.core import kernels
from penstock.lower.stages import ITEM_BYTES, Lowering
from penstock.order.keys import STAGE_KEY
from penstock.plan.nodes import SkipBad
from penstock.plan.tree import comes_once
from penstock.resolve.cut import LaneOutput, cut
from penstock.resolve.ordering import Where, demand_order
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.run import Run
from penstock.runtime.slots import Slots
from penstock.runtime.tune import Depth
from penstock.runtime.tuner import Tuner
from penstock.source.protocol import Access
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.stages import STAGES

#: Below a lane stage so many rows are made together as soon as so many are wanted, if they are not long, and then more. Above it an item has no more than the second
#: number, so that the first one comes soon.
_FIRST_LANE_ROWS, LANE_ROWS, _FEWEST_LANE_ROWS, _MOST_LANE_ROWS = 128, 1024, 16, 1 << 14
_LANE_DEPTH = 2


def feed_of(above: Lowering, output: LaneOutput, first_id: int) -> LaneFeed:
    """A lane stage, with what is below it lowered for itself."""
    node: Any = output.node
    root = cut(node.input)
    order = demand_order(root, above.order)
    seed = kernels.mix([above.seed, STAGE_KEY, len(above.below)])  # rows here have ids that rows above have as well
    below = type(above)(root, order, Where(cpus=above.where.cpus), seed, Slots(), above.budget.limit_bytes)
    above.below.append(below)
    below.is_described, below.lanes, below.workers = above.is_described, above.lanes, above.workers
    below.fixed, below.thread_setup = above.fixed, above.thread_setup
    is_here = above.tolerance is not None and (above.tolerance.substitutes or isinstance(node, SkipBad))
    below.tolerate(above.tolerance, is_here=is_here)
    below.budget.is_exact = False
    below.add_reading()
    below.branch(below.root)
    stages, budget, depth = tuple(below.stages), below.budget, _LANE_DEPTH
    tuner = Tuner(stages, (budget,), above.fixed, has_kernels=False)  # kernels are tuned for all runs together
    row_bytes = max(1, below.record_bytes, sum(field.row_bytes for field in below.widest.values()))
    is_forward = any(leaf.opened.source.access is Access.FORWARD for leaf in below.leaves)
    # A stream is not waited for longer than a batch needs, as long as it is slow: an item of several lanes takes all rows between.
    first_rows = len(above.lanes) * order.rows_per_lane if is_forward else _FIRST_LANE_ROWS
    most_rows = LANE_ROWS if is_forward else _MOST_LANE_ROWS
    feed = LaneFeed(
        STAGES[type(node)](node, above.where.cpus, above.call_of),
        order,
        lambda works, last: Run(
            (*stages, last),
            budget.follow(works),
            Depth(out=depth, between=depth, most=2 * depth),
            budget,
            tuner,
            thread_setup=None if below.thread_setup is None else below.thread_setup(),
        ),
        first_id=first_id,
        place=RowPlaces(below.first_ids, below.leaves, below.links),
        mine=above.lanes,
        together=(
            min(first_rows, max(_FEWEST_LANE_ROWS, ITEM_BYTES // row_bytes)),
            min(most_rows, max(_FEWEST_LANE_ROWS, ITEM_BYTES // row_bytes)),
        ),
        seed=seed,
        keep=above.budget.keep,
        cpus=above.where.cpus,
        below=below.feeds,
        goes_back=not comes_once(node.input),
    )
    above.feeds.append(feed)
    return feed
