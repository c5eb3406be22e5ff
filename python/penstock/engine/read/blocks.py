"""The reading stages of sources whose rows lie in columns: blocks are loaded as tables, rows are picked out of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from penstock.batch.pick import pick
from penstock.core.cancel import carried
from penstock.core.errors import DataError, RowError
from penstock.core.rows import Rows, pack_rows
from penstock.core.spec import Field, Ids
from penstock.engine.budget import Budget, ItemBytes
from penstock.engine.read.records import Cursor, OpenBlocks
from penstock.engine.slots import Slots
from penstock.engine.stage import Item, Picked
from penstock.order.cursor import Work
from penstock.source.protocol import BlockSource, PartSource, is_forward_only

#: Blocks that are loaded at once: libraries decode without the interpreter's lock, and stores answer several requests.
_TOGETHER = 8


class LoadBlocks:
    """Loads whole blocks, as there is room for them, and keeps each while its window is open. Work must come in order, from one thread."""

    def __init__(
        self,
        cursor: Cursor,
        source: BlockSource,
        blocks: OpenBlocks,
        threads: int,
        budget: Budget,
        item_bytes: ItemBytes,
    ) -> None:
        self._cursor, self._source, self._blocks, self._threads = cursor, source, blocks, threads
        self._budget, self._item_bytes = budget, item_bytes
        self._row_bytes = item_bytes(1, None)  # of what was loaded lately, once that is known
        self._pieces: dict[int, Rows] = {}
        self._epoch = -1

    def __call__(self, work: Work) -> Item:
        """An item with `picked`."""
        with self._budget.turn(work):
            item = self._cursor(work)
            if item.epoch != self._epoch:
                self._pieces, self._epoch = {}, item.epoch
            needed, row_block = self._blocks.needed(item)
            new = np.array([start for start in needed.tolist() if start not in self._pieces], dtype=np.int64)
            self._admit(work, item, new, self._blocks.ends(item, new))
            pieces = tuple(self._pieces[start] for start in needed.tolist())
            item.picked = Picked(pieces, row_block, item.samples - needed[row_block])
            self._pieces = {start: self._pieces[start] for start in self._blocks.kept(item, self._pieces)}
        return item

    def _admit(self, work: Work, item: Item, first: Ids, end: Ids) -> None:
        """Has the item admitted, and loads its new blocks."""
        rows = int((end - first).sum())
        block_bytes, asked_bytes = rows * self._row_bytes, self._item_bytes(item.rows, None)
        item.share = self._budget.admit(work, block_bytes=block_bytes, asked_bytes=asked_bytes)
        self._load(first, end)
        sizes = [(self._pieces[start], self._pieces[start].nbytes) for start in first.tolist()]
        for piece, size_bytes in sizes:
            self._budget.keep(piece, size_bytes)
        if rows:
            self._row_bytes = -(-sum(size_bytes for _, size_bytes in sizes) // rows)
        self._budget.trim()

    def _load(self, first: Ids, end: Ids) -> None:
        spans = list(zip(first.tolist(), (end - first).tolist(), strict=True))
        if len(spans) < 2 or is_forward_only(self._source):
            tables = [self._load_one(*span) for span in spans]
        else:
            with ThreadPoolExecutor(min(_TOGETHER, len(spans)), thread_name_prefix="penstock-load") as threads:
                tables = list(threads.map(carried(self._load_one), *zip(*spans, strict=True)))
        for (start, _), table in zip(spans, tables, strict=True):
            self._pieces[start] = table

    def _load_one(self, first: int, rows: int) -> Rows:
        return load_block(self._source, first, rows, threads=self._threads)


class FindRows:
    """Finds the rows of an item one by one, in the parts that the source keeps."""

    def __init__(self, source: PartSource) -> None:
        self._source = source

    def __call__(self, item: Item) -> Item:
        """Fills `item.picked`."""
        item.picked = Picked(*self._source.pick(item.samples))
        return item


class PickRows:
    """Picks an item's rows out of the blocks that were loaded for it."""

    def __init__(self, source: BlockSource, slots: Slots, threads: int) -> None:
        self._source, self._slots, self._threads = source, slots, threads

    def __call__(self, item: Item) -> Item:
        """Fills `item.columns`, and lets go of the blocks."""
        assert item.picked is not None
        pieces, which, row = item.picked.pieces, item.picked.which, item.picked.row
        item.columns = pick(pieces, which, row, self._source.spec, self._allocate, threads=self._threads)
        item.spec = dict(self._source.spec)
        item.picked = None
        return item

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)


def load_block(source: BlockSource, first: int, rows: int, *, threads: int = 1) -> Rows:
    """Rows [first, first + rows) of a source; DataError, with their place, for rows that are not as its spec says."""
    with _named(source, first):
        columns = source.load(first, rows)
    if isinstance(columns, Rows):
        if len(columns) != rows:
            raise DataError(f"{source.manifest.place(first)}: {len(columns)} rows came where {rows} belong")
        return columns
    for name, field in source.spec.items():
        column: Any = columns[name]
        if len(column) != rows or (field.is_fixed and column.dtype != field.numpy_dtype):
            kind = getattr(column, "dtype", None) or column.type
            raise DataError(
                f"{source.manifest.place(first)}: column {name!r} came as {len(column)} rows of {kind} where {rows} of {field} "
                f"belong; the source and its spec disagree"
            )
    return pack_rows(columns, source.spec, rows, threads=threads)


@contextmanager
def _named(source: BlockSource, first: int) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        what = f"{source.manifest.place(first + error.row)}: {error.found}"
        raise DataError(f"{what}; {error.do}" if error.do else what) from None
