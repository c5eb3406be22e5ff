"""Neighbouring sources that are read as one: their sample ids count on from one to the next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.columns.rows import Rows
from penstock.core.columns.spec import Bytes, Columns, Ids
from penstock.core.files.byte_ranges import ByteRanges, FileRanges
from penstock.core.files.shards import Shards, joined_shards
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, BlockSource, Joinable, Parsing, Source
from penstock.stages.read.blocks import BlockReader
from penstock.stages.read.memory import MemoryReader
from penstock.stages.read.parts import PartReader
from penstock.stages.read.reader import AnyReader, Reading
from penstock.stages.read.records import Read, SingleRecords, WindowedRecords

#: Files whose names are joined, at most: longer lists take long.
_MOST_FILES = 2_000_000


class JoinedBlocks:
    """Sources of blocks with the same columns; no block lies in two of them. Names places as they do."""

    def __init__(self, sources: Sequence[BlockSource]) -> None:
        self._sources, self.spec = sources, sources[0].spec
        self._first = [0, *accumulate(source.manifest.samples for source in sources)]
        self.manifest = self
        self.access, self.block_rows = sources[0].access, None

    def _at(self, sample: int) -> tuple[BlockSource, int]:
        number = bisect_right(self._first, sample) - 1
        return self._sources[number], sample - self._first[number]

    @cached_property
    def shards(self) -> Shards:
        """The files of all sources."""
        return joined_shards([source.manifest.shards for source in self._sources])

    def load(self, first: int, rows: int) -> Columns | Rows:
        """Rows [first, first + rows), of one source."""
        source, first = self._at(first)
        return source.load(first, rows)

    def place(self, sample: int) -> str:
        """Where a row lies, for messages."""
        source, sample = self._at(sample)
        return source.manifest.place(sample)

    def own_id(self, sample: int) -> int:
        """A row's id in its source."""
        return self._at(sample)[1]


class JoinedManifest:
    """Where the records of several sources lie: their shards count on, too."""

    scattered = False

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self._manifests = manifests
        self.first = np.cumsum([0, *(manifest.samples for manifest in manifests)])
        self.first_shard = np.cumsum([0, *(len(manifest.first_sample) - 1 for manifest in manifests)])
        begins = zip(manifests, self.first[:-1], strict=True)
        self.first_sample = np.concatenate(
            [*(manifest.first_sample[:-1] + first for manifest, first in begins), self.first[-1:]]
        )

    def shard_of(self, samples: Ids) -> Ids:
        """The shard of each sample id."""
        return np.searchsorted(self.first_sample, samples, side="right") - 1

    def extents(self, samples: Ids) -> tuple[Ids, Ids, Ids]:
        """Shard, offset and length (int64) of each record."""
        place, sample, edges = kernels.divide_rows(samples, self.first)
        offset, length = np.empty(len(samples), dtype=np.int64), np.empty(len(samples), dtype=np.int64)
        for number in np.flatnonzero(np.diff(edges)).tolist():
            of, mine = self._manifests[number], slice(edges[number], edges[number + 1])
            _, offset[place[mine]], length[place[mine]] = of.extents(sample[mine])
        return self.shard_of(samples), offset, length

    def place(self, sample: int) -> str:
        """Where a record lies, for messages."""
        number = int(np.searchsorted(self.first, sample, side="right")) - 1
        return self._manifests[number].place(sample - int(self.first[number]))

    def own_id(self, sample: int) -> int:
        """A sample's id in its source."""
        return sample - int(self.first[np.searchsorted(self.first, sample, side="right") - 1])


class JoinedRecords:
    """Sources whose records are parsed alike."""

    access = Access.RECORDS

    def __init__(self, sources: Sequence[Source]) -> None:
        self.spec, self.parse = sources[0].spec, sources[0].parse
        self.manifest = JoinedManifest([source.manifest for source in sources])


class JoinedRead:
    """Reads byte ranges of their shards: see `records.Read`."""

    def __init__(self, first_shard: Ids, reads: Sequence[Read]) -> None:
        self._first_shard, self._reads = first_shard, reads

    def __call__(self, ranges: FileRanges, out: Bytes) -> None:
        """Reads them: those of each source by its own way."""
        place, mine, edges = kernels.divide_rows(ranges.shard, self._first_shard)
        for number in np.flatnonzero(np.diff(edges)).tolist():
            some = slice(edges[number], edges[number + 1])
            of = place[some]
            self._reads[number](FileRanges(mine[some], ranges.offset[of], ranges.length[of], ranges.at[of]), out)


def _read_of(readings: Sequence[Reading], first_shard: Ids, shards: Shards | None = None) -> Read:
    """Reads byte ranges of the sources' files, which count on: by one call if they lie in one place. shards: all files, if they are joined."""
    stored = [reading.leaf.opened.source.manifest.stored for reading in readings]
    ranges = [reading.leaf.opened.read_ranges for reading in readings]
    storage = ranges[0].storage
    plain = [
        one.is_local and one.copied is None and read.storage is storage and not read.has_checksums(one)
        for one, read in zip(stored, ranges, strict=True)
    ]
    if storage is not None and all(plain) and sum(map(len, stored)) <= _MOST_FILES:
        return partial(ByteRanges(storage.read).fill, shards or joined_shards(stored))
    return JoinedRead(first_shard, [reading.read for reading in readings])


def _parts(readings: Sequence[Reading], sources: Sequence[Any]) -> AnyReader:
    return PartReader(readings[0], *sources)


def _blocks(readings: Sequence[Reading], sources: Sequence[Any]) -> AnyReader:
    return BlockReader(readings[0], JoinedBlocks(sources))  # type: ignore[arg-type]  # no more of its manifest is asked for


def _memory(readings: Sequence[Reading], sources: Sequence[Any]) -> AnyReader | None:
    joined = _joined(sources)
    return None if joined is None else MemoryReader(readings[0], joined)


def _single_records(readings: Sequence[Reading], sources: Sequence[Any]) -> AnyReader | None:
    found = _joined_records(readings, sources)
    return None if found is None else SingleRecords(readings[0], found[0], found[1])


def _windowed_records(readings: Sequence[Reading], sources: Sequence[Any]) -> AnyReader | None:
    found = _joined_records(readings, sources)
    return None if found is None else WindowedRecords(readings[0], *found)


def _joined_records(readings: Sequence[Reading], sources: Sequence[Any]) -> tuple[Any, Read, Ids] | None:
    """One source for several, what reads its records, and where each of them begins in it; no more of its manifest is asked for."""
    joined = _joined(sources)
    if joined is not None:
        manifest = joined.manifest
        first_shard = np.cumsum([0, *(len(source.manifest.shards) for source in sources)])
        return joined, _read_of(readings, first_shard, manifest.shards), manifest.first_of_source
    first = sources[0]
    if not isinstance(first, Parsing) or first.parsing is None:
        return None
    if any(not isinstance(source, Parsing) or source.parsing != first.parsing for source in sources):
        return None
    records = JoinedRecords(sources)
    return records, _read_of(readings, records.manifest.first_shard), records.manifest.first


def _joined(sources: Sequence[Any]) -> Any | None:
    first = sources[0]
    if not isinstance(first, Joinable) or sum(len(source.manifest.shards) for source in sources) > _MOST_FILES:
        return None
    return first.joined(sources[1:])


#: What reads several sources as one, by what reads each; None where it cannot.
_JOIN: dict[type, Callable[[Sequence[Reading], Sequence[Any]], AnyReader | None]] = {
    PartReader: _parts,
    BlockReader: _blocks,
    MemoryReader: _memory,
    SingleRecords: _single_records,
    WindowedRecords: _windowed_records,
}


def read_together(readings: Sequence[Reading], readers: Sequence[AnyReader]) -> AnyReader | None:
    """One reader for sources that all have the same columns, and are reached in the same way; None where that is not so."""
    first, join = readers[0], _JOIN.get(type(readers[0]))
    if join is None or len(readers) == 1:
        return None
    columns = list(first.spec.items())
    if any(type(reader) is not type(first) or list(reader.spec.items()) != columns for reader in readers):
        return None
    reads_at_once = max(reading.reads_at_once for reading in readings)
    alike = [replace(reading, reads_at_once=reads_at_once) for reading in readings]
    return join(alike, [reading.leaf.opened.source for reading in readings])
