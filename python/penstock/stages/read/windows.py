"""Which blocks of a source are open: each from its first row that is read until its lane's window is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.core.spec import Ids
from penstock.order.batches import BatchOrder
from penstock.runtime.stage import Item, SourceRows

PieceT = TypeVar("PieceT")


@dataclass(frozen=True, eq=False)
class Needed:
    """The blocks that rows lie in, by the sample ids at which they begin and end, and the block of each row.

    new: those that are not open. at: the rows' places in the item, None for all of them.
    """

    first: Ids
    end: Ids
    which: Ids
    new: Ids
    at: Ids | None


@dataclass(frozen=True, eq=False)
class Opened(Generic[PieceT]):
    """Blocks that rows lie in: row i in `pieces[which[i]]`, which begins at `first[which[i]]`."""

    pieces: tuple[PieceT, ...]
    first: Ids
    which: Ids


class OpenWindows(Generic[PieceT]):
    """The open blocks on one rank, of a source or of several that are read as one. Items must come in order, from one thread."""

    def __init__(self, order: BatchOrder, ranks: tuple[int, int], first_id: int) -> None:
        self._order, self._ranks, self._first_id = order, ranks, first_id
        self._epoch = -1
        self._close()

    def _close(self) -> None:
        #: The samples at which open blocks begin, ascending; where each is done: lane and row; and the blocks.
        self._first = np.empty(0, dtype=np.int64)
        self._done = np.empty((2, 0), dtype=np.int64)
        self._pieces = np.empty(0, dtype=object)

    def needed(self, item: Item, rows: SourceRows) -> Needed:
        """The blocks of an item's rows."""
        samples = rows.samples
        if item.epoch != self._epoch:
            self._epoch = item.epoch
            self._close()
        if not len(samples):
            return Needed(samples, samples, samples, samples, None)
        first, end, which = blocks_of(self._order, item.epoch, self._first_id, samples)
        return Needed(first, end, which, np.flatnonzero(~self._is_open(first)), rows.at)

    def _is_open(self, first: Ids) -> npt.NDArray[np.bool_]:
        if not len(self._first):
            return np.zeros(len(first), dtype=bool)
        place = np.searchsorted(self._first, first)
        return np.asarray(self._first[np.minimum(place, len(self._first) - 1)] == first)

    def open(self, item: Item, needed: Needed, make: Callable[[Ids, Ids], Sequence[PieceT]]) -> Opened[PieceT]:
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
        stay = self._order.is_open(item.step + item.steps, *self._ranks, *self._done)
        if not stay.all():
            self._first, self._done, self._pieces = self._first[stay], self._done[:, stay], self._pieces[stay]
        return Opened(opened, needed.first, needed.which)

    def _until(self, item: Item, needed: Needed, last: Ids) -> tuple[Ids, Ids]:
        """When the item's new blocks are done, by their last ids: lane and row."""
        some = np.empty(len(needed.first), dtype=np.int64)
        some[needed.which] = np.arange(len(needed.which))  # a row of each block
        index = some[needed.new] if needed.at is None else needed.at[some[needed.new]]
        lane, row = self._order.place(item.step, item.steps, *self._ranks, index)
        return self._order.rows.until(item.epoch, lane, row, last)


def blocks_of(order: BatchOrder, epoch: int, first_id: int, samples: Ids) -> tuple[Ids, Ids, Ids]:
    """First samples and ends of the blocks that samples of a source lie in, and the block of each."""
    if not first_id:
        return order.rows.blocks(epoch, samples)
    first, end, which = order.rows.blocks(epoch, samples + first_id)
    return first - first_id, end - first_id, which
