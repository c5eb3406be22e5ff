"""From a plan to stages: the one table that knows every node, and the only file that imports all kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from penstock.batch.pad import padded_spec
from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.core.event_loop import is_async
from penstock.core.limits import Limits, tightest
from penstock.core.spec import EntryPoints, Field
from penstock.deliver import Deliver
from penstock.deliver.ranks import ranks_here
from penstock.engine.apply import ApplyKernels, CallFunction, ColumnKernel, FirstImage, MergeParts, ZipParts
from penstock.engine.bad_rows import BadRows, Tolerance
from penstock.engine.budget import Budget
from penstock.engine.cached.begin import CachedBegin
from penstock.engine.cached.caches import caches_of
from penstock.engine.cached.chains import split_chains
from penstock.engine.cached.reader import CacheReader
from penstock.engine.cached.store import KeepRows
from penstock.engine.cached.where import where_cache_fits
from penstock.engine.call import ASYNC_CALLS, CALLS, Call
from penstock.engine.deliver_columns import VALID, DeliverColumns
from penstock.engine.item_bytes import ColumnBytes
from penstock.engine.lanes.cut import LaneOutput, cut
from penstock.engine.lanes.feed import LaneFeed
from penstock.engine.lanes.feeds import LaneFeeds
from penstock.engine.lanes.reader import Lanes
from penstock.engine.lanes.stages import STAGES
from penstock.engine.lanes.states import lanes_of
from penstock.engine.lowered import Lowered
from penstock.engine.ordering import Where, demand_order, order_of
from penstock.engine.pad import PadColumns
from penstock.engine.read.begin import Begin, Cursor, columns_with, read_with
from penstock.engine.read.memory import GatherMixed, GatherSteps
from penstock.engine.read.reader import Reader, Reading
from penstock.engine.read.readers import reader_of
from penstock.engine.read.together import read_together
from penstock.engine.row_counts import first_ids_of
from penstock.engine.row_places import RowPlaces
from penstock.engine.run import Run
from penstock.engine.select import SelectColumns
from penstock.engine.slots import Slots
from penstock.engine.source_column import SOURCE_FIELD, NumberSources
from penstock.engine.stage import Columned, Item, Loaded, Planned, Stage
from penstock.engine.substitutes import SideStages, Substitutes, check_substitutes
from penstock.engine.tune import Depth
from penstock.engine.tuner import Tuner
from penstock.engine.workers.pool import Pool
from penstock.engine.zipping import links_of
from penstock.order.batches import BatchOrder, Last
from penstock.order.demand import DemandOrder
from penstock.order.keys import STAGE_KEY
from penstock.order.listed import ListedOrder, ListedRows
from penstock.order.token_batches import TokenBatches
from penstock.plan.nodes import (
    Batch,
    BatchTokens,
    Bucket,
    Cache,
    Concat,
    Every,
    FilterFunction,
    FlatMap,
    Map,
    MapRows,
    Mix,
    Node,
    Pad,
    Read,
    Repeat,
    Select,
    Shard,
    Shuffle,
    Skip,
    SkipBad,
    SourceColumn,
    Take,
    Transform,
    Zip,
)
from penstock.plan.picked_nodes import PICKED, Exclude
from penstock.plan.rules import RULES, SAME_ROWS, optimize
from penstock.plan.tree import find, flow, inputs_of, leaves
from penstock.source.jpeg_index import Growing, index_path, load
from penstock.source.protocol import Access, AnySource, BlockSource, Paced, StepSource
from penstock.transform.function import BatchFunction, RowFunction, name_of
from penstock.transform.image import fuse

#: Steps whose batches are small are made together, up to this many bytes and steps.
_ITEM_BYTES = 8 << 20
_ITEM_STEPS = 1024

#: From remote stores this much is requested at once, as far as memory allows: a fifth of a second of a fast line. Half of the lanes come to
#: new windows at about the same time, and with 64 lanes these are 64 MiB: four times that. More threads than this gain nothing.
_FAR_BYTES = 256 << 20
_FAR_THREADS = 32

#: Below a lane stage so many rows are made together at first, if they are not long, and then more. Above it an item has no more than the second
#: number, so that the first one comes soon.
_FIRST_LANE_ROWS, _LANE_ROWS, _FEWEST_LANE_ROWS, _MOST_LANE_ROWS = 128, 1024, 16, 1 << 14
_LANE_DEPTH = 2

#: Threads that gather short rows, each an item of its own: more than one consumer can take.
_GATHER_THREADS = 4

#: Threads for a user's function: at first, since it may hold the interpreter, and where it waits for something else.
_FIRST_FUNCTION_THREADS, _MOST_FUNCTION_THREADS = 4, 64
#: Items that are read at once from files that are mounted, at most.
_MOST_READS = 8


def lower(
    root: Node,
    deliver: Deliver,
    where: Where,
    *,
    memory_bytes: int = _FAR_BYTES,
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
    root = cut(optimize(root, rules, prepare=split_chains))
    sources = [leaf.opened.source for leaf in leaves(root)]
    if order.last is Last.PAD and any(VALID in source.spec for source in sources):
        raise PlanError(f"pad=True adds a column {VALID!r}, and the data has one already; rename it")
    lowering = _Lowering(root, order, where, found.seed, Slots(new_memory=deliver.new_memory), memory_bytes)
    lowering.is_described, lowering.fixed = is_described, fixed
    lowering.tolerate(tolerance, is_here=tolerance is not None and tolerance.substitutes)
    alone = isinstance(order, TokenBatches) or any(map(_needs_step_alone, flow(root)))
    lowering.budget.is_exact = not alone and all(map(_is_as_long_as_records, sources))
    lowering.add_reading()
    whole = lowering.branch(root)
    kind = "copy" if deliver.copies else "cpu"
    lowering.add(
        "deliver", kind, DeliverColumns(deliver, order, where, lowering.record_slots), threads=lowering.together
    )
    rows = lowering.rows_per_step
    row_bytes = max(1, lowering.record_bytes, sum(field.row_bytes for field in lowering.widest.values()))
    paced = [source.rows_together // rows for source in sources if isinstance(source, Paced)]
    together = min([_ITEM_STEPS, _ITEM_BYTES // (rows * row_bytes), *paced])
    if lowering.feeds:
        together = min(together, _LANE_ROWS // rows)
    return Lowered(
        order=order,
        where=where,
        stages=tuple(lowering.stages),
        steps_per_item=1 if alone else max(1, together),
        item_bytes=rows * row_bytes,
        images=lowering.images,
        lanes=LaneFeeds(lowering.feeds, order, lowering.lanes),
        slots=tuple(slots for each in lowering.every() for slots in (each.slots, each.record_slots)),
        columns=None if whole.spec is None else (*whole.spec, *([VALID] if order.last is Last.PAD else [])),
        budget=lowering.budget,
        workers=lowering.workers,
        tuner=Tuner(lowering.stages, [each.budget for each in lowering.every()], fixed),
        cacheable=tuple(stage.name for stage in lowering.stages[: where_cache_fits(root, lowering.stages_after)]),
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


@dataclass
class _Branch:
    """What comes out of a node: rows of the sources numbered [sources[0], sources[1]). spec: None after a user's function.

    leaf: the first source. leaf_of: the sources of columns that come from another one.
    """

    sources: tuple[int, int]
    leaf: Read
    spec: dict[str, Field] | None
    limits: Limits
    leaf_of: Mapping[str, Read] = field(default_factory=dict)

    @property
    def is_one_source(self) -> bool:
        """Whether all rows come from one source."""
        return self.sources[1] - self.sources[0] == 1


class _Lowering:
    """Collects the stages while the nodes of a plan are gone through, inputs first."""

    def __init__(self, root: Node, order: BatchOrder, where: Where, seed: int, slots: Slots, memory_bytes: int) -> None:
        self.root, self.order, self.where, self.seed, self.slots = root, order, where, seed, slots
        self.leaves, self.first_ids, self.links = leaves(root), first_ids_of(root), links_of(root)
        self.record_slots = Slots()  # records are never copied to a device, so that their memory is not pinned
        self.below: list[_Lowering] = []  # what runs below lane stages, each with an equal part of the memory
        lane_stages = sum(leaf.opened.source.access is Access.LANES for leaf in self.leaves)
        self.budget = Budget(memory_bytes // (1 + lane_stages), (slots, self.record_slots), cpus=where.cpus)
        self.window_bytes = 0
        self.stages: list[Stage] = []
        self.read_as_one: list[tuple[int, int]] = []  # of each reader, which sources
        self.is_described, self.fixed = False, frozenset[str]()
        self.workers = Pool(where.cpus)
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
        far_bytes = min(_FAR_BYTES, self.budget.limit_bytes)
        return min(_FAR_THREADS, max(2, far_bytes // (step_bytes * max(1, _ITEM_BYTES // step_bytes))))

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
            fill = Substitutes(
                self.order.rows, *places, self._side_stages, self.read_as_one, self.slots, self.where.cpus
            )
        is_step = not isinstance(self.order, (DemandOrder, ListedOrder))
        self.bad = BadRows(tolerance, RowPlaces(self.first_ids, self.leaves, self.links), fill, is_step=is_step)

    def _side_stages(self) -> SideStages:
        """The same stages for rows one by one."""
        order, budget_bytes = ListedOrder(rows=ListedRows(input=self.order.rows)), self.budget.limit_bytes
        side = _Lowering(self.root, order, Where(cpus=self.where.cpus), self.seed, Slots(), budget_bytes)
        assert self.tolerance is not None
        side.workers = self.workers
        side.tolerate(replace(self.tolerance, substitutes=False), is_here=True)
        side.add_reading()
        side.branch(side.root)
        return SideStages(order=order, stages=side.stages, until=side.until, budget=side.budget)

    def every(self) -> Iterator[_Lowering]:
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

    # Reading

    def add_reading(self) -> None:
        """The stages that read all sources."""
        readers = self._readers()
        first_ids = self.first_ids[[*(low for low, _ in self.read_as_one), -1]]
        begin, sources = Begin(self.cursor, readers, first_ids, self.budget, self.item_bytes), self.read_as_one
        if caches := self._open_caches():
            begin = CachedBegin(self.cursor, readers, caches, first_ids, self.budget, self.item_bytes)
            readers, sources = [*readers, *caches], [*sources, *(reader.cached.home for reader in caches)]
        columns_of = columns_with if self.bad is None else self.bad.reading
        read, columns = read_with(readers), columns_of(readers, sources)
        if any(reader.in_order for reader in readers):
            self._note_windows()
        self._add_reading(begin, read, columns, readers)
        self.until.append(len(self.stages))

    def _open_caches(self) -> list[CacheReader]:
        """What reads the plan's caches, the uppermost first; nothing is opened to describe a plan."""
        if self.is_described or not any(isinstance(node, Cache) for node in flow(self.root)):
            return []
        first, last = ranks_here(self.where.rank, self.where.world_size)
        found = caches_of(
            self.root, self.first_ids, self.links, self.seed, has_draws=self.order.rows.has_draws, ranks=last - first
        )
        readers = [CacheReader(cached, self._allocate, self.budget) for cached in found]
        self.caches = {id(reader.cached.node): reader for reader in readers}
        return readers

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self.slots.array(field, rows)

    def _add_reading(
        self,
        begin: Begin,
        read: Callable[[Planned], Loaded],
        columns: Callable[[Item], Columned],
        readers: Sequence[Reader],
    ) -> None:
        if all(leaf.opened.source.access is Access.MEMORY for leaf in self.leaves):
            self._add_gather(begin, columns)
            return
        threads = max(reader.threads for reader in readers)
        if not any(reader.in_order for reader in readers):
            most = max(threads, _MOST_READS)
            self.add("read", "io", lambda work: read(begin(work)), threads=threads, most=most)
        elif threads == 1:
            is_made = all(leaf.opened.source.access is Access.LANES for leaf in self.leaves)
            self.add("read", "cpu" if is_made else "io", lambda work: read(begin(work)))
        else:
            self.add("plan", "cpu", begin)
            self.add("read", "io", read, threads=threads, most=threads)
        name = "parse" if any(reader.kind == "parse" for reader in readers) else "gather"
        self.add(name, "cpu", columns, threads=self.together)

    def _readers(self) -> list[Reader]:
        """A reader a source, or one for several that only the order works on; notes which sources each reads."""
        found = list[Reader]()
        readings = [self._reading(number, leaf) for number, leaf in enumerate(self.leaves)]
        for low, high in untouched(self.root):
            some = readings[low:high]
            readers = [self._reader(reading) for reading in some]
            one = read_together(some, readers)
            self.read_as_one += [(low, high)] if one else [(number, number + 1) for number in range(low, high)]
            found += [one] if one else readers
        return found

    def _reading(self, number: int, leaf: Read) -> Reading:
        return Reading(
            leaf=leaf,
            number=number,
            first_id=int(self.first_ids[number]),
            order=self.order,
            where=self.where,
            seed=self.seed,
            reads_at_once=self.reads_at_once(leaf),
            slots=self.slots,
            record_slots=self.record_slots,
            budget=self.budget,
            item_bytes=self.item_bytes,
        )

    def _reader(self, reading: Reading) -> Reader:
        source: Any = reading.leaf.opened.source
        return (
            Lanes(reading, self._feed(source, reading.first_id))
            if isinstance(source, LaneOutput)
            else reader_of(reading)
        )

    def _feed(self, output: LaneOutput, first_id: int) -> LaneFeed:
        """A lane stage, with what is below it lowered for itself."""
        node: Any = output.node
        root = cut(node.input)
        order = demand_order(root, self.order)
        seed = kernels.mix([self.seed, STAGE_KEY, len(self.below)])  # rows here have ids that rows above have as well
        below = _Lowering(root, order, Where(cpus=self.where.cpus), seed, Slots(), self.budget.limit_bytes)
        self.below.append(below)
        below.is_described, below.lanes, below.workers = self.is_described, self.lanes, self.workers
        below.fixed = self.fixed
        is_here = self.tolerance is not None and (self.tolerance.substitutes or isinstance(node, SkipBad))
        below.tolerate(self.tolerance, is_here=is_here)
        below.budget.is_exact = False
        below.add_reading()
        below.branch(below.root)
        stages, budget, depth = tuple(below.stages), below.budget, _LANE_DEPTH
        tuner = Tuner(stages, (budget,), self.fixed, has_kernels=False)  # kernels are tuned for all runs together
        row_bytes = max(1, below.record_bytes, sum(field.row_bytes for field in below.widest.values()))
        is_forward = any(leaf.opened.source.access is Access.FORWARD for leaf in below.leaves)
        # A stream is not waited for longer than a batch needs, as long as it is slow: an item of several lanes takes all rows between.
        first_rows = len(self.lanes) * order.rows_per_lane if is_forward else _FIRST_LANE_ROWS
        most_rows = _LANE_ROWS if is_forward else _MOST_LANE_ROWS
        feed = LaneFeed(
            STAGES[type(node)](node, self.where.cpus, self._call_of),
            order,
            lambda works, last: Run(
                (*stages, last), budget.follow(works), Depth(out=depth, between=depth, most=2 * depth), budget, tuner
            ),
            first_id=first_id,
            place=RowPlaces(below.first_ids, below.leaves, below.links),
            mine=self.lanes,
            together=(
                min(first_rows, max(_FEWEST_LANE_ROWS, _ITEM_BYTES // row_bytes)),
                min(most_rows, max(_FEWEST_LANE_ROWS, _ITEM_BYTES // row_bytes)),
            ),
            seed=seed,
            keep=self.budget.keep,
            cpus=self.where.cpus,
            epoch_rows=below.rows // order.lanes if not below.feeds else 0,
            below=below.feeds,
        )
        self.feeds.append(feed)
        return feed

    def _add_gather(self, begin: Begin, columns: Callable[[Item], Columned]) -> None:
        sources = [leaf.opened.source for leaf in self.leaves]
        steps = [source for source in sources if isinstance(source, StepSource) and source.gathers_steps]
        if (
            self.bad is not None
            or self.caches
            or len(steps) < len(sources)
            or not (len(sources) == 1 or self._are_mixed(sources))
        ):
            self.add("gather", "cpu", lambda work: columns(begin(work)), threads=self.together)
            return
        places = self.cursor, self.slots, self.budget
        make = GatherSteps(steps[0], *places) if len(steps) == 1 else GatherMixed(steps, *places)
        self.add("gather", "cpu", begin.admitted(make, columns), threads=min(_GATHER_THREADS, self.where.cpus))

    def _are_mixed(self, sources: Sequence[AnySource]) -> bool:
        """Whether all sources are alike and go into one mix as they lie: rows are the same before it and behind it."""
        mix = find(self.root, Mix)
        return (
            mix is not None
            and not isinstance(self.order, DemandOrder)
            and all(source.spec == sources[0].spec for source in sources)
            and len(mix.inputs) == len(sources)
            and all(isinstance(node, (Read, Shuffle)) for below in mix.inputs for node in flow(below))
        )

    def _note_windows(self) -> None:
        """Notes what the blocks of this rank's lanes take while their windows are open: half of the lanes come to new ones together."""
        order, (first, last) = self.order, self.cursor.share
        lanes = -(-last // order.rows_per_lane) - first // order.rows_per_lane
        shape = order.rows.shape
        blocks = lanes * shape.window_blocks * 3 // 2 if shape.is_shuffled else 1
        self.window_bytes = blocks * shape.block_rows * self._block_record_bytes

    @property
    def _block_record_bytes(self) -> int:
        """Bytes of a row that are read in blocks: all, but where a zip reads files of a row each one by one."""
        if not self.links:
            return self.record_bytes
        sources = zip(self.leaves, self.first_ids.tolist(), strict=False)
        sizes = [
            leaf.opened.source.manifest.size_bytes
            for leaf, first_id in sources
            if self.order.rows.block_rows_at(first_id) > 1
        ]
        return sum(sizes) // max(1, self.rows)

    # Nodes

    def branch(self, node: Node) -> _Branch:
        """Appends the stages of a node, after those of its inputs; TypeError for a node that no row of LOWER knows."""
        freezes = isinstance(node, Cache) and node.freeze_random
        self.frozen += freezes
        inputs = [self.branch(below) for below in inputs_of(node)]
        self.frozen -= freezes
        found = LOWER[type(node)](self, node, inputs)
        self.stages_after[id(node)] = len(self.stages)
        return found

    def cached(self, node: Cache, inputs: Sequence[_Branch]) -> _Branch:
        """Rows that were made are kept."""
        below = {id(one) for one in flow(node)}
        functions = [one for one in self.functions if id(one[0]) in below]
        if (reader := self.caches.get(id(node))) is not None:
            self.add(
                node.verb, "io", KeepRows(reader.cached, functions, self.slots, self.budget), threads=self.together
            )
        elif self.is_described:
            self.add(node.verb, "io", _same, threads=self.together)
        return inputs[0]

    def read(self, node: Read, _: Sequence[_Branch]) -> _Branch:
        """A source; all of them are read by the first stages."""
        self._met += 1
        source: Any = node.opened.source
        if isinstance(source, LaneOutput):
            return _Branch((self._met - 1, self._met), leaves(source.node)[0], None, node.limits)
        return _Branch((self._met - 1, self._met), node, dict(source.spec), node.limits)

    def same(self, _: Node, inputs: Sequence[_Branch]) -> _Branch:
        """A node of the order, which changes no column."""
        return inputs[0]

    def joined(self, node: Concat | Mix, inputs: Sequence[_Branch]) -> _Branch:
        """The parts of several branches become one."""
        sources = inputs[0].sources[0], inputs[-1].sources[1]
        specs = [branch.spec for branch in inputs]
        spec = specs[0] if all(one is not None and one == specs[0] for one in specs) else None
        limits = tightest([branch.limits for branch in inputs])
        if len(inputs) > 1 and not any(low <= sources[0] and sources[1] <= high for low, high in self.read_as_one):
            merge = MergeParts(node.verb, [branch.sources for branch in inputs], self.slots, self.budget)
            self.add(node.verb, "cpu", merge, threads=self.together)
            self.item_bytes.update(self.widest, sum(field.row_bytes for field in self.widest.values()))
        return replace(inputs[0], sources=sources, spec=spec, limits=limits)

    def zipped(self, node: Zip, inputs: Sequence[_Branch]) -> _Branch:
        """The parts of several branches side by side."""
        sources = inputs[0].sources[0], inputs[-1].sources[1]
        specs = [branch.spec for branch in inputs]
        known = [spec for spec in specs if spec is not None]
        spec = {name: field for one in known for name, field in one.items()} if len(known) == len(specs) else None
        limits = tightest([branch.limits for branch in inputs])
        leaf_of = {
            name: branch.leaf_of.get(name, branch.leaf)
            for branch in inputs
            for name in branch.spec or branch.leaf.opened.source.spec
        }
        self.add(node.verb, "cpu", ZipParts([branch.sources for branch in inputs]))
        return _Branch(sources, inputs[0].leaf, spec, limits, leaf_of)

    def source_column(self, node: SourceColumn, inputs: Sequence[_Branch]) -> _Branch:
        """The number of the dataset that each row came of."""
        (branch,) = inputs
        sources = np.cumsum([branch.sources[0], *(len(leaves(below)) for below in inputs_of(node.input)[:-1])])
        number = NumberSources(branch.sources, self.first_ids[sources], node.name, node.input.verb, self.slots)
        self.add(f"{node.verb} {node.name}", "cpu", number)
        self.widest[node.name] = SOURCE_FIELD
        self.item_bytes.update(self.widest)
        return replace(branch, spec=None if branch.spec is None else {**branch.spec, node.name: SOURCE_FIELD})

    def select(self, node: Select, inputs: Sequence[_Branch]) -> _Branch:
        """Some columns: the stage before drops the others, unless bad rows are taken out of what it makes."""
        (branch,) = inputs
        selecting = SelectColumns(branch.sources, node.columns)
        if self.bad is not None:
            self.add("select", "cpu", selecting)
        else:
            self.stages[-1] = replace(self.stages[-1], work=selecting.after(self.stages[-1].work))
        spec = branch.spec
        return replace(branch, spec=None if spec is None else {name: spec[name] for name in node.columns})

    def transform(self, node: Transform, inputs: Sequence[_Branch]) -> _Branch:
        """Native ops on columns."""
        (branch,) = inputs
        applied, spec = {}, None if branch.spec is None else dict(branch.spec)
        for (name, ops), (*_, begin) in zip(node.ops, node.draws, strict=True):
            first = FirstImage(branch.leaf_of.get(name, branch.leaf), name, ops)
            if spec is None or self.is_described:
                applied[name] = ColumnKernel(ops, first, branch.limits, first_number=begin)
                continue
            kernel = fuse(ops, spec[name], first.size, limits=branch.limits, first_number=begin)
            applied[name] = ColumnKernel(ops, first, branch.limits, kernel, self._entry_points(branch, name, ops))
            replaced_bytes = spec[name].row_bytes
            spec[name] = self.widest[name] = kernel.field
            self.item_bytes.update(self.widest, replaced_bytes)
        apply = ApplyKernels(
            branch.sources,
            self.first_ids,
            self._places_of(branch),
            self.slots,
            applied,
            seed=self.seed,
            draws=[(number, place) for number, place, _ in node.draws],
            budget=self.budget,
            is_frozen=self.frozen > 0,
        )
        self.applied.append(apply)
        before = self.number_of("transform")
        name = "transform" if before == 0 else f"transform {before + 1}"
        self.add_fallible(branch.sources, name, "cpu", apply, threads=self.together)
        return replace(branch, spec=spec)

    def _places_of(self, branch: _Branch) -> RowPlaces:
        """Names the rows of a branch, with those that follow them in it."""
        begin, end = (int(self.first_ids[number]) for number in branch.sources)
        links = tuple(link for link in self.links if begin <= link.leads[0] and link.follows[1] <= end)
        return RowPlaces(self.first_ids, self.leaves, links)

    def _entry_points(self, branch: _Branch, name: str, ops: tuple[Any, ...]) -> EntryPoints | Growing | None:
        """The JPEG index for a column that comes from files of one source, as its Decode asks for it."""
        wish, source = getattr(ops[0], "entry_points", "off") if ops else "off", branch.leaf.opened.source
        if (
            wish == "off"
            or isinstance(self.order, ListedOrder)
            or not branch.is_one_source
            or name not in source.spec
            or source.access is not Access.RECORDS
        ):
            return None
        path = index_path(source.manifest.digest, dict(branch.leaf.columns).get(name, name))
        found = load(path)
        return found if found is not None or wish == "auto" else Growing(source.manifest.samples, path)

    def function(self, node: Map | MapRows, inputs: Sequence[_Branch]) -> _Branch:
        """A user's function."""
        (branch,) = inputs
        work = CallFunction(branch.sources, self._call_of(node), self.seed, node.draws, is_frozen=self.frozen > 0)
        add = partial(self.add_fallible, branch.sources) if isinstance(node, MapRows) else self.add
        add(f"{node.verb} {name_of(node.function)}", "python", work, **self._threads_of(node))
        return replace(branch, spec=None)

    def _threads_of(self, node: Map | MapRows) -> dict[str, Any]:
        """How many threads call a function, and what a tuner may do: beyond the CPUs where it waits for something else. Processes compute."""
        threads = self.where.cpus if node.workers == "thread" else self.workers.at_once
        if isinstance(node, Map) and is_async(node.function):  # of map_rows, many rows of a batch are awaited at once
            return {"threads": max(threads, ASYNC_CALLS)}
        if "cpus" in self.fixed or self.is_described or node.workers == "auto":
            return {"threads": threads}
        if node.workers == "process":
            return {"threads": threads, "most": threads, "tuned_as": "process"}
        return {"threads": min(threads, _FIRST_FUNCTION_THREADS), "most": max(threads, _MOST_FUNCTION_THREADS)}

    def _call_of(self, node: Map | MapRows | FilterFunction | FlatMap) -> Call:
        """How a user's function is called."""
        function = (RowFunction if isinstance(node, MapRows) else BatchFunction)(node.function, node.verb)
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

    def pad(self, node: Pad, inputs: Sequence[_Branch]) -> _Branch:
        """Ragged columns become dense."""
        (branch,) = inputs
        spec = None if branch.spec is None else padded_spec(node, branch.spec)
        if spec is not None:
            self.widest.update(spec)
            self.item_bytes.update(self.widest)
        pad = PadColumns(branch.sources, node, self._places_of(branch), self.slots, self.budget)
        self.add("pad", "cpu", pad, threads=self.together)
        return replace(branch, spec=spec)


def untouched(root: Node, first: int = 0) -> list[tuple[int, int]]:
    """Runs of sources [low, high) that together make all of each other's rows: what joins them and lies below is order alone."""
    if all(LOWER[type(node)] in _ORDER for node in flow(root)):
        return [(first, first + len(leaves(root)))]
    found = list[tuple[int, int]]()
    for below in inputs_of(root):
        found += untouched(below, found[-1][1] if found else first)
    return found


def _same(item: Item) -> Item:
    return item


#: What becomes of each node.
LOWER: dict[type, Callable[[_Lowering, Any, Sequence[_Branch]], _Branch]] = {
    Read: _Lowering.read,
    Concat: _Lowering.joined,
    Mix: _Lowering.joined,
    Zip: _Lowering.zipped,
    SourceColumn: _Lowering.source_column,
    Repeat: _Lowering.same,
    Take: _Lowering.same,
    Skip: _Lowering.same,
    Every: _Lowering.same,
    Exclude: _Lowering.same,
    **dict.fromkeys(PICKED, _Lowering.same),
    Shuffle: _Lowering.same,
    Shard: _Lowering.same,
    Select: _Lowering.select,
    Cache: _Lowering.cached,
    Bucket: _Lowering.same,
    Pad: _Lowering.pad,
    Batch: _Lowering.same,
    BatchTokens: _Lowering.same,
    Transform: _Lowering.transform,
    Map: _Lowering.function,
    MapRows: _Lowering.function,
}

#: How nodes are lowered that change no column, and join nothing but rows.
_ORDER = (_Lowering.read, _Lowering.joined, _Lowering.same)
