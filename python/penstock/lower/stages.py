"""The stages of a plan while they are collected, and what all of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core.spec import Field
from penstock.lower.on_device import OnDevice
from penstock.order.batches import BatchOrder
from penstock.order.demand import DemandOrder
from penstock.order.listed import ListedOrder, ListedRows
from penstock.plan.nodes import (
    FilterFunction,
    FlatMap,
    Map,
    MapRows,
    Node,
    Read,
)
from penstock.plan.tree import leaves
from penstock.processes.pool import Pool
from penstock.resolve.ordering import Where
from penstock.resolve.row_counts import first_ids_of
from penstock.resolve.row_places import RowPlaces
from penstock.resolve.zipping import links_of
from penstock.runtime.budget import Budget
from penstock.runtime.item_bytes import ColumnBytes
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, Item, Stage
from penstock.source.protocol import Access
from penstock.stages.apply import ApplyKernels
from penstock.stages.bad_rows import BadRows, Tolerance
from penstock.stages.cached.reader import CacheReader
from penstock.stages.call import CALLS, Call
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.states import lanes_of
from penstock.stages.read.begin import Cursor
from penstock.stages.substitutes import SideStages, Substitutes, check_substitutes
from penstock.transform.function import BatchFunction, RowFunction

#: Steps whose batches are small are made together, up to this many bytes.
ITEM_BYTES = 8 << 20

#: From remote stores this much is requested at once, as far as memory allows: a fifth of a second of a fast line. Half of the lanes come to
#: new windows at about the same time, and with 64 lanes these are 64 MiB: four times that. More threads than this gain nothing.
FAR_BYTES = 256 << 20
_FAR_THREADS = 32


class Lowering:
    """Collects the stages while the nodes of a plan are gone through, inputs first."""

    def __init__(self, root: Node, order: BatchOrder, where: Where, seed: int, slots: Slots, memory_bytes: int) -> None:
        self.root, self.order, self.where, self.seed, self.slots = root, order, where, seed, slots
        self.leaves, self.first_ids, self.links = leaves(root), first_ids_of(root), links_of(root)
        self.record_slots = Slots()  # records are never copied to a device, so that their memory is not pinned
        self.below: list[Lowering] = []  # what runs below lane stages, each with an equal part of the memory
        lane_stages = sum(leaf.opened.source.access is Access.LANES for leaf in self.leaves)
        self.budget = Budget(memory_bytes // (1 + lane_stages), (slots, self.record_slots), cpus=where.cpus)
        self.window_bytes = 0
        self.stages: list[Stage] = []
        self.read_as_one: list[tuple[int, int]] = []  # of each reader, which sources
        self.is_described, self.fixed = False, frozenset[str]()
        self.thread_setup: Callable[[], Callable[[], None] | None] | None = None  # see `Deliver`
        self.workers = Pool(where.cpus)
        self.on_device = OnDevice()
        sources = [leaf.opened.source for leaf in self.leaves]
        self.widest: dict[str, Field] = {name: field for source in sources for name, field in source.spec.items()}
        size_bytes = sum(source.manifest.size_bytes for source in sources)
        leads = [
            not any(link.follows[0] <= one < link.follows[1] for link in self.links) for one in self.first_ids[:-1]
        ]
        self.rows = int(np.diff(self.first_ids)[leads].sum())  # of all sources, but those that follow others
        self.record_bytes = size_bytes // max(1, self.rows)
        self.item_bytes = ColumnBytes(self.record_bytes, self.widest)
        self.cursor = Cursor(order, where.rank, where.world_size)
        self.feeds: list[LaneFeed] = []
        self.lanes = lanes_of(self.cursor.share, order.rows_per_lane)  # that this rank has rows of
        self.tolerance: Tolerance | None = None
        self.bad: BadRows | None = None  # where bad rows are no errors
        self.until: list[int] = []  # the stages up to each that may meet one
        self.applied: list[ApplyKernels] = []
        self.caches: dict[int, CacheReader] = {}  # by their nodes
        self.frozen = 0  # caches above that keep what epoch 0 draws
        self.functions: list[tuple[Map | MapRows, BatchFunction]] = []
        self.stages_after: dict[int, int] = {}  # how many there are up to each node
        self._met = 0

    @property
    def rows_per_step(self) -> int:
        """Rows of a full batch on this rank."""
        return self.cursor.rows_per_step

    @property
    def together(self) -> int:
        """Threads that call a kernel at once: two, so that one batch's last rows and the next one's first overlap."""
        return min(2, self.where.cpus)

    def reads_at_once(self, leaf: Read) -> int:
        """Items that are read at once: one from disks; of remote stores as many as fill a line while answers are on the way."""
        if leaf.opened.read_ranges.traffic is None:
            return 1
        step_bytes = max(1, self.rows_per_step * self.record_bytes)
        far_bytes = min(FAR_BYTES, self.budget.limit_bytes)
        return min(_FAR_THREADS, max(2, far_bytes // (step_bytes * max(1, ITEM_BYTES // step_bytes))))

    def read_bytes(self, rows: int) -> int:
        """Bytes of records that are read for rows one by one."""
        in_memory = all(leaf.opened.source.access is Access.MEMORY for leaf in self.leaves)
        return 0 if in_memory else rows * self.record_bytes

    def add(self, name: str, kind: str, work: Callable[[Any], Item], threads: int = 1, **tuned: Any) -> None:
        """Appends a stage. tuned: what a tuner may do with it, see `Stage`."""
        self.stages.append(Stage(name, kind, work, threads, **tuned))

    def add_fallible(
        self,
        sources: tuple[int, int],
        name: str,
        kind: str,
        work: Callable[[Columned], Columned],
        threads: int = 1,
        **tuned: Any,
    ) -> None:
        """Appends a stage that works on one part and may meet bad rows in it."""
        self.add(name, kind, work if self.bad is None else self.bad.stage(sources, work), threads, **tuned)
        self.until.append(len(self.stages))

    def tolerate(self, tolerance: Tolerance | None, *, is_here: bool) -> None:
        """Bad rows are no errors: here, or at least below some lane stages."""
        self.tolerance = tolerance
        if tolerance is None or not is_here:
            return
        fill = None
        if tolerance.substitutes:
            check_substitutes(self.root)
            places = self.first_ids, self.seed
            fill = Substitutes(self.order, *places, self._side_stages, self.read_as_one, self.slots, self.where.cpus)
        is_step = not isinstance(self.order, (DemandOrder, ListedOrder))
        self.bad = BadRows(tolerance, RowPlaces(self.first_ids, self.leaves, self.links), fill, is_step=is_step)

    def _side_stages(self) -> SideStages:
        """The same stages for rows one by one."""
        order, budget_bytes = ListedOrder(rows=ListedRows(input=self.order.rows)), self.budget.limit_bytes
        side = type(self)(self.root, order, Where(cpus=self.where.cpus), self.seed, Slots(), budget_bytes)
        assert self.tolerance is not None
        side.workers, side.on_device = self.workers, self.on_device
        side.tolerate(replace(self.tolerance, substitutes=False), is_here=True)
        side.add_reading()
        side.branch(side.root)
        return SideStages(order=order, stages=side.stages, until=side.until, budget=side.budget)

    def call_of(self, node: Map | MapRows | FilterFunction | FlatMap) -> Call:
        """How a user's function is called."""
        function = (RowFunction if isinstance(node, MapRows) else BatchFunction)(node.function, node.verb)
        function.text = getattr(node, "text", "arrow")
        if isinstance(function, RowFunction):
            function.finds_all = self.bad is not None
        if isinstance(node, (Map, MapRows)):
            self.functions.append((node, function))
        here = CALLS[node.verb](function)
        if self.is_described or node.workers == "thread":
            return here
        if node.workers == "auto":
            return here if function.is_async else self.workers.either(function, node.verb, here)
        return self.workers.function(function, node.verb)

    def every(self) -> Iterator[Lowering]:
        """It, and all that run below lane stages."""
        yield self
        for below in self.below:
            yield from below.every()

    def images(self) -> Mapping[str, int]:
        """Images so far, by the decoder that did them (see `transform.image.kernel.DECODERS`)."""
        return sum((apply.images() for each in self.every() for apply in each.applied), Counter())

    def number_of(self, prefix: str) -> int:
        """Stages so far whose names begin so."""
        return sum(stage.name.startswith(prefix) for stage in self.stages)

    def add_reading(self) -> None:
        """The stages that read all sources."""
        raise NotImplementedError

    def branch(self, node: Node) -> Any:
        """Appends the stages of a node, after those of its inputs."""
        raise NotImplementedError
