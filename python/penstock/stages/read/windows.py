"""Which blocks of a source are open: each from its first row that is read until its lane's window is done.

Inside a lane, rows are mixed among the few blocks of a window. So each block is loaded once, when its first row is needed, and stays in memory until the
window ends, since any later row of the window may lie in it:

    rows of a lane     a3 b1 a1 b2 b3 a2 | d1 c2 c1 d3 c3 d2 | …
    an item            └────┘
    block a            ├── open ────────┤
    block b               ├── open ─────┤
    block c                                 ├── open ────────┤

Which blocks an item needs, and which are done with it, follows from the order alone: what other ranks or threads do changes nothing. Every second lane
starts halfway through its window, so that only half of them need new blocks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder
from penstock.order.steps.cursor import Cursor
from penstock.runtime.stage import Item, SourceRows

PieceT = TypeVar("PieceT")


@dataclass(frozen=True, eq=False)
class NeededBlocks:
    """The blocks that rows lie in, by the sample ids at which they begin and end, and the block of each row.

    new: those that are not open. at: the rows' places in the item, None for all of them.
    """

    first: Ids
    end: Ids
    which: Ids
    new: Ids
    at: Ids | None


@dataclass(frozen=True, eq=False)
class OpenedBlocks(Generic[PieceT]):
    """Blocks that rows lie in: row i in `pieces[which[i]]`, which begins at `first[which[i]]`."""

    pieces: tuple[PieceT, ...]
    first: Ids
    which: Ids


class OpenWindows(Generic[PieceT]):
    """The open blocks on one rank, of a source or of several that are read as one. Items must come in order, from one thread."""

    def __init__(self, cursor: Cursor, first_id: int) -> None:
        self._cursor, self._order, self._first_id = cursor, cursor.order.rows, first_id
        self._epoch = -1
        self._close()

    def _close(self) -> None:
        #: Three columns of one table, sorted by the samples at which open blocks begin: these, where each block is done (lane and row), and the blocks.
        self._first = np.empty(0, dtype=np.int64)
        self._done = np.empty((2, 0), dtype=np.int64)
        self._pieces = np.empty(0, dtype=object)

    def needed(self, item: Item, rows: SourceRows) -> NeededBlocks:
        """The blocks of an item's rows."""
        samples = rows.samples
        if item.epoch != self._epoch:
            self._epoch = item.epoch
            self._close()
        if not len(samples):
            return NeededBlocks(samples, samples, samples, samples, None)
        first, end, which = blocks_of(self._order, item.epoch, self._first_id, samples)
        return NeededBlocks(first, end, which, np.flatnonzero(~self._is_open(first)), rows.at)

    def _is_open(self, first: Ids) -> npt.NDArray[np.bool_]:
        if not len(self._first):
            return np.zeros(len(first), dtype=bool)
        place = np.searchsorted(self._first, first)
        return np.asarray(self._first[np.minimum(place, len(self._first) - 1)] == first)

    def open(
        self, item: Item, needed: NeededBlocks, make: Callable[[Ids, Ids], Sequence[PieceT]]
    ) -> OpenedBlocks[PieceT]:
        """The item's blocks, of which `make` gives those that begin and end at …; then drops all that are done with it."""
        first, end = needed.first[needed.new], needed.end[needed.new]
        if len(first):
            done = np.stack(self._until(item, needed, end - 1 + self._first_id))
            made = np.fromiter(make(first, end), dtype=object, count=len(first))
            turn = np.argsort(first)
            place = np.searchsorted(self._first, first[turn])
            self._first = np.insert(self._first, place, first[turn])
            self._done = np.insert(self._done, place, done[:, turn], axis=1)
            self._pieces = np.insert(self._pieces, place, made[turn])
        opened = tuple(self._pieces[np.searchsorted(self._first, needed.first)])
        # Only now: a block whose last rows are this item's is done with it, and this item still holds it.
        stay = self._cursor.is_open_after(item.work, *self._done)
        if not stay.all():
            self._first, self._done, self._pieces = self._first[stay], self._done[:, stay], self._pieces[stay]
        return OpenedBlocks(opened, needed.first, needed.which)

    def _until(self, item: Item, needed: NeededBlocks, last: Ids) -> tuple[Ids, Ids]:
        """When the item's new blocks are done, by their last ids: lane and row."""
        some = np.empty(len(needed.first), dtype=np.int64)
        # A row of each block: of several the one that is written last.
        some[needed.which] = np.arange(len(needed.which))
        index = some[needed.new] if needed.at is None else needed.at[some[needed.new]]
        lane, row = self._cursor.place(item.work, index)
        return self._order.until(item.epoch, lane, row, last)


def blocks_of(order: RowOrder, epoch: int, first_id: int, samples: Ids) -> tuple[Ids, Ids, Ids]:
    """First samples and ends of the blocks that samples of a source lie in, and the block of each."""
    if not first_id:
        return order.blocks(epoch, samples)
    first, end, which = order.blocks(epoch, samples + first_id)
    return first - first_id, end - first_id, which
