"""The order that a plan asks for, and which part of it a rank holds.

The verb that makes batches decides what cuts the order into steps:

    batch(…), padded, bucketed     BatchOrder     cuts the rows that `Deal` deals to the lanes
    batch(…, steps=…)              BatchOrder     of a mix of one input, which continues where the epoch before ended
    batch(…) of a lane stage       NaturalBatches each epoch ends where what the stage makes of its rows does
    batch_tokens(…)                TokenBatches   lanes have room for tokens, not for rows
    shard(…)                       BatchOrder     of this node's samples alone, with its part of the batch and keys of its own
    below a lane stage             DemandOrder    one endless epoch, on the lanes of the order above, or epoch by epoch below `NaturalBatches`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Any

from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.order.keys import SHARD_KEY
from penstock.order.lanes import default_lanes, nearest_ranks
from penstock.order.protocol import RowOrder
from penstock.order.rows.lane_rows import LANE_ROWS, LaneRows
from penstock.order.rows.mixed import Mixed, Stop
from penstock.order.steps.batches import BatchOrder, Last
from penstock.order.steps.bucketed import Bucketed
from penstock.order.steps.demand import DemandOrder
from penstock.order.steps.natural import NaturalBatches
from penstock.order.steps.token_batches import TokenBatches
from penstock.order.steps.token_cut import TokenBudget, default_token_lanes
from penstock.order.steps.tokens import TokenRows
from penstock.plan.nodes import Batch, BatchTokens, Node, Shard, Shuffle
from penstock.plan.tree import ends_with_data, find, lane_stage
from penstock.resolve.cut import cut
from penstock.resolve.dealt import settled
from penstock.resolve.orders import Deal
from penstock.resolve.resolved import Resolved, resolve


@dataclass(frozen=True, kw_only=True)
class RankSettings:
    """For whom a plan is lowered: this rank's share, on these CPUs. equal_parts: see `order.steps.batches.BatchOrder`."""

    rank: int = 0
    world_size: int = 1
    cpus: int = 1
    equal_parts: bool = False


def is_for_evaluation(root: Node) -> bool:
    """Whether a plan takes each row once, in the order of the data: what trainers gather of its batches is then cut to these rows."""
    batch = find(root, Batch)
    is_in_order = find(root, Shuffle) is None and find(root, Shard) is None and lane_stage(root) is None
    return batch is not None and batch.steps is None and is_in_order and not isinstance(batch, BatchTokens)


def some_rank(root: Node, world_size: int | None = None) -> RankSettings:
    """A rank that reads this source, of so many or as few as can be: to describe a plan, or to check it."""
    batch, shard = find(root, Batch), find(root, Shard)
    rows = 0 if shard is None else resolve(root).rows
    samples = (rows,) if shard is None else shard.samples
    if world_size is None:
        world_size = len(samples)
        if batch is not None and batch.per_rank and batch.lanes is not None:
            world_size = lcm(world_size, batch.lanes // gcd(batch.lanes, batch.size))
    return RankSettings(rank=samples.index(rows) * (world_size // len(samples)), world_size=world_size)


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """What a plan asks for: the order of one node's batches, the place among the ranks that share it, and the seed of random ops."""

    order: BatchOrder
    where: RankSettings
    seed: int


def order_of(root: Node, where: RankSettings) -> Ordered:
    """The order that a plan asks for, and the rank's place among those that share it; PlanError if it has no batch.

    All ranks share one order, unless nodes have files of their own (`Shard`): then the ranks of each node share one.
    """
    root = settled(root, where.world_size)
    batch, shard = find(root, Batch), find(root, Shard)
    if batch is None:
        raise PlanError("the plan has no batch; end it with .batch(size)")
    batch = batch.of_all(where.world_size)
    if where.equal_parts:
        _check_equal_parts(batch, shard)
    if shard is not None:
        return _order_of_node(resolve(root), batch, shard, where)
    resolved = resolve(cut(root))
    if isinstance(batch, BatchTokens):
        order: BatchOrder = _token_batches(resolved, batch)
    else:
        has_ends = lane_stage(root) is not None and ends_with_data(root)
        order = _batches(resolved, batch, equal_parts=where.equal_parts, has_ends=has_ends)
    return Ordered(order=order, where=where, seed=resolve(root).seed)


def _batches(resolved: Resolved, batch: Batch, *, equal_parts: bool, has_ends: bool) -> BatchOrder:
    """has_ends: whether epochs end where the rows of lane stages do."""
    lanes = batch.lanes or default_lanes(batch.size)
    rows = Deal(resolved, lanes, batch.size, has_ends=has_ends).order
    steps = _steps_of_buckets(rows, batch) if isinstance(rows, Bucketed) else None
    if batch.steps is not None:
        rows = _in_steps(rows, batch.steps * batch.size)
    elif has_ends:
        return NaturalBatches(rows=resolved.with_links(rows), last=_last(batch), equal_parts=equal_parts)
    return BatchOrder(rows=resolved.with_links(rows), last=_last(batch), steps=steps, equal_parts=equal_parts)


def _check_equal_parts(batch: Batch, shard: Shard | None) -> None:
    if isinstance(batch, BatchTokens):
        raise PlanError(
            "equal_parts=True: the ranks' parts of batch_tokens hold equally many tokens, not rows; evaluate with batch_padded or batch_bucketed"
        )
    if shard is not None:
        raise PlanError(
            "equal_parts=True: with shard(…) every node divides files of its own, so the rows that fill up a step do not come last; leave one of them out"
        )


def _token_batches(resolved: Resolved, batch: Any) -> TokenBatches:
    """The order of batches of a bounded number of tokens; PlanError where a row is longer than a lane's part."""
    budget = _budget(batch)
    tokens = Deal(resolved, budget.lanes, budget.lanes, budget=budget).order
    assert isinstance(tokens, TokenRows)
    return TokenBatches(rows=resolved.with_links(tokens), last=_last(batch), tokens=tokens, budget=budget)


def _budget(batch: BatchTokens) -> TokenBudget:
    """What each lane has room for; PlanError where that is not the longest row."""
    longest, length = int(batch.lengths.numbers.argmax()), batch.lengths.longest
    lanes = batch.lanes or default_token_lanes(batch.size, length)
    budget = TokenBudget(
        lane_tokens=batch.size // lanes,
        lanes=lanes,
        is_padded=batch.is_padded,
        multiple_of=batch.multiple_of,
        fill=batch.fill,
        drop_last=batch.drop_last,
    )
    cost = int(budget.costs(batch.lengths.numbers[[longest]])[0])
    if cost > budget.lane_tokens:
        has = (
            f"and max_tokens={batch.size:,} over {lanes} lanes is {budget.lane_tokens:,} for each"
            if lanes > 1
            else f"and max_tokens={batch.size:,}"
        )
        raise PlanError(
            f"batch_tokens: row {longest:,} counts {cost:,} tokens, {has}; give at least max_tokens={cost * lanes:,}"
            f"{', fewer lanes=' if lanes > 1 else ''}, or leave long rows out with filter"
        )
    return budget


def _steps_of_buckets(rows: Bucketed, batch: Batch) -> int | None:
    """Steps whose batches have rows of one bucket each, with drop_last; else None, since those that hold what is left of all come last."""
    if batch.steps is not None:
        raise PlanError("batch_bucketed: how long an epoch is follows from the buckets; leave out steps=…")
    if not rows.even_steps:
        raise PlanError(
            f"batch_bucketed: none of the {len(rows.inputs)} buckets has rows for a batch of {batch.size:,}; take fewer buckets, or a smaller batch"
        )
    return rows.even_steps if batch.drop_last else None


def _in_steps(order: RowOrder, rows: int) -> RowOrder:
    """Epochs of so many rows, each of which continues where the one before ended."""
    if not order.lane_rows().min():
        raise PlanError(
            f"batch: steps=… goes round and round, and some of the {order.shape.lanes} lanes have no row; use fewer lanes"
        )
    if isinstance(order, LaneRows):
        return replace(order, epoch_rows=rows // order.lanes)
    return Mixed(inputs=(order,), first_ids=(0,), quotas=((0, (1,)),), stop=Stop.ROWS, rows=rows)


def demand_order(root: Node, like: BatchOrder) -> DemandOrder:
    """The order of a lane stage's input, on the lanes of the order above: one epoch without an end, or epochs as they are where those above end with them; `root` is cut."""
    lanes, resolved = like.lanes, resolve(root)
    rows = Deal(resolved, lanes, like.batch_size).order
    if has_natural_ends(like):
        linked = resolved.with_links(rows)
        return DemandOrder(rows=linked, steps=1, epochs=rows, has_ends=True)
    if not rows.lane_rows().min():
        raise PlanError(
            f"batch: {int(rows.lane_rows().sum()):,} rows are fewer than the {lanes} lanes that each need one; give batch(…, lanes=…) fewer lanes"
        )
    epochs = rows
    if rows.lane_rows().min() < LANE_ROWS:  # also a mix of so many rows, whatever is below it
        rows = _in_steps(rows, lanes * LANE_ROWS)
    return DemandOrder(rows=resolved.with_links(rows), steps=1, epochs=epochs)


def steps_of(order: BatchOrder) -> int:
    """Steps of an epoch of a plan from which bad rows are left out, and whose epochs cannot end where its data does then. PlanError where nothing else says how many."""
    if has_natural_ends(order):
        raise PlanError(
            "on_error='skip': what may meet bad rows comes after mix, take or skip of rows that a lane stage gives, and where an epoch ends would follow from both; write it before these, or say how "
            "many steps an epoch has, batch(…, steps=…)"
        )
    return order.steps_per_epoch


def has_natural_ends(order: BatchOrder) -> bool:
    """Whether the data says where each epoch of an order ends, or of one below it."""
    return isinstance(order, NaturalBatches) or (isinstance(order, DemandOrder) and order.has_ends)


def _order_of_node(resolved: Resolved, batch: Batch, shard: Shard, where: RankSettings) -> Ordered:
    """A node's own order: its part of every batch, out of its own samples."""
    number, here = len(shard.samples), resolved.rows
    if where.world_size % number:
        raise PlanError(f"world_size={where.world_size} is not a multiple of the {number} nodes of shard(…)")
    steps = _steps(batch, shard)
    ranks = where.world_size // number
    node, rank = divmod(where.rank, ranks)
    if shard.samples[node] != here:
        raise PlanError(
            f"shard: node {node} has {shard.samples[node]:,} samples by what was passed, and {here:,} lie here; pass "
            f"len(dataset) of every node, in the order of the nodes"
        )
    size = batch.size // number
    if ranks and size % ranks:
        raise PlanError(
            f"world_size={where.world_size} makes {ranks} ranks on each of the {number} nodes of shard(…), which cannot share its {size:,} "
            f"rows of a batch equally; they could with {nearest_ranks(size, ranks)} ranks a node"
        )
    if batch.steps is not None:
        raise PlanError(
            "batch: steps=… cannot go with shard(…), where the nodes' counts say how long an epoch is; leave it out"
        )
    if batch.lanes is not None and batch.lanes % number:
        raise PlanError(f"batch: lanes={batch.lanes} is not a multiple of the {number} nodes of shard(…)")
    lanes = batch.lanes // number if batch.lanes else default_lanes(size)

    def seed_here(seed: int) -> int:
        return kernels.mix([seed, node, SHARD_KEY])

    rows, seed = Deal(resolved, lanes, size, seed_here).order, resolved.shuffle_seed
    return Ordered(
        order=BatchOrder(rows=resolved.with_links(rows), last=_last(batch), steps=steps),
        where=replace(where, rank=rank, world_size=ranks),
        seed=0 if seed is None else seed_here(seed),
    )


def _last(batch: Batch) -> Last:
    named = {"drop_last": Last.DROP, "pad": Last.PAD, "wrap": Last.WRAP}
    return next((last for name, last in named.items() if getattr(batch, name)), Last.SHORT)


def _steps(batch: Batch, shard: Shard) -> int:
    """Steps of an epoch, the same on all nodes: with drop_last as many as the smallest has, else as the largest needs."""
    number = len(shard.samples)
    if batch.size % number:
        raise PlanError(f"batch: size={batch.size} is not a multiple of the {number} nodes of shard(…)")
    rows = batch.size // number
    if batch.drop_last:
        if min(shard.samples) < rows:
            raise PlanError(
                f"batch: a node has {min(shard.samples):,} samples, fewer than its {rows} rows of a batch, and drop_last drops "
                f"them; use a smaller batch, or pad=True"
            )
        return min(shard.samples) // rows
    if not batch.pad and not batch.wrap:
        raise PlanError(
            "batch: nodes that have files of their own must end an epoch together; choose drop_last=True, pad=True or wrap=True"
        )
    return -(-max(shard.samples) // rows)
