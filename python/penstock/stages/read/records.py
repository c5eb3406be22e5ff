"""Records in files: sample ids to records in memory, every byte read once.

Where a block is one record, an item's records are read together into one buffer. Where blocks hold many records, a block
is read when its first row is needed and stays open while the window of its lane is. Which blocks an item needs is found in the
items' order; several threads may then read them, which remote stores need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.core.byte_ranges import ByteRanges
from penstock.core.spec import Bytes, Columns, Ids, Spans, Spec
from penstock.runtime.slots import Slots, room_of
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import Source
from penstock.stages.read.memory import Memory
from penstock.stages.read.reader import Needs, Reading
from penstock.stages.read.windows import Needed, Opened, OpenWindows

#: Reads byte ranges of shards into a buffer: (shard, offset, length, out, at).
Read = Callable[[Ids, Ids, Ids, Bytes, Ids], None]


#: Bytes of blocks that share a buffer, at most and at least; its memory is free when the last of them is.
_BUFFER_BYTES, _FEWEST_BUFFER_BYTES = 16 << 20, 1 << 20
_ONE_SOURCE = np.zeros(1, dtype=np.int64)
#: A buffer is no more than this part of the memory that may be held.
_BUFFERS = 32


class Places:
    """Where records lie, by sample id (see `source.manifest.Manifest.extents`)."""

    def __init__(self, manifest: Any) -> None:
        self._manifest = manifest

    def of(self, samples: Ids) -> tuple[Ids, Ids, Ids]:
        """Shard, offset and length (int64) of each record."""
        shard, offset, length = self._manifest.extents(samples)
        return shard, offset, length

    def ranges(self, first: Ids, end: Ids) -> tuple[Ids, Ids, Ids, Ids]:
        """Byte ranges of runs of records [first[i], end[i]): the run's number i, shard, offset, length; one range a shard."""
        owner = np.arange(len(first))
        while True:
            shard = self._manifest.shard_of(first)
            cut = np.minimum(end, self._manifest.first_sample[shard + 1])
            over = cut < end
            if not over.any():
                break
            owner = np.append(owner, owner[over])
            first, end = np.append(first, cut[over]), np.append(cut, end[over])
        turn = np.lexsort((first, owner))
        shard, offset, _ = self.of(first[turn])
        _, last_offset, last_length = self.of(end[turn] - 1)
        return owner[turn], shard, offset, last_offset + last_length - offset


def fill(read: Read, ranges: tuple[Ids, Ids, Ids], buffer: Bytes) -> Spans:
    """Reads records, each by its own range, into one buffer that has room for all of them."""
    shard, offset, length = ranges
    at = np.cumsum(length) - length
    read(shard, offset, length, buffer, at)
    return Spans((buffer,), np.zeros(len(at), dtype=np.int64), at, length)


def read_records(source: Source, read: ByteRanges, samples: Ids, slots: Slots) -> Spans:
    """The records of some samples."""
    ranges = Places(source.manifest).of(samples)
    stored = source.manifest.stored
    return fill(lambda *where: read(stored, *where), ranges, slots.take(int(ranges[2].sum())))


class SingleRecords:
    """See `reader.Reader`. Every record is read by its own range."""

    in_order, plans = False, True
    kind = "parse"

    def __init__(self, reading: Reading, source: Source, read: Read) -> None:
        self._reading, self._parse = reading, Memory(reading, source)
        self._places, self._read = Places(source.manifest), read
        self.threads = max(2, reading.reads_at_once)

    @property
    def spec(self) -> Spec:
        """The source's columns."""
        return self._parse.spec

    def plan(self, item: Item, rows: SourceRows) -> Needs:
        """Where the records lie."""
        ranges = self._places.of(rows.samples)
        rows.held, size = ranges, int(ranges[2].sum())
        return Needs(room_of(size), size)

    def open(self, rows: SourceRows) -> None:
        """Takes a buffer for them."""
        rows.held = rows.held, self._reading.budget.take(self._reading.record_slots, int(rows.held[2].sum()))

    def read(self, rows: SourceRows) -> None:
        """Fills it."""
        rows.held = fill(self._read, *rows.held)

    def columns(self, item: Item, rows: SourceRows) -> Columns:
        """Parses the records."""
        return self._parse.columns(item, rows)


class WindowedRecords:
    """See `reader.Reader`. Blocks of records are read together, several in one buffer, and stay open while their windows are.

    begins: where each of several sources begins that are read as one. Their blocks have buffers of their own, since in a mix their
    windows are done at other times.
    """

    in_order = plans = True
    kind = "parse"

    def __init__(self, reading: Reading, source: Source, read: Read, begins: Ids = _ONE_SOURCE) -> None:
        self._reading, self._parse = reading, Memory(reading, source)
        self._places, self._read, self._begins = Places(source.manifest), read, begins
        ranks = reading.where.rank, reading.where.world_size
        self._windows = OpenWindows[_Piece](reading.order, ranks, reading.first_id)
        self._buffer_bytes = max(_FEWEST_BUFFER_BYTES, min(_BUFFER_BYTES, reading.budget.limit_bytes // _BUFFERS))
        self._buffers = 0
        self.threads = reading.reads_at_once

    @property
    def spec(self) -> Spec:
        """The source's columns."""
        return self._parse.spec

    def plan(self, item: Item, rows: SourceRows) -> Needs:
        """The blocks that are not open yet, where they lie, and the buffers for them."""
        needed = self._windows.needed(item, rows)
        first = needed.first[needed.new]
        owner, *ranges = self._places.ranges(first, needed.end[needed.new]) if len(first) else [first] * 4
        parts = np.searchsorted(owner, np.arange(len(first) + 1))
        edges = self._edges_of_buffers(first, ranges[2], parts)
        rooms = [room_of(int(ranges[2][parts[low] : parts[high]].sum())) for low, high in pairwise(edges)]
        rows.held = item, needed, ranges, parts, edges
        return Needs(sum(rooms))

    def open(self, rows: SourceRows) -> None:
        """Takes the buffers."""
        needed: Needed
        item, needed, ranges, parts, edges = rows.held

        def make(_: Ids, __: Ids) -> Sequence[_Piece]:
            together = [self._open_together(parts[low : high + 1].tolist(), ranges) for low, high in pairwise(edges)]
            return [piece for pieces in together for piece in pieces]

        rows.held = self._windows.open(item, needed, make)

    def _edges_of_buffers(self, first: Ids, length: Ids, parts: Ids) -> list[int]:
        """The first of the blocks of each buffer, and how many blocks there are."""
        if not len(length):
            return [0]
        sizes = np.add.reduceat(length, parts[:-1])
        buffer_of = (np.cumsum(sizes) - sizes) // self._buffer_bytes
        source = np.searchsorted(self._begins, first, side="right")
        is_edge = np.diff(buffer_of, prepend=-1, append=-1) != 0
        return np.flatnonzero(is_edge | (np.diff(source, prepend=0, append=0) != 0)).tolist()

    def _open_together(self, parts: list[int], ranges: list[Ids]) -> list[_Piece]:
        """Blocks of one buffer; block i has the ranges parts[i] … parts[i + 1] - 1."""
        shard, offset, length = (column[parts[0] : parts[-1]] for column in ranges)
        edges = np.append(0, np.cumsum(length))
        self._buffers += 1
        memory = self._reading.budget.take(self._reading.record_slots, int(edges[-1]))
        buffer = _Buffer(self._buffers, self._read, memory, (shard, offset, length, edges))
        columns = np.stack([shard, offset, edges[:-1]], axis=1)
        return [_Piece(buffer, columns[low:high]) for low, high in pairwise(part - parts[0] for part in parts)]

    def read(self, rows: SourceRows) -> None:
        """Reads the blocks that nobody has read yet."""
        opened: Opened[_Piece] = rows.held
        buffers = sorted({piece.buffer for piece in opened.pieces}, key=lambda buffer: buffer.number)  # oldest first
        for buffer in [buffer for buffer in buffers if not buffer.fill(wait=False)]:  # first what nobody else is at
            buffer.fill(wait=True)
        if opened.pieces:
            rows.held = self._spans(rows.samples, opened.pieces, opened.which)

    def _spans(self, samples: Ids, pieces: tuple[_Piece, ...], row_block: Ids) -> Spans:
        shard, offset, length = self._places.of(samples)
        # All ranges of the pieces, in order, and for each row the range of its piece that is of its shard.
        ranges = [piece.ranges for piece in pieces]
        number = np.repeat(np.arange(len(pieces)), list(map(len, ranges)))
        in_shard, begin, at = np.concatenate(ranges).T
        shards = int(in_shard.max()) + 1
        found = np.searchsorted(number * shards + in_shard, row_block * shards + shard)
        buffers = {piece.buffer.number: piece.buffer for piece in pieces}
        turn = {buffer: turn for turn, buffer in enumerate(buffers)}
        which = np.array([turn[piece.buffer.number] for piece in pieces], dtype=np.int64)[row_block]
        filled = tuple(buffer.memory for buffer in buffers.values())
        return Spans(filled, which, at[found] + offset - begin[found], length)

    def columns(self, item: Item, rows: SourceRows) -> Columns:
        """Parses the records."""
        return self._parse.columns(item, rows)


class _Buffer:
    """Memory for some blocks, filled by whoever first needs one of them; the others wait."""

    def __init__(self, number: int, read: Read, memory: Bytes, ranges: tuple[Ids, Ids, Ids, Ids]) -> None:
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
                shard, offset, length, edges = self._ranges
                self._read(shard, offset, length, self.memory, edges[:-1])
                self._is_filled = True
        finally:
            self._lock.release()
        return True


@dataclass(frozen=True, eq=False)
class _Piece:
    """A block: its ranges, at most one a shard, as rows of (shard, offset there, place in the buffer), int64."""

    buffer: _Buffer
    ranges: Ids
