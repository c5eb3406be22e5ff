"""Records in files: sample ids to records in memory, every byte read once.

Where a block is one record, an item's records are read together into one buffer. Where blocks hold many records, a block
is read when its first row is needed and stays open while the window of its lane is. Which blocks an item needs is found in the
items' order; several threads may then read them, which remote stores need:

    in the items' order    plan: which blocks are new, and where they lie       open: a buffer for some new ones
                                                                                          │
    in any thread          an item's rows lie in  block 3   block 8   block 9             ▼
                                                  open ─┘         └─────────┴── new: buffer 5, read once, by the thread that needs it first
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.core.columns.spec import Bytes, Columns, Ids, Spans, Spec
from penstock.core.files.byte_ranges import ByteRanges, FileRanges
from penstock.runtime.slots import Slots, room_of
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import Source
from penstock.stages.read.memory import MemoryReader
from penstock.stages.read.reader import Needs, Reading
from penstock.stages.read.windows import NeededBlocks, OpenedBlocks, OpenWindows

#: Reads byte ranges of a source's files into a buffer.
Read = Callable[[FileRanges, Bytes], None]

#: Bytes of blocks that share a buffer, at most and at least; its memory is free when the last of them is.
_BUFFER_BYTES, _FEWEST_BUFFER_BYTES = 16 << 20, 1 << 20
_ONE_SOURCE = np.zeros(1, dtype=np.int64)
#: A buffer is no more than this part of the memory that may be held.
_BUFFERS = 32


class Places:
    """Where records lie, by sample id (see `source.manifest.Manifest.extents`)."""

    def __init__(self, manifest: Any) -> None:
        self._manifest = manifest

    def of(self, samples: Ids) -> FileRanges:
        """The byte range of each record."""
        return FileRanges.one_by_one(*self._manifest.extents(samples))

    def of_runs(self, first: Ids, end: Ids) -> tuple[Ids, FileRanges]:
        """Byte ranges of runs of records [first[i], end[i]), one a shard, and the number i of each range's run."""
        owner = np.arange(len(first))
        # Again and again, runs are cut where their first shard ends; what lies behind is a run more, of the same owner.
        while True:
            shard = self._manifest.shard_of(first)
            cut = np.minimum(end, self._manifest.first_sample[shard + 1])
            over = cut < end
            if not over.any():
                break
            owner = np.append(owner, owner[over])
            first, end = np.append(first, cut[over]), np.append(cut, end[over])
        turn = np.lexsort((first, owner))
        shard, offset, _ = self._manifest.extents(first[turn])
        _, last_offset, last_length = self._manifest.extents(end[turn] - 1)
        return owner[turn], FileRanges.one_by_one(shard, offset, last_offset + last_length - offset)


def fill(read: Read, ranges: FileRanges, buffer: Bytes) -> Spans:
    """Reads records, each by its own range, into one buffer that has room for all of them."""
    read(ranges, buffer)
    return Spans((buffer,), np.zeros(len(ranges), dtype=np.int64), ranges.at, ranges.length)


def read_records(source: Source, read: ByteRanges, samples: Ids, slots: Slots) -> Spans:
    """The records of some samples."""
    ranges = Places(source.manifest).of(samples)
    return fill(partial(read.fill, source.manifest.stored), ranges, slots.take(ranges.size_bytes))


@dataclass(frozen=True, eq=False)
class _ItemRecords:
    """Where an item's records lie, and a buffer with room for them."""

    ranges: FileRanges
    buffer: Bytes


class SingleRecords:
    """See `reader.Reader`. Every record is read by its own range."""

    in_order, plans = False, True
    kind = "parse"

    def __init__(self, reading: Reading, source: Source, read: Read) -> None:
        self._reading, self._parse = reading, MemoryReader(reading, source)
        self._places, self._read = Places(source.manifest), read
        self.threads = max(2, reading.reads_at_once)

    @property
    def spec(self) -> Spec:
        """The source's columns."""
        return self._parse.spec

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, FileRanges]:
        """Where the records lie."""
        ranges = self._places.of(rows.samples)
        size_bytes = ranges.size_bytes
        return Needs(room_of(size_bytes), size_bytes), ranges

    def open(self, item: Item, rows: SourceRows, plan: FileRanges) -> _ItemRecords:
        """Takes a buffer for them."""
        return _ItemRecords(plan, self._reading.budget.take(self._reading.record_slots, plan.size_bytes))

    def read(self, rows: SourceRows, opened: _ItemRecords) -> Spans:
        """Fills it."""
        return fill(self._read, opened.ranges, opened.buffer)

    def columns(self, item: Item, rows: SourceRows, held: Spans) -> Columns:
        """Parses the records."""
        return self._parse.parsed(item, rows, held)


@dataclass(frozen=True, eq=False)
class _NewBlocks:
    """The blocks of an item, and what must be read of those that are not open.

    ranges: of the new ones; block i has the ranges edges[i] … edges[i + 1] - 1. buffers: the first of the blocks of each buffer, and how many blocks there are.
    """

    needed: NeededBlocks
    ranges: FileRanges
    edges: Ids
    buffers: list[int]


class WindowedRecords:
    """See `reader.Reader`. Blocks of records are read together, several in one buffer, and stay open while their windows are.

    begins: where each of several sources begins that are read as one. Their blocks have buffers of their own, since in a mix their
    windows are done at other times.
    """

    in_order = plans = True
    kind = "parse"

    def __init__(self, reading: Reading, source: Source, read: Read, begins: Ids = _ONE_SOURCE) -> None:
        self._reading, self._parse = reading, MemoryReader(reading, source)
        self._manifest, self._read, self._begins = source.manifest, read, begins
        self._places = Places(source.manifest)
        self._windows = OpenWindows[_BlockRanges](reading.cursor, reading.first_id)
        self._buffer_bytes = max(_FEWEST_BUFFER_BYTES, min(_BUFFER_BYTES, reading.budget.limit_bytes // _BUFFERS))
        self._buffers = 0
        self.threads = reading.reads_at_once

    @property
    def spec(self) -> Spec:
        """The source's columns."""
        return self._parse.spec

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, _NewBlocks]:
        """The blocks that are not open yet, where they lie, and the buffers for them."""
        needed = self._windows.needed(item, rows)
        first, end = needed.first[needed.new], needed.end[needed.new]
        owner, ranges = self._places.of_runs(first, end) if len(first) else (first, FileRanges(*[first] * 4))
        edges = np.searchsorted(owner, np.arange(len(first) + 1))
        buffers = self._edges_of_buffers(first, ranges.length, edges)
        rooms = [room_of(int(ranges.length[edges[low] : edges[high]].sum())) for low, high in pairwise(buffers)]
        return Needs(sum(rooms)), _NewBlocks(needed, ranges, edges, buffers)

    def open(self, item: Item, rows: SourceRows, plan: _NewBlocks) -> OpenedBlocks[_BlockRanges]:
        """Takes the buffers."""

        def make(_: Ids, __: Ids) -> Sequence[_BlockRanges]:
            edges, buffers = plan.edges, pairwise(plan.buffers)
            together = [self._open_together(edges[low : high + 1].tolist(), plan.ranges) for low, high in buffers]
            return [piece for pieces in together for piece in pieces]

        return self._windows.open(item, plan.needed, make)

    def _edges_of_buffers(self, first: Ids, length: Ids, parts: Ids) -> list[int]:
        """The first of the blocks of each buffer, and how many blocks there are."""
        if not len(length):
            return [0]
        sizes = np.add.reduceat(length, parts[:-1])
        buffer_of = (np.cumsum(sizes) - sizes) // self._buffer_bytes
        source = np.searchsorted(self._begins, first, side="right")
        is_edge = np.diff(buffer_of, prepend=-1, append=-1) != 0
        return np.flatnonzero(is_edge | (np.diff(source, prepend=0, append=0) != 0)).tolist()

    def _open_together(self, edges: list[int], ranges: FileRanges) -> list[_BlockRanges]:
        """Blocks of one buffer; block i has the ranges edges[i] … edges[i + 1] - 1."""
        mine = ranges.part(edges[0], edges[-1])
        self._buffers += 1
        memory = self._reading.budget.take(self._reading.record_slots, mine.size_bytes)
        buffer = _Buffer(self._buffers, self._read, memory, mine)
        columns = np.stack([mine.shard, mine.offset, mine.at], axis=1)
        return [_BlockRanges(buffer, columns[low:high]) for low, high in pairwise(edge - edges[0] for edge in edges)]

    def read(self, rows: SourceRows, opened: OpenedBlocks[_BlockRanges]) -> Spans | None:
        """Reads the blocks that nobody has read yet."""
        # Oldest first, as items come. Buffers that another thread fills are left for later, so that two threads with the same blocks
        # share the reading, and do not wait for each other at every one.
        buffers = sorted({piece.buffer for piece in opened.pieces}, key=lambda buffer: buffer.number)
        later = [buffer for buffer in buffers if not buffer.fill(wait=False)]
        for buffer in later:
            buffer.fill(wait=True)
        return self._spans(rows.samples, opened.pieces, opened.which) if opened.pieces else None

    def _spans(self, samples: Ids, pieces: tuple[_BlockRanges, ...], row_block: Ids) -> Spans:
        shard, offset, length = self._manifest.extents(samples)
        # All ranges of the pieces, in order, and for each row the range of its piece that is of its shard.
        ranges = [piece.ranges for piece in pieces]
        number = np.repeat(np.arange(len(pieces)), list(map(len, ranges)))
        in_shard, begin, at = np.concatenate(ranges).T
        # (block, shard) as one number ascends over all ranges, so that each row's is found by bisection.
        shards = int(in_shard.max()) + 1
        found = np.searchsorted(number * shards + in_shard, row_block * shards + shard)
        buffers = {piece.buffer.number: piece.buffer for piece in pieces}
        turn = {buffer: turn for turn, buffer in enumerate(buffers)}
        which = np.array([turn[piece.buffer.number] for piece in pieces], dtype=np.int64)[row_block]
        filled = tuple(buffer.memory for buffer in buffers.values())
        return Spans(filled, which, at[found] + offset - begin[found], length)

    def columns(self, item: Item, rows: SourceRows, held: Spans | None) -> Columns:
        """Parses the records."""
        return self._parse.parsed(item, rows, held)


class _Buffer:
    """Memory for some blocks, filled by the thread that first needs one of them; the others wait."""

    def __init__(self, number: int, read: Read, memory: Bytes, ranges: FileRanges) -> None:
        self.number, self.memory = number, memory
        self._read, self._ranges = read, ranges
        self._lock = threading.Lock()
        self._is_filled = False

    def fill(self, *, wait: bool) -> bool:
        """Reads the blocks unless they are there; whether they are there: not if another thread reads them and is not waited for.

        After an error the next who needs them tries again.
        """
        if self._is_filled:
            return True
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            if not self._is_filled:
                self._read(self._ranges, self.memory)
                self._is_filled = True
        finally:
            self._lock.release()
        return True


@dataclass(frozen=True, eq=False)
class _BlockRanges:
    """A block: its ranges, at most one a shard, as rows of (shard, offset there, place in the buffer), int64."""

    buffer: _Buffer
    ranges: Ids
