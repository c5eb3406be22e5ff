"""What a plan would ask of its files, by arithmetic alone: the reading stages' own planning, without a byte being read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from penstock.deliver import open_deliver
from penstock.engine.lower import Lowered, lower
from penstock.engine.ordering import Where
from penstock.engine.read import Cursor, OpenBlocks
from penstock.engine.stage import Item
from penstock.errors import PlanError
from penstock.format.protocol import AnySource, BlockSource, is_forward_only
from penstock.order.cursor import Position
from penstock.order.lanes import lanes_of_rank
from penstock.plan.check import find
from penstock.plan.nodes import Node, Shard
from penstock.spec import Bytes, Ids
from penstock.storage.ranges import plan
from penstock.traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class NodeEpoch:
    """What the ranks of one node read in one epoch: `requests` to a store (of which each gives up to 8 MiB), and their `bytes`."""

    epoch: int
    node: int
    requests: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What a plan would do.

    nodes: an entry an epoch and node. steps_per_epoch: on every rank. rank_bytes_in_memory: the most that a rank's records, read
    and still needed, take at once; without the batches that wait. exact: False where a library decides how it
    reads (Parquet, HDF5, …): then a request is a block that is loaded, and its bytes are the mean of all.
    """

    world_size: int
    steps_per_epoch: int
    nodes: tuple[NodeEpoch, ...]
    rank_bytes_in_memory: int
    exact: bool


def simulate(source: AnySource, nodes: tuple[Node, ...], *, world_size: int, machines: int, epochs: int) -> Simulation:
    """Goes through epochs 0 … `epochs` - 1 for every rank; PlanError if the ranks cannot share the work."""
    if machines < 1 or world_size % machines:
        raise PlanError(f"simulate: {world_size} ranks cannot be spread evenly over nodes={machines}")
    if epochs < 1:
        raise PlanError(f"simulate: epochs={epochs}; at least one must be gone through")
    if find(nodes, Shard) is not None:
        raise PlanError(
            "simulate: the nodes of this plan have files of their own, which are not known here; leave shard(…) out"
        )
    exact = not isinstance(source, BlockSource)
    counted = np.zeros((epochs, machines, 2), dtype=np.int64)
    held = 0
    for rank in range(world_size):
        store = _Noted()
        where = Where(rank=rank, world_size=world_size)
        lowered = lower(source, store.read, nodes, open_deliver("numpy", None), where)
        for epoch in range(epochs):
            before = store.requests, store.bytes
            took = _read(lowered, epoch) if exact else _load(source, lowered, where, epoch, store)
            held = max(held, took)
            counted[epoch, rank * machines // world_size] += store.requests - before[0], store.bytes - before[1]
    return Simulation(
        world_size=world_size,
        steps_per_epoch=lowered.order.steps_per_epoch,
        nodes=tuple(
            NodeEpoch(epoch=epoch, node=node, requests=int(counted[epoch, node, 0]), bytes=int(counted[epoch, node, 1]))
            for epoch in range(epochs)
            for node in range(machines)
        ),
        rank_bytes_in_memory=held,
        exact=exact,
    )


class _Noted:
    """A storage that reads nothing, and counts what it would have asked for."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self.traffic = Traffic()

    def read(self, shards: Any, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        requests = plan(shard, offset, length, at)
        self.requests += len(requests)
        self.bytes += int(requests.length.sum())


def _read(lowered: Lowered, epoch: int) -> int:
    """One rank's epoch through the stages up to the one that reads; the most bytes that its records take at once."""
    names = [stage.name for stage in lowered.stages]
    if "read" not in names:
        return 0  # the samples lie in memory
    held = 0
    for work in takewhile(lambda work: work.epoch == epoch, lowered.work_from(Position(epoch))):
        item: Any = work
        for stage in lowered.stages[: names.index("read") + 1]:
            item = stage.work(item)
        buffers = {id(buffer.base): buffer.base.nbytes for buffer in item.records.buffers if buffer.base is not None}
        held = max(held, sum(buffers.values()))
    return held


def _load(source: AnySource, lowered: Lowered, where: Where, epoch: int, store: _Noted) -> int:
    """One rank's epoch of blocks that a library loads; each counts as a request."""
    order = lowered.order
    cursor = Cursor(order, where.rank, where.world_size, 1)
    blocks = OpenBlocks(order, lanes_of_rank(order.lanes, where.rank, where.world_size))
    row_bytes = source.manifest.size_bytes / max(1, source.manifest.samples)
    opened: dict[int, int] = {}
    held = 0
    for work in takewhile(lambda work: work.epoch == epoch, lowered.work_from(Position(epoch))):
        item: Item = cursor(work)
        needed, _ = blocks.needed(item)
        new = np.array([start for start in needed.tolist() if start not in opened], dtype=np.int64)
        rows = blocks.ends(item, new) - new if len(new) else new
        opened.update(zip(new.tolist(), rows.tolist(), strict=True))
        store.requests += 0 if is_forward_only(source) else len(new)
        store.bytes += int(rows.sum() * row_bytes)
        held = max(held, int(sum(opened.values()) * row_bytes))
        opened = {start: opened[start] for start in blocks.kept(item, opened)}
    return held
