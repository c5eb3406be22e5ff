"""The pieces that a cache holds, in a table that is searched by bisection. Numbers in, numbers out."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, Ids

#: begin, end: positions (see `files`). pack, position: where the bytes are. in_blocks: whether checksums of its blocks follow them.
#: `rust/src/io/extents.rs` has the same layout.
EXTENT = np.dtype(
    [
        ("begin", "<i8"),
        ("end", "<i8"),
        ("pack", "<i8"),
        ("position", "<i8"),
        ("checksum", "<u4"),
        ("in_blocks", "?"),
        ("alive", "?"),
    ],
    align=True,
)

#: New pieces are first sorted into a small part of at least so many, before they join the rest.
_FEW = 1024
_SHARE = 8


#: A longer piece is followed by the checksums of its blocks of this size, so that a part of it can be checked alone.
BLOCK_BYTES = 8 << 10
SUM_BYTES = 4


def stored_bytes(length: Ids, in_blocks: Any = True) -> Ids:
    """Bytes of pieces in a pack, with the checksums of their blocks: stored_bytes(np.array([100, 8193])) == [100, 8201]."""
    has_sums = (length > BLOCK_BYTES) & in_blocks
    return length + np.where(has_sums, -(-length // BLOCK_BYTES) * SUM_BYTES, 0)


def ends_in_pack(rows: Any) -> Ids:
    """The ends of pieces in their packs."""
    ends: Ids = rows["position"] + stored_bytes(rows["end"] - rows["begin"], rows["in_blocks"])
    return ends


class Extents:
    """Pieces that do not overlap. Each has a number until `generation` changes."""

    def __init__(self) -> None:
        self.rows: Any = np.empty(0, EXTENT)
        self.generation = 0
        self._count = 0
        self._parts = [_TablePart(self.rows, np.empty(0, dtype=np.int64))] * 2  # most pieces, and the recent ones

    def find(self, begin: Ids, end: Ids) -> tuple[Ids, Ids]:
        """The pieces that overlap intervals [begin[i], end[i]): i and the piece's number, sorted by i, then by position."""
        found = [part.find(begin, end) for part in self._parts]
        which = np.concatenate([one[0] for one in found])
        number = np.concatenate([one[1] for one in found])
        alive = self.rows["alive"][number]
        which, number = which[alive], number[alive]
        turn = np.lexsort((self.rows["begin"][number], which))
        return which[turn], number[turn]

    def find_whole(self, base: Ids, shard: Ids, offset: Ids, length: Ids) -> tuple[Ids, Bytes, Ids] | None:
        """The pieces that hold ranges, one each, their rows as bytes, and the positions where the ranges begin.

        None unless every range lies in one piece. base: where each shard's stretch begins.
        """
        parts = [(part.end, part.number) for part in self._parts]
        return kernels.find_whole(self.rows.view(np.uint8), parts, base, shard, offset, length)

    def add(self, rows: Any) -> int:
        """Add pieces, except those that overlap others; returns how many were added."""
        rows = rows[np.argsort(rows["begin"], kind="stable")]
        rows = rows[rows["begin"] >= np.maximum.accumulate(np.append(-1, rows["end"]))[:-1]]
        taken, _ = self.find(np.ascontiguousarray(rows["begin"]), np.ascontiguousarray(rows["end"]))
        rows = np.delete(rows, taken)
        if not len(rows):
            return 0
        first = self._count
        self._grow(first + len(rows))
        self.rows[first : self._count] = rows
        self.rows["alive"][first : self._count] = True
        recent = np.concatenate([self._parts[1].number, np.arange(first, self._count)])
        if len(recent) > max(_FEW, len(self._parts[0].number) // _SHARE):
            self._settle()
        else:
            self._parts[1] = self._part(recent)
        return len(rows)

    def drop(self, number: Ids) -> None:
        """Remove pieces from the table."""
        self.rows["alive"][number] = False

    def live(self) -> Ids:
        """The numbers of all pieces."""
        return np.flatnonzero(self.rows["alive"][: self._count])

    def clear(self) -> None:
        """Remove all pieces from the table."""
        self.drop(self.live())
        self._settle()

    def _grow(self, count: int) -> None:
        if count > len(self.rows):
            more = np.zeros(max(count, 2 * len(self.rows)), EXTENT)
            more[: self._count] = self.rows[: self._count]
            self.rows = more
        self._count = count

    def _settle(self) -> None:
        """Merge all into one sorted part; dead rows are removed once they are as many as the living."""
        live = self.live()
        if 2 * len(live) < self._count:
            self.rows, self._count = self.rows[live], len(live)
            self.generation += 1
            live = np.arange(len(live))
        self._parts = [self._part(live), _TablePart(self.rows, np.empty(0, dtype=np.int64))]

    def _part(self, number: Ids) -> _TablePart:
        return _TablePart(self.rows, number[self.rows["alive"][number]])


class _TablePart:
    """A part of the table, sorted by position."""

    def __init__(self, rows: Any, number: Ids) -> None:
        begin = rows["begin"][number]
        turn = np.argsort(begin, kind="stable")
        self.number, self._begin, self.end = number[turn], begin[turn], rows["end"][number][turn]

    def find(self, begin: Ids, end: Ids) -> tuple[Ids, Ids]:
        low = np.searchsorted(self.end, begin, side="right")
        count = np.maximum(np.searchsorted(self._begin, end, side="left") - low, 0)
        which = np.repeat(np.arange(len(begin)), count)
        place = low[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        return which, self.number[place]


def gaps(begin: Ids, end: Ids, which: Ids, piece_begin: Ids, piece_end: Ids) -> tuple[Ids, Ids, Ids]:
    """The gaps that pieces (from `Extents.find`, cut to the intervals) leave: the interval's number, begin and end of each gap.

    gaps(*np.array([[0], [10], [0], [2], [5]])) == ([0, 0], [0, 5], [2, 10])
    """
    number = np.concatenate([which, np.arange(len(begin))])
    low = np.concatenate([piece_begin, end])  # every gap ends at a piece, or at the interval's end
    turn = np.lexsort((np.append(np.zeros(len(which)), np.ones(len(begin))), low, number))
    number, low = number[turn], low[turn]
    after = np.concatenate([piece_end, end])[turn]
    starts = np.concatenate([[-1], number[:-1]]) != number if len(number) else np.empty(0, dtype=bool)
    since = np.where(starts, begin[number], np.roll(after, 1))
    open_ = low > since
    return number[open_], since[open_], low[open_]
