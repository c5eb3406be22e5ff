"""The stages that read the sources of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.spec import Field
from penstock.deliver.launchers import ranks_here
from penstock.lower.lanes import feed_of
from penstock.lower.stages import Lowering
from penstock.order.demand import DemandOrder
from penstock.plan.nodes import (
    Cache,
    Mix,
    Read,
    Shuffle,
)
from penstock.plan.tree import find, flow
from penstock.resolve.cut import LaneOutput
from penstock.resolve.untouched import untouched
from penstock.runtime.stage import Columned, Item, Loaded, Planned
from penstock.source.protocol import Access, AnySource, StepSource
from penstock.stages.cached.begin import CachedBegin
from penstock.stages.cached.caches import caches_of
from penstock.stages.cached.reader import CacheReader
from penstock.stages.lanes.reader import Lanes
from penstock.stages.read.begin import Begin, columns_with, read_with
from penstock.stages.read.memory import GatherMixed, GatherSteps
from penstock.stages.read.reader import Reader, Reading
from penstock.stages.read.readers import reader_of
from penstock.stages.read.together import read_together

#: Threads that gather short rows, each an item of its own: more than one consumer can take.
_GATHER_THREADS = 4
#: Items that are read at once from files that are mounted, at most.
_MOST_READS = 8


class ReadingStages(Lowering):
    """Adds the first stages: what reads all sources together."""

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
            Lanes(reading, feed_of(self, source, reading.first_id))
            if isinstance(source, LaneOutput)
            else reader_of(reading)
        )

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
