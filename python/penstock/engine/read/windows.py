"""Which blocks of a source are open: each from its first row that is read until its lane's window is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from penstock.core.spec import Ids
from penstock.engine.stage import Item, SourceRows
from penstock.order.batches import BatchOrder

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
    """The open blocks of one source on one rank. Items must come in order, from one thread."""

    def __init__(self, order: BatchOrder, ranks: tuple[int, int], first_id: int) -> None:
        self._order, self._ranks, self._first_id = order, ranks, first_id
        #: By the sample at which a block begins: it, and the lane and row at which it is done.
        self._pieces: dict[int, tuple[PieceT, int, int]] = {}
        self._epoch = -1

    def needed(self, item: Item, rows: SourceRows) -> Needed:
        """The blocks of an item's rows."""
        samples = rows.samples
        if item.epoch != self._epoch:
            self._pieces, self._epoch = {}, item.epoch
        if not len(samples):
            return Needed(samples, samples, samples, samples, None)
        first, end, which = blocks_of(self._order, item.epoch, self._first_id, samples)
        new = [number for number, start in enumerate(first.tolist()) if start not in self._pieces]
        return Needed(first, end, which, np.array(new, dtype=np.int64), rows.at)

    def open(self, item: Item, needed: Needed, make: Callable[[Ids, Ids], Sequence[PieceT]]) -> Opened[PieceT]:
        """The item's blocks, of which `make` gives those that begin and end at …; then drops all that are done with it."""
        first, end = needed.first[needed.new], needed.end[needed.new]
        if len(first):
            lane, row = self._until(item, needed, end - 1 + self._first_id)
            self._pieces.update(
                zip(first.tolist(), zip(make(first, end), lane.tolist(), row.tolist(), strict=True), strict=True)
            )
        opened = tuple(self._pieces[start][0] for start in needed.first.tolist())
        done = np.array([(lane, row) for _, lane, row in self._pieces.values()], dtype=np.int64).reshape(-1, 2)
        stay = self._order.is_open(item.step + item.steps, *self._ranks, *done.T).tolist()
        self._pieces = {start: piece for (start, piece), stays in zip(self._pieces.items(), stay, strict=True) if stays}
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
