"""The reading stage: sample ids to records in memory, every byte read once.

Where a block is one record, an item's records are read together into one buffer. Where blocks hold many records, a block
is read when its first row is needed and kept while the window of its lane is open. Which blocks an item needs is told in the
items' order; several threads may then read them, which stores that are far away need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.core.distinct import distinct
from penstock.core.spec import Bytes, Ids, Spans
from penstock.engine.budget import Budget, ItemBytes
from penstock.engine.slots import Slots, room_of
from penstock.engine.stage import Item, Opened
from penstock.order.cursor import Work
from penstock.order.epoch import Order

#: Reads byte ranges of shards into a buffer: (shard, offset, length, out, at).
Read = Callable[[Ids, Ids, Ids, Bytes, Ids], None]


#: Bytes of blocks that share a buffer, at most and at least; its memory is free when the last of them is.
_BUFFER_BYTES, _FEWEST_BUFFER_BYTES = 16 << 20, 1 << 20
#: A buffer is no more than this part of the memory that may be held.
_BUFFERS = 32


class Cursor:
    """Turns work into an item with its sample ids: the order's arithmetic for one rank."""

    def __init__(self, order: Order, rank: int, world_size: int, threads: int) -> None:
        self.order, self._rank, self._world_size, self._threads = order, rank, world_size, threads
        self.share = order.share(rank, world_size)

    def ids(self, work: Work) -> Ids:
        """The sample ids of this rank's rows."""
        return self.order.ids(work.epoch, work.step, work.steps, self._rank, self._world_size, self._threads)

    def __call__(self, work: Work) -> Item:
        """An item without records yet."""
        ids = self.ids(work)
        return Item(work.epoch, work.step, work.steps, lambda: ids, rows_per_step=len(ids) // work.steps)


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


class ReadRecords:
    """Reads the records of an item, each by its own range, into one buffer."""

    def __init__(self, places: Places, read: Read, slots: Slots) -> None:
        self.places, self.slots, self._read = places, slots, read

    def __call__(self, item: Item) -> Item:
        """Fills `item.records`."""
        ranges = self.places.of(item.samples)
        return self.fill(item, ranges, self.slots.take(int(ranges[2].sum())))

    def fill(self, item: Item, ranges: tuple[Ids, Ids, Ids], buffer: Bytes) -> Item:
        """Fills `item.records`, in memory that has room for all of them."""
        shard, offset, length = ranges
        at = np.cumsum(length) - length
        self._read(shard, offset, length, buffer, at)
        item.records = Spans((buffer,), np.zeros(len(at), dtype=np.int64), at, length)
        return item


class ReadAdmitted:
    """Begins items as there is room for them, and reads their records. For several threads."""

    def __init__(self, cursor: Cursor, records: ReadRecords, budget: Budget, item_bytes: ItemBytes) -> None:
        self._cursor, self._records, self._budget, self._item_bytes = cursor, records, budget, item_bytes

    def __call__(self, work: Work) -> Item:
        """An item with its records."""
        with self._budget.turn(work):
            item = self._cursor(work)
            ranges = self._records.places.of(item.samples)
            size = int(ranges[2].sum())
            asked_bytes = self._item_bytes(item.rows, size)
            item.share = self._budget.admit(work, block_bytes=room_of(size), asked_bytes=asked_bytes)
            buffer = self._budget.take(self._records.slots, size)
            self._budget.trim()
        return self._records.fill(item, ranges, buffer)


class OpenBlocks:
    """Which blocks an item needs, and which stay open after it: those of the windows of which this rank still has rows to take."""

    def __init__(self, order: Order, rank: int, world_size: int) -> None:
        self._order, self._rank, self._world_size = order, rank, world_size

    def needed(self, item: Item) -> tuple[Ids, Ids]:
        """The sample ids at which the item's blocks begin, and for each row which of these blocks holds it."""
        epoch = self._order.epoch(item.epoch)
        whole = -(-epoch.tail_start // epoch.block_rows)  # the last one may be short in the natural order
        number = item.samples // epoch.block_rows
        number = np.where(item.samples >= epoch.tail_start, item.samples - epoch.tail_start + whole, number)
        numbers, row_block = distinct(number)
        first = np.where(numbers < whole, numbers * epoch.block_rows, numbers - whole + epoch.tail_start)
        return first, row_block

    def ends(self, item: Item, first: Ids) -> Ids:
        """The sample ids at which blocks end that begin at `first`."""
        epoch = self._order.epoch(item.epoch)
        rows = np.where(first >= epoch.tail_start, 1, epoch.block_rows)
        return np.minimum(first + rows, self._order.samples)

    def kept(self, item: Item, opened: Iterable[int]) -> set[int]:
        """Those of the opened blocks whose window is still open after the item."""
        epoch = self._order.epoch(item.epoch)
        if self._order.seed is None:
            done = int(item.samples[-1]) // epoch.block_rows * epoch.block_rows
            return {start for start in opened if start >= done}
        lanes, rows, _ = self._order.parts(item.step + item.steps, self._rank, self._world_size)
        return set(epoch.blocks(lanes, rows).tolist()).intersection(opened)


class OpenPieces:
    """Begins items as there is room for them, and for the blocks that they need; keeps each block while its window is open.

    Work must come in order, from one thread.
    """

    def __init__(
        self,
        cursor: Cursor,
        places: Places,
        records: tuple[Read, Slots],
        blocks: OpenBlocks,
        budget: Budget,
        item_bytes: ItemBytes,
    ) -> None:
        self._cursor, self._places, self._blocks = cursor, places, blocks
        self._read, self._slots = records
        self._budget, self._item_bytes = budget, item_bytes
        self._buffer_bytes = max(_FEWEST_BUFFER_BYTES, min(_BUFFER_BYTES, budget.limit_bytes // _BUFFERS))
        self._pieces: dict[int, _Piece] = {}
        self._epoch, self._buffers = -1, 0

    def __call__(self, work: Work) -> Item:
        """An item with `opened`; nothing is read yet."""
        with self._budget.turn(work):
            item = self._cursor(work)
            if item.epoch != self._epoch:
                self._pieces, self._epoch = {}, item.epoch
            needed, row_block = self._blocks.needed(item)
            new = np.array([start for start in needed.tolist() if start not in self._pieces], dtype=np.int64)
            self._open(work, item, new)
            item.opened = Opened(tuple(self._pieces[start] for start in needed.tolist()), row_block)
            self._pieces = {start: self._pieces[start] for start in self._blocks.kept(item, self._pieces)}
        return item

    def _open(self, work: Work, item: Item, first: Ids) -> None:
        """Has the item admitted, with memory for the blocks that begin at `first`, several in one buffer."""
        owner, *ranges = self._places.ranges(first, self._blocks.ends(item, first)) if len(first) else [first] * 4
        parts = np.searchsorted(owner, np.arange(len(first) + 1))
        edges = self._edges_of_buffers(ranges[2], parts)
        rooms = [room_of(int(ranges[2][parts[low] : parts[high]].sum())) for low, high in pairwise(edges)]
        asked_bytes = self._item_bytes(item.rows, None)
        item.share = self._budget.admit(work, block_bytes=sum(rooms), asked_bytes=asked_bytes)
        for low, high in pairwise(edges):
            self._open_together(first[low:high].tolist(), parts[low : high + 1].tolist(), ranges)
        self._budget.trim()

    def _edges_of_buffers(self, length: Ids, parts: Ids) -> list[int]:
        """The first of the blocks of each buffer, and how many blocks there are."""
        if not len(length):
            return [0]
        sizes = np.add.reduceat(length, parts[:-1])
        buffer_of = (np.cumsum(sizes) - sizes) // self._buffer_bytes
        return np.flatnonzero(np.diff(buffer_of, prepend=-1, append=-1)).tolist()

    def _open_together(self, starts: list[int], parts: list[int], ranges: list[Ids]) -> None:
        """Describes blocks of one buffer; block i has the ranges parts[i] … parts[i + 1] - 1."""
        shard, offset, length = (column[parts[0] : parts[-1]] for column in ranges)
        edges = np.append(0, np.cumsum(length))
        self._buffers += 1
        memory = self._budget.take(self._slots, int(edges[-1]))
        buffer = _Buffer(self._buffers, self._read, memory, (shard, offset, length, edges))
        columns = np.stack([shard, offset, edges[:-1]], axis=1)
        for start, (low, high) in zip(starts, pairwise(part - parts[0] for part in parts), strict=True):
            self._pieces[start] = _Piece(buffer, columns[low:high])


class ReadPieces:
    """Reads the blocks that an item needs and that nobody has read yet. For several threads."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def __call__(self, item: Item) -> Item:
        """Fills `item.records`."""
        assert item.opened is not None
        pieces, row_block = item.opened.pieces, item.opened.which
        buffers = sorted({piece.buffer for piece in pieces}, key=lambda buffer: buffer.number)  # oldest first
        for buffer in [buffer for buffer in buffers if not buffer.fill(wait=False)]:  # first what nobody else is at
            buffer.fill(wait=True)
        item.records = self._spans(item.samples, pieces, row_block)
        item.opened = None
        return item

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
