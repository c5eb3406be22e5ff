"""A whole plan as stages for one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.deliver import Deliver
from penstock.lower.cache_places import cache_places
from penstock.lower.context import context_of, item_bytes_within
from penstock.lower.known_ends import known_ends
from penstock.lower.lanes import LANE_ROWS
from penstock.lower.layouts import with_layouts
from penstock.lower.lowered import Lowered, Stages, share_memory
from penstock.lower.memory import MemoryNeeds
from penstock.lower.on_device import OnDevice, in_words, last_transform
from penstock.lower.reading import FAR_BYTES
from penstock.lower.stages import delivering, stages_of
from penstock.order.steps.batches import Last
from penstock.plan.nodes import LaneOutput, MapVerb, Node, Pad, Shard, TransformBatch
from penstock.plan.rules import RULES, SAME_ROWS, optimize
from penstock.plan.tree import find, flow, leaves
from penstock.resolve.cut import cut
from penstock.resolve.dealt import Dealt, settled
from penstock.resolve.ordering import RankSettings, has_natural_ends, order_of
from penstock.runtime.slots import Slots
from penstock.runtime.tuner import Tuner
from penstock.source.protocol import AnySource, BlockSource, Paced
from penstock.stages.bad_rows import Tolerance
from penstock.stages.deliver_columns import VALID
from penstock.stages.lanes.all_feeds import Counts, LaneFeeds

#: Steps whose batches are small are made together, up to ITEM_BYTES and so many steps.
_ITEM_STEPS = 1024


def lower(
    root: Node,
    deliver: Deliver,
    where: RankSettings,
    *,
    memory_bytes: int = FAR_BYTES,
    is_described: bool = False,
    tolerance: Tolerance | None = None,
    fixed: frozenset[str] = frozenset(),
    lanes: Sequence[int] | None = None,
    written: Node | None = None,
) -> Lowered:
    """Stages for one rank, which hold up to `memory_bytes` together. is_described: nothing is read to make them, and they do not run.

    fixed: which of "cpus" and "memory" the user chose, so that nothing tunes what follows from them. tolerance: what is done about bad rows; None for an error. A plan from which they are left out is one of `plan.skipping`.
    lanes: those of which rows are taken; None for the rank's. written: the plan without the lanes and windows that were decided for it, by which errors advise others.
    """
    blocks_with = None if find(root, Shard) is not None else partial(_blocks_with, written or root, where)
    root = settled(root, where.world_size)
    found = order_of(root, where)
    order, where = found.order, found.where
    order.share(where.rank, where.world_size)
    order.check_ranks(where.world_size)
    rules = SAME_ROWS if tolerance is not None and tolerance.substitutes else RULES
    root = optimize(root, rules, prepare=with_layouts)
    paced = [leaf.opened.source for leaf in leaves(root) if isinstance(leaf.opened.source, Paced)]
    root = cut(root)
    sources = [leaf.opened.source for leaf in leaves(root)]
    if order.last is Last.PAD and any(VALID in source.spec for source in sources):
        raise PlanError(f"pad=True adds a column {VALID!r}, and the data has one already; rename it")
    alone = order.rows_vary or any(map(_needs_step_alone, flow(root)))
    context = context_of(
        root,
        order,
        where,
        seed=found.seed,
        slots=Slots(new_memory=deliver.new_memory),
        memory_bytes=memory_bytes,
        is_exact=not alone and all(map(_is_as_long_as_records, sources)),
    )
    context.budget.learns_first = not context.budget.is_exact and "memory" in fixed
    context = replace(
        context,
        tolerance=tolerance,
        is_tolerant=tolerance is not None and tolerance.substitutes,
        is_described=is_described,
        fixed=fixed,
        thread_setup=deliver.thread_setup,
        lanes=context.lanes if lanes is None else lanes,
        on_device=OnDevice() if deliver.on_device is None else OnDevice(last_transform(root), deliver.on_host),
    )
    lowered = stages_of(context)
    share_memory([*lowered.every()], memory_bytes)
    rows = context.rows_per_step
    together = [
        _ITEM_STEPS,
        item_bytes_within(memory_bytes) // (rows * lowered.row_bytes),
        *(source.rows_together // rows for source in paced),
    ]
    if lowered.feeds:
        together.append(LANE_ROWS // rows)
    return _ready(lowered, deliver, blocks_with, steps_per_item=1 if alone else max(1, min(together)))


def _blocks_with(root: Node, where: RankSettings, lanes: int, window_blocks: int | None) -> tuple[int, int]:
    """Rows of a block and blocks of a window, if the batch named so many lanes, and shuffles that name no window so many blocks."""
    shape = order_of(Dealt(lanes=lanes, window_blocks=window_blocks).applied(root), where).order.rows.shape
    return shape.block_rows, shape.window_blocks


def _ready(
    lowered: Stages,
    deliver: Deliver,
    blocks_with: Callable[[int, int | None], tuple[int, int]] | None,
    *,
    steps_per_item: int,
) -> Lowered:
    """With the stage that delivers, and all that a loader asks for."""
    context, order = lowered.context, lowered.context.order
    stages, every, moved = (*lowered.stages, delivering(lowered, deliver)), [*lowered.every()], lowered.made.moved
    columns, rows = lowered.made.spec, context.rows_per_step
    valid = {VALID: Field("bool")} if order.last is Last.PAD else {}
    return Lowered(
        order=order,
        where=context.where,
        stages=stages,
        steps_per_item=steps_per_item,
        item_bytes=rows * lowered.row_bytes,
        images=lowered.images,
        lanes=LaneFeeds(lowered.feeds, order, context.lanes, _counts_of(lowered)),
        slots=tuple(slots for each in every for slots in (each.context.slots, each.context.record_slots)),
        on_device=in_words(moved),
        columns=None if columns is None else {**columns, **valid},
        budget=context.budget,
        workers=context.workers,
        tuner=Tuner(stages, [each.context.budget for each in every], context.fixed),
        cacheable=tuple(
            (place.of, tuple(stage.name for stage in stages[place.first : place.end]))
            for place in cache_places(context.root, lowered.after)
        ),
        caches=tuple(reader.cached for reader in lowered.context.caches.values()),
        runs=tuple(every),
        needs=MemoryNeeds(
            blocks=tuple(each.blocks for each in every if each.blocks is not None),
            batch_bytes=lowered.item_bytes(rows, None) + (0 if lowered.window_bytes else rows * lowered.read_row_bytes),
            decoding_bytes=sum(each.context.budget.aside_bytes for each in every),
            parts_bytes=sum(each.context.budget.parts_bytes for each in every),
            parts_within=lambda limit: sum(each.context.budget.parts_within(limit // len(every)) for each in every),
            batch_size=order.batch_size,
            lanes=order.lanes,
            blocks_with=blocks_with,
        ),
    )


def _counts_of(lowered: Stages) -> list[Counts]:
    """How many rows each lane stage gives, where epochs end with them and that is arithmetic."""
    if not has_natural_ends(lowered.context.order):
        return []
    pairs = zip(lowered.context.sources.origins, lowered.feeds, strict=True)
    return [known_ends(cast("LaneOutput", output).node, feed.order) for output, feed in pairs]


def _needs_step_alone(node: Node) -> bool:
    """Whether what a node makes of a row depends on the other rows of its batch."""
    return isinstance(node, (MapVerb, TransformBatch)) or (isinstance(node, Pad) and node.length is None)


def _is_as_long_as_records(source: AnySource) -> bool:
    """Whether columns take no more memory than their fields and records say; lists of numbers, and what is packed, may take more."""
    if isinstance(source, BlockSource):
        return all(field.is_fixed for field in source.spec.values())
    return all(field.is_fixed or field.shape == () for field in source.spec.values())
