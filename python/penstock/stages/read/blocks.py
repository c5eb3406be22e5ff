"""Sources whose rows lie in columns: blocks of neighbouring rows are loaded as tables, and rows are picked out of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from penstock.batch.pick import pick
from penstock.core.cancel import carried
from penstock.core.errors import DataError, RowError
from penstock.core.rows import Rows, pack_rows
from penstock.core.spec import Columns, Ids
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import BlockSource
from penstock.source.tables.mapped_shards import check_whole
from penstock.stages.read.reader import Needs, Reading
from penstock.stages.read.windows import Needed, OpenWindows

#: Blocks that are loaded at once: libraries decode without the interpreter's lock, and stores answer several requests.
_TOGETHER = 8
#: So many tasks at least are made of many blocks for each of these threads.
_ROUNDS = 4


class Blocks:
    """See `reader.Reader`. Blocks are loaded while items begin, and stay open while their windows are."""

    in_order = plans = True
    threads = 1
    kind = "gather"

    def __init__(self, reading: Reading, source: BlockSource) -> None:
        self._reading, self._source, self.spec = reading, source, source.spec
        ranks = reading.where.rank, reading.where.world_size
        self._windows = OpenWindows[Rows](reading.order, ranks, reading.first_id)
        self._row_bytes = reading.row_bytes  # of what was loaded lately, once that is known

    def plan(self, item: Item, rows: SourceRows) -> Needs:
        """The blocks that are not open yet."""
        needed = self._windows.needed(item, rows)
        rows.held = item, needed
        return Needs(int((needed.end - needed.first)[needed.new].sum()) * self._row_bytes)

    def open(self, rows: SourceRows) -> None:
        """Loads them."""
        needed: Needed
        item, needed = rows.held
        opened = self._windows.open(item, needed, self._open)
        rows.held = opened.pieces, opened.which, rows.samples - opened.first[opened.which]

    def _open(self, first: Ids, end: Ids) -> Sequence[Rows]:
        loaded = self.load(first, end)
        sizes = [piece.nbytes for piece in loaded]
        for piece, size_bytes in zip(loaded, sizes, strict=True):
            self._reading.budget.keep(piece, size_bytes)
        self._row_bytes = -(-sum(sizes) // int((end - first).sum()))
        return loaded

    def load(self, first: Ids, end: Ids) -> list[Rows]:
        """The blocks that begin and end at these samples, several at once."""
        spans = list(zip(first.tolist(), (end - first).tolist(), strict=True))
        if len(spans) < 2:
            return [self.load_one(*span) for span in spans]
        some = max(
            1, len(spans) // (_TOGETHER * _ROUNDS)
        )  # of many small blocks, handing each over would take longer than loading it
        tasks = [spans[first : first + some] for first in range(0, len(spans), some)]
        with ThreadPoolExecutor(min(_TOGETHER, len(tasks)), thread_name_prefix="penstock-load") as threads:
            loaded = threads.map(carried(self._load_some), tasks)
            return [block for blocks in loaded for block in blocks]

    def _load_some(self, spans: Sequence[tuple[int, int]]) -> list[Rows]:
        return [self.load_one(*span) for span in spans]

    def load_one(self, first: int, rows: int) -> Rows:
        """A block."""
        return load_block(self._source, first, rows, threads=self._reading.budget.cpus)

    def read(self, rows: SourceRows) -> None:
        """All is loaded."""

    def columns(self, item: Item, rows: SourceRows) -> Columns:
        """Picks the rows out of the blocks."""
        return pick_rows(self._reading, self._source, rows)


def pick_rows(reading: Reading, source: BlockSource, rows: SourceRows) -> Columns:
    """The columns of rows that `rows.held` says where to find: tables, which of them, and in which row."""
    pieces: tuple[Rows, ...]
    pieces, which, row = rows.held
    columns = pick(pieces, which, row, source.spec, reading.allocate, threads=reading.budget.cpus)
    check_whole(source.manifest.shards)
    return columns


def load_block(source: BlockSource, first: int, rows: int, *, threads: int = 1, may_be_fewer: bool = False) -> Rows:
    """Rows [first, first + rows) of a source; DataError, with their place, for rows that are not as its spec says.

    may_be_fewer: as those of a stream whose next row cannot be drawn.
    """
    with _named(source, first):
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
def _named(source: BlockSource, first: int) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        sample = first + error.row
        place = getattr(source, "place", source.manifest.place)
        raise DataError.of_row(place(sample), source.manifest.own_id(sample), error) from None
