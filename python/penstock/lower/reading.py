"""The first stages, which read all sources of a plan together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from penstock.deliver.launchers import ranks_here
from penstock.lower.context import ITEM_BYTES, Context
from penstock.plan.nodes import Cache, Read
from penstock.plan.tree import flow, leaves
from penstock.resolve.resolved import resolve
from penstock.runtime.budget import ItemBytes
from penstock.runtime.stage import Columned, Stage
from penstock.source.nulls import stored
from penstock.source.protocol import Access, KeepingSource, StepSource
from penstock.stages.cached.caches import caches_of
from penstock.stages.cached.find_cached import CachedBegin
from penstock.stages.cached.reader import CacheReader
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.reader import LaneReader
from penstock.stages.read.item_planner import ItemPlanner, columns_with, read_with
from penstock.stages.read.joined_sources import read_together
from penstock.stages.read.memory import GatherSteps
from penstock.stages.read.reader import AnyReader, Reading
from penstock.stages.read.readers import reader_of

#: From remote stores this much is requested at once, as far as memory allows: a fifth of a second of a fast line. Half of the lanes come to
#: new windows at about the same time, and with 64 lanes these are 64 MiB: four times that. More threads than this gain nothing.
FAR_BYTES = 256 << 20
_FAR_THREADS = 32
#: Threads that gather short rows, each an item of its own: more than one consumer can take.
_GATHER_THREADS = 4
#: Items that are read at once from files that are mounted, at most.
_MOST_READS = 8


@dataclass(frozen=True, kw_only=True)
class Readers:
    """What reads a plan's sources. sources: those that each reader reads; caches: what reads caches, the uppermost first."""

    readers: Sequence[AnyReader]
    sources: Sequence[tuple[int, int]]
    caches: Sequence[CacheReader]

    @property
    def in_order(self) -> bool:
        """Whether one thread plans, in the order of the work."""
        return any(reader.in_order for reader in self.readers)

    @property
    def of_nodes(self) -> dict[int, CacheReader]:
        """What reads each cache, by its node's id."""
        return {id(reader.cached.node): reader for reader in self.caches}

    @property
    def threads(self) -> int:
        """Threads that read at once."""
        return max(reader.threads for reader in (*self.readers, *self.caches))


def open_readers(context: Context, feeds: Mapping[int, LaneFeed]) -> Readers:
    """A reader a source, or one for several that only the order works on. feeds: the lane stages whose rows are sources, by their numbers."""
    readers, sources = list[AnyReader](), list[tuple[int, int]]()
    resolved = resolve(context.root)
    readings = {one[1]: _reading(context, *one) for one in resolved.numbered_sources}
    if not context.is_described:
        _set_aside(context, readings.values())
    for low, high in resolved.runs_of_order():
        single = [
            LaneReader(feeds[number], context.allocate) if number in feeds else reader_of(readings[number])
            for number in range(low, high)
        ]
        one = read_together([readings[number] for number in range(low, high) if number in readings], single)
        sources += [(low, high)] if one else [(number, number + 1) for number in range(low, high)]
        readers += [one] if one else single
    return Readers(readers=readers, sources=sources, caches=_open_caches(context))


def _set_aside(context: Context, readings: Iterable[Reading]) -> None:
    """Takes from the budget what sources keep and need to decode, which they bound by it."""
    budget, limit_bytes = context.budget, context.budget.limit_bytes
    every = {id(source): source for source in (stored(reading.leaf.opened.source) for reading in readings)}
    keeping = [source for source in every.values() if isinstance(source, KeepingSource)]
    budget.aside_bytes = budget.parts_bytes = sum(source.keep_within(limit_bytes // len(keeping)) for source in keeping)
    budget.parts_within = lambda limit: sum(source.needed_within(limit // len(keeping)) for source in keeping)


def _reading(context: Context, leaf: Read, number: int, first_id: int) -> Reading:
    return Reading(
        leaf=leaf,
        number=number,
        first_id=first_id,
        cursor=context.cursor,
        seed=context.seed,
        reads_at_once=_reads_at_once(context, leaf),
        slots=context.slots,
        record_slots=context.record_slots,
        budget=context.budget,
        row_bytes=-(-leaf.open_bytes // max(1, leaf.samples)),
    )


def _reads_at_once(context: Context, leaf: Read) -> int:
    """Items that are read at once: one from disks; of remote stores as many as fill a line while answers are on the way."""
    if leaf.opened.read_ranges.traffic is None:
        return 1
    step_bytes = max(1, context.rows_per_step * context.sources.record_bytes)
    far_bytes = min(FAR_BYTES, context.budget.limit_bytes)
    return min(_FAR_THREADS, max(2, far_bytes // (step_bytes * max(1, ITEM_BYTES // step_bytes))))


def _open_caches(context: Context) -> list[CacheReader]:
    """What reads the plan's caches, the uppermost first; nothing is opened to describe a plan."""
    if context.is_described or not any(isinstance(node, Cache) for node in flow(context.root)):
        return []
    first, last = ranks_here(context.where.rank, context.where.world_size)
    sources, has_draws = context.sources, context.order.rows.has_draws
    found = caches_of(
        context.root, sources.first_ids, sources.links, context.seed, has_draws=has_draws, ranks=last - first
    )
    return [CacheReader(cached, context.allocate, context.budget) for cached in found]


def reading_stages(context: Context, opened: Readers, item_bytes: ItemBytes) -> list[Stage]:
    """Plan, read and parse: as many stages as have threads of their own."""
    first_ids = context.sources.first_ids[[*(low for low, _ in opened.sources), -1]]
    memory = first_ids, context.budget, item_bytes
    if opened.caches:
        begin: ItemPlanner = CachedBegin(context.cursor, opened.readers, opened.caches, *memory)
    else:
        begin = ItemPlanner(context.cursor, opened.readers, *memory)
    readers = [*opened.readers, *opened.caches]
    columns_of = columns_with if context.bad is None else context.bad.reading
    columns = columns_of(readers, [*opened.sources, *(reader.cached.home for reader in opened.caches)])
    if context.sources.access == {Access.MEMORY}:
        gather = _native_gather(context, opened, begin, columns)
        stages = [gather or Stage("gather", "cpu", begin, threads=context.threads).then(columns)]
    else:
        name = "parse" if any(reader.kind == "parse" for reader in readers) else "gather"
        stages = [*_read(context, opened, begin), Stage(name, "cpu", columns, threads=context.threads)]
    return [*stages[:-1], replace(stages[-1], leaves_bad_out=context.bad is not None)]


def _read(context: Context, opened: Readers, begin: ItemPlanner) -> list[Stage]:
    """The stages that plan and read: two where one thread plans, in the order of the work, and several read."""
    read, threads = read_with([*opened.readers, *opened.caches]), opened.threads
    if opened.in_order and threads > 1:
        plan = Stage("plan", "cpu", begin, is_reading=True)
        return [plan, Stage("read", "io", read, threads=threads, most=threads, is_reading=True)]
    one = Stage("read", "cpu" if context.sources.access == {None} else "io", begin, is_reading=True).then(read)
    return [one if opened.in_order else replace(one, threads=threads, most=max(threads, _MOST_READS))]


def _native_gather(
    context: Context, opened: Readers, begin: ItemPlanner, columns: Callable[[Any], Columned]
) -> Stage | None:
    """One call for order and rows of whole steps, of short rows in memory; None where that cannot be."""
    source, *others = [leaf.opened.source for leaf in leaves(context.root)]
    is_short = not others and isinstance(source, StepSource) and source.gathers_steps
    if context.bad is not None or opened.caches or not is_short:
        return None
    make = GatherSteps(cast("StepSource", source), context.cursor, context.slots, context.budget)
    threads = min(_GATHER_THREADS, context.where.cpus)
    return Stage("gather", "cpu", begin.admitted(make, columns), threads=threads)
