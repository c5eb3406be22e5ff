"""Parquet: the chosen columns of row groups, or of pages of large ones, each decoded once; filters keep rows exactly."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.core.columns.categories import Categories
from penstock.core.columns.repeated_values import written_bytes as bytes_written_out
from penstock.core.columns.rows import Rows, join_rows, pack_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spec, is_list
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.decoded import LARGE_PART, MEMORY_BYTES, DecodedParts
from penstock.derived.file_indexes import part_key
from penstock.format.parquet.bounds import bounds_of
from penstock.format.parquet.files import DAMAGED, ParquetFiles
from penstock.format.parquet.filter import choice, expression, filter_columns
from penstock.format.parquet.layout import Path
from penstock.format.parquet.nulls import total
from penstock.format.parquet.open import TOGETHER, Look, for_each
from penstock.format.parquet.pages import PagedFiles
from penstock.format.parquet.parts import GroupParts, join_parts
from penstock.format.parquet.pruning import pruning_of
from penstock.source.manifest import TableManifest
from penstock.source.protocol import Access, Bounds
from penstock.source.tables.hive import folder_columns
from penstock.source.tables.table import (
    TableColumn,
    arrow_errors,
    choose_columns,
    columns_of,
    dictionary_of,
    with_nulls,
)

#: Changes when what is stored of a decoded part does.
_VERSION = 4
#: Decoded data up to this size is expected to stay in the cache; the order depends on it, and so not on the machine's disk.
CACHE_BYTES = 32 << 30
#: Text that repeats in the first part is looked at as it is up to this size: what blocks are follows from its bytes, which must not change.
_LOOKED_AT_BYTES = 256 << 20
#: How often a part lies in memory while it is decoded: as the file has it, as pyarrow gives it, as columns or rows, and in what allocators keep between them.
_WORKING_COPIES = 4
#: Bytes besides, of a value in a list: two levels of two bytes, which say where lists begin and what is null, in memory that grows by doubling.
_LEVEL_BYTES = 6
#: And of numbers that Parquet has no type for: they are decoded as four bytes, in memory that grows by doubling.
_NARROW, _NARROW_BYTES = ("bool", "int8", "uint8", "int16", "uint16"), 8
#: Of a text that repeats, the number of its value.
_NUMBER_BYTES = 8


@dataclass(frozen=True, eq=False)
class Stored:
    """Parts, the files that hold them, and the columns that are read. choice: what identifies the rows that a filter keeps."""

    files: ParquetFiles
    paged: PagedFiles
    parts: GroupParts
    columns: tuple[TableColumn, ...]
    spec: Spec
    choice: str

    def table(self, part: int, paths: Sequence[Path]) -> pa.Table:
        """These columns of the row group that a part is; of one that is read by pages, its samples alone."""
        shard, group, rows = (int(a[part]) for a in (self.parts.shard, self.parts.group, self.parts.rows))
        by_pages = self.parts.by_pages[part]
        file = None if by_pages else self.files.open(shard)
        with arrow_errors(self.files.place(shard, group), DAMAGED):
            if file is None:
                return self.paged.table(shard, group, paths, self.parts.wanted(part))
            return self.files.table(shard, file, group, paths, rows)

    def decode(self, part: int) -> Rows:
        """The samples of a part; DataError where the file does not hold what the columns say."""
        with self._named(part):
            table = self.samples(part)
            columns = columns_of(table, self.columns, keeps_repeated=True)
            return pack_rows(columns, self.spec, table.num_rows, threads=TOGETHER)

    def part_columns(self, part: int, *, keeps_repeated: bool) -> Columns:
        """The same as columns. keeps_repeated: text that lies there as a dictionary stays one."""
        with self._named(part):
            if not keeps_repeated:
                return columns_of(self.samples(part), self.columns)
            table = replace(self, files=replace(self.files, plain_bytes=0)).samples(part)
            kept = {column.name: dictionary_of(table, column) for column in self.columns}
            others = tuple(column for column in self.columns if kept[column.name] is None)
            return {**kept, **columns_of(table, others)}

    def samples(self, part: int) -> pa.Table:
        """The samples of a part, as the file has them."""
        table = self.table(part, [column.stored for column in self.columns])
        if self.parts.kept is not None and not self.parts.by_pages[part]:
            table = table.take(pa.array(self.parts.kept[part]))
        return table

    @contextmanager
    def _named(self, part: int) -> Iterator[None]:
        """Says where a row lies that is wrong."""
        place = self.files.place(int(self.parts.shard[part]), int(self.parts.group[part]))
        try:
            with arrow_errors(place, DAMAGED):
                yield
        except RowError as error:
            row = int(self.parts.wanted(part)[error.row])
            raise DataError(f"{place}, row {row:,}: {error.found}; {error.do}") from None

    def key(self, part: int) -> str:
        """What names a decoded part in the cache."""
        which = " ".join(str(a[part]) for a in (self.parts.group, self.parts.first, self.parts.rows))
        digest = hashlib.blake2b(f"{which} {self._choice}".encode(), digest_size=16).hexdigest()
        return part_key(f"parquet {digest}", _VERSION, self.files.shards, int(self.parts.shard[part]))

    @cached_property
    def _choice(self) -> str:
        return f"{self.columns} {self.choice}"


@dataclass(frozen=True, eq=False)
class Parquet:
    """Rows of Parquet files; neighbouring rows come out of parts of row groups that were decoded before.

    working_row_bytes: of each column, what decoding a row takes besides its copies.
    """

    manifest: TableManifest
    spec: Spec
    stored: Stored
    first_row: Ids
    decoded: DecodedParts
    decoded_row_bytes: int = 0
    working_row_bytes: Mapping[str, float] = field(default_factory=dict)
    access: Access = Access.PARTS
    null_counts: Mapping[str, int | None] = field(default_factory=dict)
    reads_columns_alone: ClassVar[bool] = True

    @property
    def block_rows(self) -> int | None:
        """About 1 MiB of rows; a part where the data is larger than the cache, so that each is decoded once an epoch."""
        if self.manifest.held_bytes <= CACHE_BYTES:
            return None
        return int(np.median(np.diff(self.first_row)))

    @property
    def decoded_bytes(self) -> int:
        """Bytes of all rows in batches, as the first part has them."""
        return self.decoded_row_bytes * self.manifest.samples

    def keep_within(self, memory_bytes: int) -> int:
        """See `source.protocol.KeepingSource`."""
        return self.decoded.keep_within(memory_bytes, self._working_bytes)

    def needed_within(self, memory_bytes: int) -> int:
        """See `source.protocol.KeepingSource`."""
        return self.decoded.needed_within(memory_bytes, self._working_bytes)

    @property
    def _working_bytes(self) -> int:
        numbers_bytes = _NUMBER_BYTES * sum(not field.required.is_fixed for field in self.spec.values())
        row_bytes = max(self.manifest.held_bytes // max(1, self.manifest.samples), numbers_bytes)
        besides_bytes = sum(self.working_row_bytes.get(name, 0.0) for name in self.spec)
        return math.ceil(int(self.stored.parts.rows.max(initial=0)) * (_WORKING_COPIES * row_bytes + besides_bytes))

    def load(self, first: int, rows: int) -> Rows:
        """Rows [first, first + rows)."""
        begin = int(np.searchsorted(self.first_row, first, side="right")) - 1
        pieces = []
        for part in range(begin, int(np.searchsorted(self.first_row, first + rows))):
            low, high = self.first_row[part : part + 2].tolist()
            start = max(first, low)
            if min(first + rows, high) > start:
                pieces.append(self.decoded.slice(part, start - low, min(first + rows, high) - start))
        return join_rows(pieces)

    @property
    def stays_in_memory(self) -> bool:
        """Whether all parts stay in memory; how large they are is known beforehand where all columns are of fixed shape."""
        return self.decoded.stays_in_memory and all(field.required.is_fixed for field in self.spec.values())

    def has_part(self, number: int) -> bool:
        """Whether a part was decoded before."""
        return self.decoded.has(number)

    def part(self, number: int) -> tuple[Rows, bool]:
        """A decoded part, and whether it stays where it is."""
        return self.decoded.part(number)

    def part_columns(self, number: int, *, keeps_repeated: bool = False) -> Columns:
        """See `source.protocol.ScannedSource`."""
        return self.stored.part_columns(number, keeps_repeated=keeps_repeated)

    def place(self, sample: int) -> str:
        """Where a row lies, for messages."""
        part = int(np.searchsorted(self.first_row, sample, side="right")) - 1
        parts, files = self.stored.parts, self.stored.files
        row = int(parts.wanted(part)[sample - int(self.first_row[part])])
        return f"{files.place(int(parts.shard[part]), int(parts.group[part]))}, row {row:,}"

    def bounds(self, names: Sequence[str]) -> list[Bounds]:
        """What footers and page indexes say of these columns."""
        return bounds_of(self.stored, self.first_row.tolist(), names)

    def categories(self, name: str) -> Iterator[Categories]:
        """See `source.protocol.CategorySource`: those of every row group, whatever a filter keeps."""
        (path,) = (column.stored for column in self.stored.columns if column.name == name)
        return self.stored.files.categories(path)

    def only(self, names: Sequence[str]) -> Parquet:
        """The same rows with these columns alone, in the order and the blocks that all of them would have."""
        rows, dropped = self.manifest.samples, [field for name, field in self.spec.items() if name not in names]
        held_bytes = self.manifest.held_bytes - rows * sum(field.required.row_bytes for field in dropped)
        if all(self.spec[name].required.is_fixed for name in names):
            held_bytes = rows * sum(self.spec[name].required.row_bytes for name in names)
        largest = held_bytes // max(1, rows) * int(self.stored.parts.rows.max(initial=0))
        return self._only(names, held_bytes, largest)

    def once(self, names: Sequence[str]) -> Parquet:
        """The same rows with these columns alone, of which nothing is written to the cache."""
        return self._only(names, min(self.manifest.held_bytes, MEMORY_BYTES), LARGE_PART)

    def _only(self, names: Sequence[str], held_bytes: int, largest: int) -> Parquet:
        known = {column.name: column for column in self.stored.columns}
        columns, spec = tuple(known[name] for name in names), {name: self.spec[name] for name in names}
        stored = replace(self.stored, columns=columns, spec=spec)
        decoded = DecodedParts(stored.decode, stored.key, len(self.first_row) - 1, held_bytes, largest)
        return replace(self, spec=spec, stored=stored, decoded=decoded)


def open_parquet(shards: Shards, read: ByteRanges, options: Options) -> Parquet:
    """Opens Parquet files of the same columns; reads their footers, and the filter's columns."""
    files = ParquetFiles(shards, read, options.limits, options.verify)
    first = files.open(0)
    files = replace(files, folders=folder_columns(shards, first.schema_arrow))
    schema = files.schema(first)
    keep = expression(options.own.get("filters"), schema)
    columns = choose_columns(schema, options, shards.path(0))
    if not columns:
        raise PlanError(f"{shards.path(0)}: no columns to read; leave columns= away to read all of them")
    fixed_bytes = sum(column.field.required.row_bytes for column in columns)
    filtered: list[Path] = [] if keep is None else [(name,) for name in filter_columns(keep, schema)]
    pruning = pruning_of(options.own.get("filters"), schema, files.folders.schema)
    paged = PagedFiles(files, schema, [*(column.stored for column in columns), *filtered])
    look = Look(files, paged, columns, schema, fixed_bytes, keep, filtered, pruning)
    looked = for_each(range(len(shards)), look, options.progress)
    parts = join_parts([part for parts, *_ in looked for part in parts], filtered=keep is not None)
    kept_rows = "" if keep is None else choice(keep, [rows for _, kept, _ in looked for rows in kept])
    nulls = {column.path: total(found.get(column.path) for *_, found in looked) for column in columns}
    columns = with_nulls(columns, lambda column: nulls[column.path])
    spec = {column.name: column.field for column in columns}
    stored, counts = Stored(files, paged, parts, columns, spec, kept_rows), parts.counts
    first_row = np.append(0, np.cumsum(counts)).astype(np.int64)
    per_shard = np.bincount(parts.shard, weights=counts, minlength=len(shards)).astype(np.int64)
    varying_bytes, written_bytes, values = _varying_bytes(stored, schema)
    held_bytes = int((fixed_bytes + varying_bytes) * int(first_row[-1]))
    manifest = TableManifest(
        "parquet", shards, np.append(0, np.cumsum(per_shard)), held_bytes=held_bytes, choice=kept_rows
    )
    largest = held_bytes // max(1, manifest.samples) * int(parts.rows.max(initial=0))
    decoded = DecodedParts(stored.decode, stored.key, len(parts), held_bytes, largest)
    exact = (
        {} if keep is not None else {column.name: nulls[column.path] for column in columns if not column.field.shape}
    )
    working = {column.name: _level_bytes(column.field, values.get(column.stored[0], 0.0)) for column in columns}
    written_bytes = math.ceil(fixed_bytes + written_bytes)
    return Parquet(manifest, spec, stored, first_row, decoded, written_bytes, working, null_counts=exact)


def _level_bytes(field: Field, values: float) -> float:
    """Bytes that decoding a row of a column takes besides its copies. values: in lists of a row, where they are of any length."""
    if field.shape and field.required.is_fixed:
        values = field.required.row_bytes / field.numpy_dtype.itemsize
    return values * (_LEVEL_BYTES + (_NARROW_BYTES if field.dtype in _NARROW else 0))


def _varying_bytes(stored: Stored, schema: pa.Schema) -> tuple[float, float, dict[str, float]]:
    """Bytes of a row in columns of no fixed size, as the first part has them: as blocks hold it, and with every value written out; and values in lists, by column.

    The footer says how large columns are as well, but what it says need not be true.
    """
    varying = [column.stored for column in stored.columns if not column.field.required.is_fixed]
    if not varying or not len(stored.parts):
        return 0.0, 0.0, {}
    table = replace(stored, files=replace(stored.files, plain_bytes=_LOOKED_AT_BYTES)).table(0, varying)
    is_stored = {field.name for field in schema if pa.types.is_dictionary(field.type)}
    written = {name: _bytes_of_plain(table[name]) for name in table.column_names}
    held = [table[name].nbytes if name in is_stored else size for name, size in written.items()]
    values = {name: _values_in_lists(table[name]) / table.num_rows for name in table.column_names}
    return sum(held) / table.num_rows, sum(written.values()) / table.num_rows, values


def _values_in_lists(column: pa.ChunkedArray | pa.Array) -> int:
    """How many values a column's lists hold, of whatever depth; none where there are no lists."""
    if isinstance(column, pa.ChunkedArray):
        return sum(map(_values_in_lists, column.chunks))
    if pa.types.is_struct(column.type):
        return sum(_values_in_lists(column.field(number)) for number in range(column.type.num_fields))
    if not is_list(column.type):
        return 0
    inside = column.flatten()
    return _values_in_lists(inside) or len(inside)


def _bytes_of_plain(column: pa.ChunkedArray) -> int:
    """Bytes of a column; of one that is text in the file and was read as a dictionary, those that it has as text: the size of blocks follows from them."""
    if not pa.types.is_dictionary(column.type) or not len(column):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        numbers = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
        total += bytes_written_out(numbers, chunk.dictionary) + 4 * len(chunk)
        total += -(-len(chunk) // 8) if chunk.null_count else 0
    return total
