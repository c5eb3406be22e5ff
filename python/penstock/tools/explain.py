"""What a plan does, in words: before and after optimisation, its order and its stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.messages import counted, quoted
from penstock.deliver import Deliver, open_deliver
from penstock.lower import lower
from penstock.lower.lowered import Lowered
from penstock.order.quality import quality_of
from penstock.order.sharing import explain_ranks, explain_sharing
from penstock.order.steps.natural import NaturalBatches
from penstock.plan.explain import explain_plan, explain_spec
from penstock.plan.nodes import Batch, Mix, Node
from penstock.plan.rules import Change, optimize
from penstock.plan.tree import find, flow, leaves
from penstock.resolve.ordering import some_rank
from penstock.resolve.resolved import resolve
from penstock.tools.explain_dealt import explain_dealt
from penstock.tools.explain_lanes import explain_lanes
from penstock.tools.explain_memory import explain_memory
from penstock.tools.explain_mix import explain_mix
from penstock.transform.recipe import Step, lines_of


def explain(root: Node, world_size: int | None, deliver: Deliver | None = None, memory_bytes: int | None = None) -> str:
    """The plan before and after optimisation, its order and its stages, in words; `world_size`: as that many ranks run it.

    deliver: as a loader delivers; NumPy arrays, if it is None. memory_bytes: what it may hold; None where the machine says.
    """
    sources = [leaf.opened.source for leaf in leaves(root)]
    changes = list[Change]()
    runs = optimize(root, changes=changes)
    parts = [
        *(
            explain_spec(
                f"Source{f' {number}' if len(sources) > 1 else ''}: {source.manifest.samples:,} samples, {source.manifest.size_bytes:,} bytes",
                source.spec,
            )
            for number, source in enumerate(sources)
        ),
        explain_plan("Plan as written", root),
        explain_plan("Plan as it runs", runs),
        *(["\n".join(["Changed", *(f"  {change}" for change in changes)])] if changes else []),
        *(_explain_recipe(*recipe) for node in flow(root) for recipe in node.recipes),
        *(explain_mix(node) for node in flow(root) if isinstance(node, Mix)),
    ]
    if find(root, Batch) is not None:
        parts.append(_explain_order(root, world_size, deliver or open_deliver("numpy", None), memory_bytes))
    return "\n\n".join(parts)


def _explain_recipe(column: str, steps: Sequence[Step]) -> str:
    return "\n".join([f"Recipe of {quoted(column)}", *(f"  {line}" for line in lines_of(steps))])


def _explain_order(root: Node, world_size: int | None, deliver: Deliver, memory_bytes: int | None) -> str:
    where = some_rank(root, world_size)
    lowered = lower(root, deliver, where, is_described=True)
    order = lowered.order
    lines = [
        "Order",
        *(f"  {line}" for line in _explain_steps(lowered, lowered.where.world_size if world_size else order.lanes)),
        *(f"  {line}" for line in explain_dealt(root, order, where.world_size)),
        *([f"  {quality_of(order, resolve(root).ids)}"] if order.rows.shape.is_shuffled and not lowered.lanes else []),
        *(f"  {line}" for line in _explain_ranks(root, lowered, world_size)),
        f"  {counted(lowered.steps_per_item, 'step is', 'steps are')} made together",
        "",
        "Stages",
        *(f"  {feed.name} (lane by lane, with what is below it)" for feed in lowered.lanes.feeds),
        *(f"  {stage.name} ({stage.kind}, {counted(stage.threads, 'thread')})" for stage in lowered.stages),
        *(
            [f"  on the device, to which bytes are copied: {lowered.on_device} ({deliver.kernel})"]
            if lowered.on_device
            else []
        ),
        "",
        "Memory",
        *(f"  {line}" for line in explain_memory(root, lowered, memory_bytes)),
    ]
    return "\n".join(lines)


def _explain_ranks(root: Node, lowered: Lowered, world_size: int | None) -> list[str]:
    batch, order, ranks = find(root, Batch), lowered.order, lowered.where.world_size
    if world_size is None and batch is not None and batch.per_rank:
        return [f"ranks: any number, {batch.size} rows each; described here for {ranks}, see explain(world_size=…)"]
    if world_size is None:
        return [explain_ranks(order)]
    return [f"ranks: {ranks} with {order.part_in_words(ranks)} each", *explain_sharing(order, ranks)]


def _explain_steps(lowered: Lowered, world_size: int) -> list[str]:
    """How many steps there are, what each holds, and where its rows come from."""
    order = lowered.order
    if lowered.lanes.has_ends:
        order = lowered.lanes.order_of(0)
    steps, *words = order.in_words(world_size)
    return [steps, *(explain_lanes(order, lowered.lanes.feeds) if lowered.lanes else words)]


def explain_figures(root: Node) -> dict[str, Any]:
    """The same of a plan with batches as plain values, for programs."""
    changes = list[Change]()
    runs = optimize(root, changes=changes)
    lowered = lower(root, open_deliver("numpy", None), some_rank(root, None), is_described=True)
    order, shape = lowered.order, lowered.order.rows.shape
    order = lowered.lanes.order_of(0) if lowered.lanes.has_ends else order
    return {
        "sources": [{"where": leaf.where, "format": leaf.format, "samples": leaf.samples} for leaf in leaves(root)],
        "plan": [node.verb for node in flow(root)],
        "runs": [node.verb for node in flow(runs)],
        "changed": [str(change) for change in changes],
        "steps": None if isinstance(order, NaturalBatches) and not order.is_known else order.steps_per_epoch,
        "batch": order.batch_size,
        "lanes": order.lanes,
        "shuffled": shape.is_shuffled,
        "block_rows": shape.block_rows if shape.is_shuffled else None,
        "window_blocks": shape.window_blocks if shape.is_shuffled else None,
        "steps_together": lowered.steps_per_item,
        "window_bytes": lowered.window_bytes,
        "batch_bytes": lowered.batch_bytes,
        "lane_stages": [feed.name for feed in lowered.lanes.feeds],
        "stages": [{"name": stage.name, "kind": stage.kind, "threads": stage.threads} for stage in lowered.stages],
    }
