"""Sources whose rows lie in columns: blocks of neighbouring rows are loaded as tables, and rows are picked out of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from penstock.batch.pick import pick
from penstock.core.cancel import carried
from penstock.core.columns.rows import Rows, pack_rows
from penstock.core.columns.spec import Columns, Ids
from penstock.core.errors import DataError, RowError
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import BlockSource, UnpackedSource
from penstock.source.tables.mapped_shards import check_whole
from penstock.stages.read.reader import Needs, Picks, Reading
from penstock.stages.read.windows import NeededBlocks, OpenWindows

#: Blocks that are loaded at once: libraries decode without the interpreter's lock, and stores answer several requests.
_TOGETHER = 8
#: What of the budget those take that are loaded at once, unless one takes more.
_LOADING_PART = 8
#: Tasks that each of these threads gets, at least, where blocks are many.
_ROUNDS = 4


class BlockLoader:
    """Loads blocks of a source, as many at once as suits the budget. row_bytes: of a row, as far as is known: of what was loaded lately.

    A block that is unpacked lies in memory several times meanwhile, which is set aside.
    """

    def __init__(self, reading: Reading, source: BlockSource) -> None:
        self._source, self.row_bytes, self._threads = source, reading.row_bytes, reading.budget.cpus
        self._together = _TOGETHER
        if isinstance(source, UnpackedSource):
            working_bytes = source.unpacked_copies * reading.row_bytes * reading.block_rows
            fitting = reading.budget.limit_bytes // _LOADING_PART // max(1, working_bytes)
            self._together = max(1, min(_TOGETHER, fitting))
            reading.budget.aside_bytes += self._together * working_bytes + source.library_bytes

    def load(self, first: Ids, end: Ids) -> list[Rows]:
        """The blocks that begin and end at these samples."""
        if not len(first):
            return []
        spans = list(zip(first.tolist(), (end - first).tolist(), strict=True))
        # Of many small blocks, handing each over would take longer than loading it.
        some = max(1, len(spans) // (_TOGETHER * _ROUNDS))
        tasks = [spans[begin : begin + some] for begin in range(0, len(spans), some)]
        loaded = self._some(spans) if len(spans) == 1 else self._at_once(tasks)
        self.row_bytes = -(-sum(block.nbytes for block in loaded) // int((end - first).sum()))
        return loaded

    def _at_once(self, tasks: Sequence[Sequence[tuple[int, int]]]) -> list[Rows]:
        with ThreadPoolExecutor(min(self._together, len(tasks)), thread_name_prefix="penstock-load") as threads:
            return [block for blocks in threads.map(carried(self._some), tasks) for block in blocks]

    def _some(self, spans: Sequence[tuple[int, int]]) -> list[Rows]:
        return [load_block(self._source, first, rows, threads=self._threads) for first, rows in spans]


class BlockReader:
    """See `reader.Reader`. Blocks are loaded while items begin, and stay open while their windows are."""

    in_order = plans = True
    threads = 1
    kind = "gather"

    def __init__(self, reading: Reading, source: BlockSource) -> None:
        self._reading, self._source, self.spec = reading, source, source.spec
        self._windows = OpenWindows[Rows](reading.cursor, reading.first_id)
        self._loader = BlockLoader(reading, source)

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, NeededBlocks]:
        """The blocks that are not open yet."""
        needed = self._windows.needed(item, rows)
        return Needs(int((needed.end - needed.first)[needed.new].sum()) * self._loader.row_bytes), needed

    def open(self, item: Item, rows: SourceRows, plan: NeededBlocks) -> Picks:
        """Loads them."""
        opened = self._windows.open(item, plan, self._load)
        return Picks(opened.pieces, opened.which, rows.samples - opened.first[opened.which])

    def _load(self, first: Ids, end: Ids) -> Sequence[Rows]:
        loaded = self._loader.load(first, end)
        for block in loaded:
            self._reading.budget.keep(block, block.nbytes)
        return loaded

    def read(self, rows: SourceRows, opened: Picks) -> Picks:
        """All is loaded."""
        return opened

    def columns(self, item: Item, rows: SourceRows, held: Picks) -> Columns:
        """Picks the rows out of the blocks."""
        return pick_rows(self._reading, self._source, held)


def pick_rows(reading: Reading, source: BlockSource, held: Picks) -> Columns:
    """The columns of rows of loaded tables; DataError where their file lost bytes meanwhile."""
    columns = pick(held.pieces, held.which, held.row, source.spec, reading.allocate, threads=reading.budget.cpus)
    check_whole(source.manifest.shards)
    return columns


def load_block(source: BlockSource, first: int, rows: int, *, threads: int = 1, may_be_fewer: bool = False) -> Rows:
    """Rows [first, first + rows) of a source; DataError, with their place, for rows that are not as its spec says.

    may_be_fewer: as those of a stream whose next row cannot be drawn.
    """
    with named_rows(source, first):
        columns = source.load(first, rows)
    if may_be_fewer:
        rows = min(rows, *map(len, columns.values())) if not isinstance(columns, Rows) else rows
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
def named_rows(source: BlockSource, first: int) -> Iterator[None]:
    """Turns what is wrong with one of some rows, which begin with sample `first`, into a DataError that says where it lies."""
    try:
        yield
    except RowError as error:
        sample = first + error.row
        place = getattr(source, "place", source.manifest.place)
        raise DataError.of_row(place(sample), source.manifest.own_id(sample), error) from None
