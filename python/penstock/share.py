"""A rank's share of a dataset: the plan lowered for it, and what reads ahead for it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.cpus import usable_cpus
from penstock.dataset import Dataset
from penstock.deliver import Deliver
from penstock.deliver.ranks import ranks_here
from penstock.engine.free_memory import default_memory
from penstock.engine.lower import Lowered, lower
from penstock.engine.ordering import Where
from penstock.engine.read.ahead import Ahead
from penstock.plan.check import find
from penstock.plan.nodes import Shard
from penstock.storage.cache.storage import CachedStorage


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one rank of `world_size` gets. Made anew when the rank changes."""

    dataset: Dataset
    rank: int
    world_size: int
    lowered: Lowered

    @property
    def ranks(self) -> tuple[int, int]:
        """Rank and world size."""
        return self.rank, self.world_size

    @property
    def place(self) -> tuple[int, int]:
        """The rank among those that share the order, and how many these are: all, or those of a node with files of its own."""
        return self.lowered.where.rank, self.lowered.where.world_size

    @property
    def node(self) -> dict[str, int]:
        """The number of this node, where nodes have files of their own."""
        if find(self.dataset.nodes, Shard) is None:
            return {}
        return {"node": self.rank // self.lowered.where.world_size}

    def ahead(self, epochs: int | None) -> Ahead | None:
        """What reads ahead to the cache, if there is one."""
        storage, (rank, world_size) = self.dataset.storage, self.place
        if not isinstance(storage, CachedStorage):
            return None
        here = (0, world_size) if self.node else ranks_here(rank, world_size)
        return Ahead(storage, self.dataset.source.manifest, self.lowered.order, rank, world_size, here, epochs)


def share_of(
    dataset: Dataset,
    ranks: tuple[int, int],
    deliver: Deliver,
    cpus: int | None = None,
    memory_bytes: int | None = None,
) -> Share:
    """The share of (rank, world size), with stages of its own; PlanError if so many ranks cannot share the plan.

    memory_bytes: what the stages may hold together; None for this rank's part of what is free on its machine.
    """
    rank, world_size = ranks
    first, last = ranks_here(rank, world_size)
    memory_bytes = memory_bytes or default_memory(last - first)
    where = Where(rank=rank, world_size=world_size, cpus=cpus or usable_cpus())
    lowered = lower(dataset.source, dataset.read_ranges, dataset.nodes, deliver, where, memory_bytes=memory_bytes)
    return Share(dataset=dataset, rank=rank, world_size=world_size, lowered=lowered)
