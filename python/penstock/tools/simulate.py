"""What a plan would ask of its files, by arithmetic alone: the reading stages' own planning, without a byte being read."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from typing import Any

import numpy as np

from penstock.core.columns.rows import Rows
from penstock.core.columns.spec import Bytes, Ids, Spec
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.deliver import open_deliver
from penstock.lower import lower
from penstock.lower.lowered import Lowered
from penstock.order.quality import ShuffleQuality, quality_of
from penstock.order.steps.cursor import Position, Work
from penstock.plan.nodes import Node, Opened, Read, Shard
from penstock.plan.tree import find, flow, inputs_of, lane_stage, leaves, with_inputs
from penstock.resolve.dealt import settled
from penstock.resolve.ordering import RankSettings
from penstock.resolve.resolved import resolve
from penstock.runtime.budget import Budget
from penstock.runtime.stage import Stage
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, BlockSource
from penstock.stages.read.upcoming import Upcoming
from penstock.storage.cache.simulated import SimulatedCache
from penstock.storage.cache.storage import CachedStorage, CacheTraffic
from penstock.storage.fetch.plan import plan
from penstock.tools.counted_epochs import CountedEpochs
from penstock.tools.simulate_lanes import lowest_run, works_of_lanes


@dataclass(frozen=True, kw_only=True)
class NodeEpoch:
    """What the ranks of one node read in one epoch.

    Attributes:
        epoch: its number.
        node: the node's number.
        requests: to a store, each for up to 16 MiB.
        bytes: of these requests.
        cache_hits: ranges that the node's cache gives instead.
        cache_bytes: of these ranges.

    Example:
        first = ps.read("photos").batch(8).simulate().nodes[0]
        (first.epoch, first.node, first.requests) == (0, 0, 40)
    """

    epoch: int
    node: int
    requests: int
    bytes: int
    cache_hits: int = 0
    cache_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What a plan would do.

    Attributes:
        world_size: the number of ranks.
        steps_per_epoch: on every rank; of the first epoch, where each ends with its data.
        nodes: an entry an epoch and node.
        rank_bytes_in_memory: the most that a rank's records, read and still needed, take at once; without the batches that wait.
        exact: False where a library decides how it reads (Parquet, HDF5, …): then a request is a block that is loaded, and its bytes are the mean of all; and with lane
            stages, whose rows are asked for in pieces of any size.
        shuffle: how well the order mixes; None if it is the natural one.

    Example:
        sum(node.requests for node in ps.read("photos").batch(8).simulate(epochs=2).nodes) == 80
    """

    world_size: int
    steps_per_epoch: int
    nodes: tuple[NodeEpoch, ...]
    rank_bytes_in_memory: int
    exact: bool
    shuffle: ShuffleQuality | None = None


def simulate(root: Node, *, world_size: int, machines: int, epochs: int, cache_bytes: int) -> Simulation:
    """Goes through epochs 0 … `epochs` - 1 for every rank; PlanError if the ranks cannot share the work.

    cache_bytes: the limit of each machine's cache, empty at first; 0 for none.
    """
    if machines < 1 or world_size % machines:
        raise PlanError(f"simulate: {world_size} ranks cannot be spread evenly over nodes={machines}")
    if epochs < 1:
        raise PlanError(f"simulate: epochs={epochs}; at least one must be gone through")
    if find(root, Shard) is not None:
        raise PlanError(
            "simulate: the nodes of this plan have files of their own, which are not known here; leave shard(…) out"
        )
    blocks = [leaf.opened.source for leaf in leaves(root) if isinstance(leaf.opened.source, BlockSource)]
    if cache_bytes and blocks:
        raise PlanError(f"simulate: a library decides what it reads of {blocks[0].manifest.format}; leave cache=… out")
    made = []
    for number in range(machines):
        ranks = range(number * world_size // machines, (number + 1) * world_size // machines)
        wheres = [RankSettings(rank=rank, world_size=world_size) for rank in ranks]
        with tempfile.TemporaryDirectory(prefix="penstock-simulate-") as folder:
            cache = SimulatedCache(folder, cache_bytes) if cache_bytes else None
            machine = _Machine(root, wheres, cache)
            made.append([machine.epoch(number, epoch) for epoch in range(epochs)])
    return Simulation(
        world_size=world_size,
        steps_per_epoch=machine.steps_per_epoch,
        nodes=tuple(node for same_epoch in zip(*made, strict=True) for node, _ in same_epoch),
        rank_bytes_in_memory=max(held for machine_epochs in made for _, held in machine_epochs),
        exact=not blocks and lane_stage(root) is None,
        shuffle=machine.shuffle_quality,
    )


class _CountingStorage:
    """A storage that reads nothing, and counts what it would have requested."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0

    def list(self, where: str) -> Shards:
        raise NotImplementedError(where)

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        requests = plan(shard, offset, length, at)
        self.requests += len(requests)
        self.bytes += int(requests.length.sum())


@dataclass(frozen=True, eq=False)
class _NotedBlocks:
    """A source of blocks that loads nothing; each block counts as a request, and has the mean size of all."""

    source: BlockSource
    store: _CountingStorage

    @property
    def manifest(self) -> Manifest:
        return self.source.manifest

    @property
    def spec(self) -> Spec:
        return self.source.spec

    @property
    def access(self) -> Access:
        return Access.FORWARD if self.source.access is Access.FORWARD else Access.BLOCKS

    @property
    def block_rows(self) -> int | None:
        return self.source.block_rows

    def load(self, _: int, rows: int) -> Rows:
        manifest = self.source.manifest
        size_bytes = rows * manifest.size_bytes // max(1, manifest.samples)
        self.store.requests += self.source.access is not Access.FORWARD
        self.store.bytes += size_bytes
        return Rows(np.broadcast_to(np.uint8(0), (rows, -(-size_bytes // rows))), {})


class _Machine:
    """The ranks of one machine, which take their steps in turn, and their cache."""

    def __init__(self, root: Node, wheres: list[RankSettings], cache: SimulatedCache | None) -> None:
        self._store = _CountingStorage()
        self._cached = None if cache is None else CachedStorage(self._store, cache)
        noted = self._noted(root)
        resolved = resolve(noted)
        self._ids, self._root = resolved.ids, root
        deliver = open_deliver("numpy", None)
        self._ranks = [lower(noted, deliver, where, memory_bytes=sys.maxsize, is_described=True) for where in wheres]
        order, world_size = self._ranks[0].order, wheres[0].world_size
        first, last = (order.share(where.rank, world_size) for where in (wheres[0], wheres[-1]))
        read = [(leaf.opened.source.manifest, first_id) for leaf, _, first_id in resolved.numbered_sources]
        self._upcoming = [Upcoming(order, manifest, (first[0], last[1]), first_id) for manifest, first_id in read]
        if self._cached is not None:
            for (manifest, _), upcoming in zip(read, self._upcoming, strict=True):
                self._cached.expect(manifest.stored, upcoming)

    def _noted(self, node: Node) -> Node:
        """The plan on sources that only count."""
        if not isinstance(node, Read):
            return with_inputs(node, [self._noted(below) for below in inputs_of(node)])
        source = node.opened.source
        if isinstance(source, BlockSource):
            source = _NotedBlocks(source, self._store)
        read = self._store.read if self._cached is None else self._cached.read
        return replace(node, opened=Opened(source=source, read_ranges=ByteRanges(read)))

    @property
    def steps_per_epoch(self) -> int:
        """Of every rank."""
        lowered = self._ranks[0]
        return (lowered.lanes.order_of(0) if lowered.lanes.has_ends else lowered.order).steps_per_epoch

    @property
    def shuffle_quality(self) -> ShuffleQuality | None:
        """How well the order mixes; None if it is the natural one."""
        order = self._ranks[0].order
        is_measured = order.rows.shape.is_shuffled and not self._ranks[0].lanes
        return quality_of(order, self._ids) if is_measured else None

    def epoch(self, node: int, epoch: int) -> tuple[NodeEpoch, int]:
        """What it asks for in an epoch, and the most bytes of records that a rank has in memory."""
        before = self._store.requests, self._store.bytes, self._spared
        steps = zip_longest(*(self._walk(rank, epoch) for rank in range(len(self._ranks))), fillvalue=0)
        held = max((max(each) for each in steps), default=0)
        spared = self._spared
        return NodeEpoch(
            epoch=epoch,
            node=node,
            requests=self._store.requests - before[0],
            bytes=self._store.bytes - before[1],
            cache_hits=spared.hits - before[2].hits,
            cache_bytes=spared.hit_bytes - before[2].hit_bytes,
        ), held

    @property
    def _spared(self) -> CacheTraffic:
        return CacheTraffic() if self._cached is None else self._cached.cache_traffic

    def _walk(self, rank: int, epoch: int) -> Iterator[int]:
        """One rank's epoch, work after work through the stages up to the one that reads; the bytes of records that it has in memory."""
        lowered = self._ranks[rank]
        if lowered.lanes:
            self._check_ends(lowered, epoch)
            yield from _read(
                lowest_run(lowered).stages, lowest_run(lowered).context.budget, works_of_lanes(lowered, epoch)
            )
            return
        works: Iterator[Work] = takewhile(lambda work: work.epoch == epoch, lowered.work_from(Position(epoch)))
        if rank == 0:
            for upcoming in self._upcoming:
                works = upcoming.follow(works)
        yield from _read(lowered.stages, lowered.budget, works)

    def _check_ends(self, lowered: Lowered, epoch: int) -> None:
        """PlanError where it is not known how many rows lanes give in an epoch."""
        stage = lowered.lanes.feeds[0].name
        if any(node.joins and lane_stage(node) is not None for node in flow(self._root)):
            raise PlanError(
                f"simulate: rows of {stage} and others are joined, and how these take turns depends on what the data says; describe each of the datasets by itself"
            )
        if not lowered.lanes.has_ends:
            raise PlanError(
                f"simulate: what {stage} reads in an epoch of so many steps depends on what the data says; leave steps=… out, so that an epoch is the data once, or describe the plan without "
                f"that stage"
            )
        if not lowered.lanes.order_of(epoch).takes_all:
            raise PlanError(
                f"simulate: how much {stage} reads until as many rows came as are taken depends on what the data says; describe the plan without take and skip"
            )
        if not lowered.lanes.order_of(epoch).is_known and not CountedEpochs(
            settled(self._root, lowered.where.world_size), lowered.lanes
        ).tell(epoch):
            raise PlanError(
                f"simulate: epoch {epoch:,} ends where {stage} has given all of its rows, and nobody counted them; call count_rows({'' if not epoch else f'epochs={epoch + 1}'}) first"
            )


def _read(stages: Sequence[Stage], budget: Budget, works: Iterator[Work]) -> Iterator[int]:
    """Work after work through the stages up to the one that reads; the bytes of records in memory."""
    reading = [stage for stage in stages if stage.is_reading]
    if not reading:
        return  # the samples lie in memory
    for work in works:
        item: Any = work
        for stage in reading:
            item = stage.work(item)
        yield budget.kept_bytes
        budget.release(item.share)
