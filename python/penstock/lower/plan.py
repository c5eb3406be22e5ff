"""A whole plan as stages for one rank."""

from __future__ import annotations

from penstock.core.errors import PlanError
from penstock.core.spec import Field
from penstock.deliver import Deliver
from penstock.lower.cache_places import cache_places
from penstock.lower.lanes import LANE_ROWS
from penstock.lower.layouts import with_layouts
from penstock.lower.lowered import Lowered
from penstock.lower.nodes import NodeStages
from penstock.lower.on_device import in_words, last_transform
from penstock.lower.stages import FAR_BYTES, ITEM_BYTES
from penstock.order.batches import Last
from penstock.order.token_batches import TokenBatches
from penstock.plan.nodes import (
    Map,
    MapRows,
    Node,
    Pad,
)
from penstock.plan.rules import RULES, SAME_ROWS, optimize
from penstock.plan.tree import flow, leaves
from penstock.resolve.cut import cut
from penstock.resolve.ordering import Where, order_of
from penstock.runtime.slots import Slots
from penstock.runtime.tuner import Tuner
from penstock.source.protocol import AnySource, BlockSource, Paced
from penstock.stages.bad_rows import Tolerance
from penstock.stages.deliver_columns import VALID, DeliverColumns
from penstock.stages.lanes.feeds import LaneFeeds

#: Steps whose batches are small are made together, up to ITEM_BYTES and so many steps.
_ITEM_STEPS = 1024


def lower(
    root: Node,
    deliver: Deliver,
    where: Where,
    *,
    memory_bytes: int = FAR_BYTES,
    is_described: bool = False,
    tolerance: Tolerance | None = None,
    fixed: frozenset[str] = frozenset(),
) -> Lowered:
    """Stages for one rank, which hold up to `memory_bytes` together. is_described: nothing is read to make them, and they do not run.

    fixed: which of "cpus" and "memory" the user chose, so that nothing tunes what follows from them. tolerance: what is done about bad rows; None for an error. A plan from which they are left out is one of `plan.skipping`.
    """
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
    lowering = NodeStages(root, order, where, found.seed, Slots(new_memory=deliver.new_memory), memory_bytes)
    lowering.is_described, lowering.fixed, lowering.thread_setup = is_described, fixed, deliver.thread_setup
    lowering.tolerate(tolerance, is_here=tolerance is not None and tolerance.substitutes)
    alone = isinstance(order, TokenBatches) or any(map(_needs_step_alone, flow(root)))
    lowering.budget.is_exact = not alone and all(map(_is_as_long_as_records, sources))
    if deliver.on_device is not None:
        lowering.on_device.transform, lowering.on_device.excluded = last_transform(root), deliver.on_host
    lowering.add_reading()
    whole = lowering.branch(root)
    kind = "copy" if deliver.copies else "cpu"
    on_device = lowering.on_device.columns
    copied_slots = None if deliver.new_memory is None else lowering.slots
    deliver_columns = DeliverColumns(deliver, order, where, lowering.record_slots, on_device, copied_slots)
    lowering.add("deliver", kind, deliver_columns, threads=lowering.together)
    rows = lowering.rows_per_step
    row_bytes = max(1, lowering.record_bytes, sum(field.row_bytes for field in lowering.widest.values()))
    together = min([_ITEM_STEPS, ITEM_BYTES // (rows * row_bytes), *(source.rows_together // rows for source in paced)])
    if lowering.feeds:
        together = min(together, LANE_ROWS // rows)
    return Lowered(
        order=order,
        where=where,
        stages=tuple(lowering.stages),
        steps_per_item=1 if alone else max(1, together),
        item_bytes=rows * row_bytes,
        images=lowering.images,
        lanes=LaneFeeds(lowering.feeds, order, lowering.lanes),
        slots=tuple(slots for each in lowering.every() for slots in (each.slots, each.record_slots)),
        on_device=in_words(on_device),
        columns=None
        if whole.spec is None
        else {**whole.spec, **({VALID: Field("bool")} if order.last is Last.PAD else {})},
        budget=lowering.budget,
        workers=lowering.workers,
        tuner=Tuner(lowering.stages, [each.budget for each in lowering.every()], fixed),
        cacheable=tuple(
            (place.of, tuple(stage.name for stage in lowering.stages[place.first : place.end]))
            for place in cache_places(root, lowering.stages_after)
        ),
        caches=tuple(reader.cached for reader in lowering.caches.values()),
        below=tuple(each.budget for each in lowering.every() if each is not lowering),
        window_bytes=sum(each.window_bytes for each in lowering.every()),
        batch_bytes=lowering.item_bytes(rows, None) + (0 if lowering.window_bytes else lowering.read_bytes(rows)),
    )


def _needs_step_alone(node: Node) -> bool:
    """Whether what a node makes of a row depends on the other rows of its batch."""
    return isinstance(node, (Map, MapRows)) or (isinstance(node, Pad) and node.length is None)


def _is_as_long_as_records(source: AnySource) -> bool:
    """Whether columns take no more memory than their fields and records say; lists of numbers, and what is packed, may take more."""
    if isinstance(source, BlockSource):
        return all(field.is_fixed for field in source.spec.values())
    return all(field.is_fixed or field.shape == () for field in source.spec.values())
