"""What the functions of the table share while a plan is lowered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from penstock.core.columns.row_sources import RowSources
from penstock.core.columns.spec import Field, Ids
from penstock.lower.branch import Branch
from penstock.lower.on_device import OnDevice
from penstock.order.rows.zipped import FollowedRows
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Cursor
from penstock.plan.nodes import Node, Origin
from penstock.processes.pool import Pool
from penstock.resolve.ordering import RankSettings
from penstock.resolve.resolved import resolve
from penstock.resolve.row_places import RowPlaces, row_sources
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Stage
from penstock.source.protocol import Access
from penstock.stages.bad_rows import BadRows, Tolerance
from penstock.stages.cached.reader import CacheReader
from penstock.stages.lanes.states import lanes_of

#: Steps whose batches are small are made together, up to this many bytes, and up to this part of the memory: stages hold an item several times meanwhile.
ITEM_BYTES, _ITEM_PART = 8 << 20, 32


def item_bytes_within(memory_bytes: int) -> int:
    """Bytes of an item of several steps: item_bytes_within(64 << 20) == 2_097_152."""
    return min(ITEM_BYTES, memory_bytes // _ITEM_PART)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the rows of a plan come from: its first stages read them all together.

    first_ids: of each, then the end of all. links: which follow the rows of others. rows: of all, but those that follow. record_bytes: of a row, in the mean, decoded.
    """

    origins: tuple[Origin, ...]
    first_ids: Ids
    links: tuple[FollowedRows, ...]
    rows: int
    record_bytes: int

    @property
    def access(self) -> set[Access | None]:
        """The ways in which their rows are reached; None for those that a lane stage makes."""
        return {origin.access for origin in self.origins}

    @property
    def columns(self) -> dict[str, Field]:
        """All their columns."""
        return {name: field for origin in self.origins for name, field in origin.spec_of_inputs(()).items()}

    @cached_property
    def known(self) -> RowSources:
        """Which rows they have, by their data."""
        return row_sources(self.first_ids, self.origins)

    def places(self, sources: tuple[int, int] | None = None) -> RowPlaces:
        """Names rows, and those that follow them: among some sources, or all."""
        begin, end = (int(self.first_ids[number]) for number in sources or (0, -1))
        links = tuple(link for link in self.links if begin <= link.leads[0] and link.follows[1] <= end)
        return RowPlaces(self.first_ids, self.origins, links)


def sources_of(root: Node) -> Sources:
    """Where the rows of a plan come from."""
    every, first_ids, links = resolve(root).origins, resolve(root).first_ids, resolve(root).links
    leads = [not any(link.follows[0] <= one < link.follows[1] for link in links) for one in first_ids[:-1]]
    rows = int(np.diff(first_ids)[leads].sum())
    decoded_bytes = sum(origin.decoded_bytes for origin in every)
    record_bytes = decoded_bytes // max(1, rows)
    return Sources(origins=every, first_ids=first_ids, links=links, rows=rows, record_bytes=record_bytes)


@dataclass(frozen=True, kw_only=True)
class Context:
    """A plan to be lowered for one rank, and what its stages share.

    lanes: those that this rank has rows of. slots: memory for columns; record_slots: for records, which are never copied to a device, so that it is not pinned.
    tolerance: what is done about bad rows, None for an error; is_tolerant: whether that is done here, and not only below lane stages.
    is_described: nothing is read to make the stages, and they do not run. fixed: which of "cpus" and "memory" the user chose. thread_setup: see `Deliver`.

    From `bad` on as the plan's sources were opened: how stages leave bad rows out, None where they are errors; the sources that are read as one; the caches, by their nodes.
    From `source` on where in the tree a node is: the number of its first source; whether a cache above keeps what epoch 0 draws.
    """

    root: Node
    order: BatchOrder
    where: RankSettings
    seed: int
    sources: Sources
    cursor: Cursor
    lanes: Sequence[int]
    slots: Slots
    record_slots: Slots
    budget: Budget
    workers: Pool
    tolerance: Tolerance | None = None
    is_tolerant: bool = False
    is_described: bool = False
    fixed: frozenset[str] = frozenset()
    thread_setup: Callable[[], Callable[[], None] | None] | None = None
    on_device: OnDevice = field(default_factory=OnDevice)
    bad: BadRows | None = None
    read_as_one: Sequence[tuple[int, int]] = ()
    caches: Mapping[int, CacheReader] = field(default_factory=dict)
    source: int = 0
    is_frozen: bool = False

    @property
    def threads(self) -> int:
        """Threads that call a kernel at once: two, so that one batch's last rows and the next one's first overlap."""
        return min(2, self.where.cpus)

    @property
    def rows_per_step(self) -> int:
        """Rows of a full batch on this rank."""
        return self.cursor.rows_per_step

    def allocate(self, _: str, field: Field, rows: int) -> Any:
        """An array for a column of so many rows."""
        return self.slots.array(field, rows)

    def at(self, source: int, *, is_frozen: bool) -> Context:
        """The same for a node elsewhere in the tree."""
        is_here = (source, is_frozen) == (self.source, self.is_frozen)
        return self if is_here else replace(self, source=source, is_frozen=is_frozen)

    def fallible(self, sources: tuple[int, int], stage: Stage) -> Stage:
        """A stage that works on one part and may meet bad rows in it: without them, where they are no errors."""
        if self.bad is None:
            return stage
        work: Any = stage.work
        return replace(stage, work=self.bad.stage(sources, work), leaves_bad_out=True)

    def places_of(self, branch: Branch) -> RowPlaces:
        """Names the rows of a branch."""
        return self.sources.places(branch.sources)


def context_of(
    root: Node,
    order: BatchOrder,
    where: RankSettings,
    *,
    seed: int,
    slots: Slots,
    memory_bytes: int,
    is_exact: bool = True,
    workers: Pool | None = None,
) -> Context:
    """For a plan that is cut at its lane stages: what is above the first of them, or between two. For `is_exact` see `Budget`.

    memory_bytes: for it and what runs below; readers suppose that it has an equal part.
    """
    sources, cursor, record_slots = sources_of(root), Cursor(order, where.rank, where.world_size), Slots()
    runs = 1 + sum(origin.access is None for origin in sources.origins)
    budget = Budget(memory_bytes // runs, (slots, record_slots), cpus=where.cpus, is_exact=is_exact)
    return Context(
        root=root,
        order=order,
        where=where,
        seed=seed,
        sources=sources,
        cursor=cursor,
        lanes=lanes_of(cursor.share, order.rows_per_lane),
        slots=slots,
        record_slots=record_slots,
        budget=budget,
        workers=workers or Pool(where.cpus),
    )
