"""The order that a plan asks for, and which part of it a rank holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm

from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.order.blocks import WINDOW_BLOCKS, default_block_rows
from penstock.order.epoch import SHARD_KEY, Last, Order
from penstock.order.lanes import default_lanes, nearest_ranks
from penstock.plan.check import find
from penstock.plan.nodes import Batch, Node, Shard, Shuffle
from penstock.source.protocol import AnySource, BlockSource, is_forward_only


@dataclass(frozen=True, kw_only=True)
class Where:
    """For whom a plan is lowered: this rank's share, on these CPUs."""

    rank: int = 0
    world_size: int = 1
    cpus: int = 1


def some_rank(source: AnySource, nodes: tuple[Node, ...], world_size: int | None = None) -> Where:
    """A rank that reads this source, of so many or as few as can be: to describe a plan, or to check it."""
    batch, shard = find(nodes, Batch), find(nodes, Shard)
    samples = (source.manifest.samples,) if shard is None else shard.samples
    if world_size is None:
        world_size = len(samples)
        if batch is not None and batch.per_rank and batch.lanes is not None:
            world_size = lcm(world_size, batch.lanes // gcd(batch.lanes, batch.size))
    return Where(rank=samples.index(source.manifest.samples) * (world_size // len(samples)), world_size=world_size)


def order_of(source: AnySource, nodes: tuple[Node, ...], where: Where) -> tuple[Order, Where]:
    """The order that a plan asks for, and the rank's place among those that share it; PlanError if it has no batch.

    All ranks share one order, unless nodes have files of their own (`Shard`): then the ranks of each node share one.
    """
    batch, shard = find(nodes, Batch), find(nodes, Shard)
    if batch is None:
        raise PlanError("the plan has no batch; end it with .batch(size)")
    batch = batch.of_all(where.world_size)
    order = _order_of_all(source, nodes, batch)
    if shard is None:
        return order, where
    number = len(shard.samples)
    if where.world_size % number:
        raise PlanError(f"world_size={where.world_size} is not a multiple of the {number} nodes of shard(…)")
    ranks = where.world_size // number
    node, rank = divmod(where.rank, ranks)
    if shard.samples[node] != order.samples:
        raise PlanError(
            f"shard: node {node} has {shard.samples[node]:,} samples by what was passed, and {order.samples:,} lie here; pass "
            f"len(dataset) of every node, in the order of the nodes"
        )
    rows = batch.size // number
    if ranks and rows % ranks:
        raise PlanError(
            f"world_size={where.world_size} makes {ranks} ranks on each of the {number} nodes of shard(…), which cannot share its {rows:,} "
            f"rows of a batch equally; they could with {nearest_ranks(rows, ranks)} ranks a node"
        )
    return _order_of_node(order, batch, shard, node), replace(where, rank=rank, world_size=ranks)


def _order_of_all(source: AnySource, nodes: tuple[Node, ...], batch: Batch) -> Order:
    shuffle = find(nodes, Shuffle)
    block_rows = _block_rows(source)
    window = WINDOW_BLOCKS
    if shuffle is not None:
        block_rows = 1 if shuffle.mode == "global" else shuffle.block_rows or block_rows
        window = shuffle.window_blocks or window
    named = {"drop_last": Last.DROP, "pad": Last.PAD, "wrap": Last.WRAP}
    shard = find(nodes, Shard)
    return Order(
        samples=source.manifest.samples,
        batch_size=batch.size,
        lanes=batch.lanes or default_lanes(batch.size),
        block_rows=block_rows,
        window_blocks=window,
        seed=None if shuffle is None else shuffle.seed,
        last=next((last for name, last in named.items() if getattr(batch, name)), Last.SHORT),
        steps=None if shard is None else _steps(batch, shard),
    )


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


def _order_of_node(order: Order, batch: Batch, shard: Shard, node: int) -> Order:
    """A node's own order: its part of every batch, out of its own samples."""
    number = len(shard.samples)
    if batch.lanes is not None and batch.lanes % number:
        raise PlanError(f"batch: lanes={batch.lanes} is not a multiple of the {number} nodes of shard(…)")
    rows = batch.size // number
    return replace(
        order,
        batch_size=rows,
        lanes=batch.lanes // number if batch.lanes else default_lanes(rows),
        seed=None if order.seed is None else kernels.mix([order.seed, node, SHARD_KEY]),
    )


def check_shuffle(source: AnySource) -> None:
    """PlanError for a source that comes in one order only."""
    if is_forward_only(source):
        raise PlanError(
            "shuffle: this source is drawn in one order, and nothing of it is kept; let from_iterable(…, spool=True) keep the "
            "rows, or shuffle where they are made"
        )


def check_shard(source: AnySource, samples: tuple[int, ...]) -> None:
    """PlanError where a node's own files cannot be trained on beside those of the others."""
    own = source.manifest.samples
    if own not in samples:
        raise PlanError(
            f"shard: {own:,} samples lie here, which none of the {len(samples)} nodes has by samples=…; pass len(dataset) of "
            f"every node, in the order of the nodes"
        )
    if is_forward_only(source):
        raise PlanError(
            "shard: this source is drawn in one order, and every rank draws all of it; let each node read its own"
        )
    if getattr(source, "classes", ()) and not getattr(source, "classes_given", False):
        raise PlanError(
            "shard: another node may have other class folders, and number its classes differently; name all of them, in one "
            "order on every node: read(…, classes=[…])"
        )


def _block_rows(source: AnySource) -> int:
    if isinstance(source, BlockSource) and source.block_rows is not None:
        return source.block_rows
    manifest = source.manifest
    return default_block_rows(manifest.samples, manifest.size_bytes, len(manifest.shards))
