"""LitData chunks of plain rows: the items lie in an Arrow file at the chunk's end, in record batches of 256 rows.

Format: litdata, streaming/item_loader.py, `append_arrow_row_footer`: the Arrow file, its length as a u32, and a magic number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.rows import join_columns
from penstock.core.columns.spec import Columns, Spec
from penstock.core.errors import DataError, PenstockError
from penstock.core.files.byte_ranges import ByteRanges, read_range
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.source.manifest import TableManifest
from penstock.source.protocol import Access
from penstock.source.tables.ranged_file import RangedFile
from penstock.source.tables.table import TableColumn, choose_columns, columns_of

#: Ends a chunk of rows, behind the length of the Arrow file.
MAGIC = b"LDARW01\0"
_END_BYTES = 12
#: Rows of a record batch, but for a chunk's last.
BATCH_ROWS = 256


@dataclass(frozen=True, eq=False)
class RowsSource:
    """Columns of chunks of rows, loaded by record batches: a block may lie in two of them, which are held meanwhile (see `source.protocol.UnpackedSource`)."""

    manifest: TableManifest
    spec: Spec
    columns: tuple[TableColumn, ...]
    read: ByteRanges = field(repr=False)
    block_rows: int | None = BATCH_ROWS
    access: Access = Access.BLOCKS
    unpacked_copies: int = 2
    library_bytes: int = 0

    def load(self, first: int, rows: int) -> Columns:
        """Rows [first, first + rows); DataError naming the chunk that is damaged."""
        manifest, parts = self.manifest, []
        for shard, begin, count in manifest.parts(first, rows):
            with _named(manifest.shards.path(shard)):
                held = int(np.diff(manifest.first_sample[shard : shard + 2])[0])
                parts.append(columns_of(self._rows(shard, begin, begin + count, held), self.columns))
        return join_columns(parts)

    def _rows(self, shard: int, first: int, end: int, rows: int) -> pa.Table:
        """Rows [first, end) of a chunk of so many rows."""
        where = self.manifest.shards.path(shard)
        with _reader(self.manifest.shards, shard, self.read) as reader:
            batches = range(first // BATCH_ROWS, -(-end // BATCH_ROWS))
            found = [_batch(reader, number, rows, where) for number in batches]
        table = pa.Table.from_batches(found)
        begin = first - batches[0] * BATCH_ROWS
        return table.slice(begin, end - first).combine_chunks(memory_pool=_pool())


@contextmanager
def _named(where: str) -> Iterator[None]:
    """An error for column names that are not UTF-8, with their chunk."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: a column's name is not UTF-8 ({error}); the chunk is damaged: write it again"
        ) from None


def _batch(reader: pa.RecordBatchFileReader, number: int, rows: int, where: str) -> pa.RecordBatch:
    wanted = min(BATCH_ROWS, rows - number * BATCH_ROWS)
    try:
        batch = reader.get_batch(number)
        batch.validate(full=True)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DataError(
            f"{where}, record batch {number}: {error}; the chunk is damaged: copy or write it again"
        ) from None
    if batch.num_rows != wanted:
        raise DataError(
            f"{where}, record batch {number}: {batch.num_rows} rows where {wanted} belong; the chunk is damaged: write it again"
        )
    return batch


def is_rows(shards: Shards, shard: int, read: ByteRanges) -> bool:
    """Whether a chunk ends as one of rows does."""
    return int(shards.sizes[shard]) >= _END_BYTES and _last_bytes(shards, shard, read, len(MAGIC)) == MAGIC


def open_rows(
    shards: Shards, records: np.ndarray, read: ByteRanges, options: Options, where: str, *, is_packed: bool
) -> RowsSource:
    """Opens chunks of rows of so many records each, whose record batches may be compressed; PlanError for columns that cannot be, DataError for damaged chunks."""
    with _reader(shards, 0, read) as reader, _named(shards.path(0)):
        columns = choose_columns(reader.schema, options, where)
        unpacked_bytes = _row_bytes(reader, columns) * int(records.sum()) if is_packed else 0
    held_bytes = max(int(shards.sizes.sum()), unpacked_bytes)
    manifest = TableManifest("litdata", shards, edges_of(records), held_bytes=held_bytes)
    return RowsSource(manifest, {column.name: column.field for column in columns}, columns, read)


def _pool() -> pa.MemoryPool:
    """C's allocator: Arrow's own keeps for later what blocks of short-lived threads leave, as much again as is held."""
    return pa.system_memory_pool()


def _row_bytes(reader: pa.RecordBatchFileReader, columns: tuple[TableColumn, ...]) -> int:
    """Bytes of a row in memory, as the first record batch has them; 0 for one that is damaged: whoever reads it hears of it."""
    try:
        batch = reader.get_batch(0)
        batch.validate(full=True)
        found: list[Any] = [*columns_of(batch, columns).values()]
    except (pa.ArrowException, ValueError, OSError, IndexError, PenstockError):
        return 0
    size_bytes = sum(int(column.nbytes) for column in found)
    return -(-size_bytes // max(1, int(batch.num_rows)))


def _reader(shards: Shards, shard: int, read: ByteRanges) -> pa.RecordBatchFileReader:
    """Reads the Arrow file of a chunk."""
    where, size = shards.path(shard), int(shards.sizes[shard])
    end = _last_bytes(shards, shard, read, _END_BYTES) if size >= _END_BYTES else b""
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or length > size - _END_BYTES:
        raise DataError(f"{where}: no Arrow file of rows at its end; the chunk is damaged: copy or write it again")
    part = (size - _END_BYTES - length, length)
    file = pa.PythonFile(RangedFile(shards, shard, read, part, ahead_bytes=0), mode="r")
    try:
        return pa.ipc.open_file(file, memory_pool=_pool())
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DataError(f"{where}: {error}; the chunk is damaged: copy or write it again") from None


def _last_bytes(shards: Shards, shard: int, read: ByteRanges, count: int) -> bytes:
    return read_range(read, shards, shard, int(shards.sizes[shard]) - count, count).tobytes()
