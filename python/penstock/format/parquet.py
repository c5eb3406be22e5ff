"""Parquet: the chosen columns of row groups, each decoded once; filters keep rows exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import DataError, PlanError, RowError
from penstock.format.decoded import DecodedParts
from penstock.format.hive import Folders, folder_columns
from penstock.format.index_cache import entry_key
from penstock.format.manifest import TableManifest
from penstock.format.parquet_filter import choice, expression, filter_columns, kept_rows
from penstock.format.parquet_footer import read_row_groups
from penstock.format.parquet_pruning import Pruning, pruning_of
from penstock.format.protocol import Format, Options, ReadRanges
from penstock.format.ranged_file import open_shard
from penstock.format.table import (
    TableColumn,
    arrow_errors,
    check_same_columns,
    check_unpacked,
    choose_columns,
    columns_of,
    named_leaves,
)
from penstock.limits import Limits
from penstock.rows import Rows, join_rows, pack_rows
from penstock.shards import Shards
from penstock.spec import Ids, Spec

_T = TypeVar("_T")

#: Files whose footers are read at once.
_TOGETHER = 8
#: Changes when what is kept of a decoded row group does.
_VERSION = 1
#: Decoded data up to this size is expected to stay in the cache; the order depends on it, and so not on the machine's disk.
CACHE_BYTES = 32 << 30
_NO_PARQUET = "it is damaged, encrypted, or no Parquet file"
_DAMAGED = "the file is damaged, write it again"


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The row groups that hold rows: shard, number in its file, rows in the file, and which of them are kept.

    kept: int32, the numbers of the rows that a filter leaves; None where there is no filter.
    """

    shard: Ids
    number: Ids
    rows: Ids
    kept: Sequence[npt.NDArray[np.int32]] | None = None


@dataclass(frozen=True, eq=False)
class Files:
    """Parquet files, and how they are read."""

    shards: Shards
    read: ReadRanges
    limits: Limits
    verify: bool
    folders: Folders = field(default_factory=Folders)

    def schema(self, file: pq.ParquetFile) -> pa.Schema:
        """The columns of a file, and those that its folders give."""
        return pa.schema([*file.schema_arrow, *self.folders.schema])

    def table(self, shard: int, file: pq.ParquetFile, group: int, names: Sequence[str]) -> pa.Table:
        """These columns of a row group."""
        given = self.folders.select(names)
        table = file.read_row_group(group, columns=[name for name in names if name not in given.values])
        table.validate(full=True)
        return given.add_to(table, shard)

    def bytes_of(self, shard: int) -> pa.NativeFile:
        """A file as bytes; DataError if there are none."""
        if self.shards.sizes[shard] == 0:
            raise DataError(f"{self.shards.path(shard)}: the file is empty; remove it or write it again")
        return open_shard(self.shards, shard, self.read)

    def open(self, shard: int, opened: pa.NativeFile | None = None) -> pq.ParquetFile:
        """A file's reader; DataError if it is none."""
        opened = opened or self.bytes_of(shard)
        with arrow_errors(self.shards.path(shard), _NO_PARQUET):
            file = pq.ParquetFile(opened, pre_buffer=True, page_checksum_verification=self.verify)
            dict(named_leaves(file.schema_arrow))  # names that are no text are told here
            return file


@dataclass(frozen=True, eq=False)
class Parquet:
    """Rows of Parquet files; neighbouring rows come out of row groups that were decoded before."""

    manifest: TableManifest
    spec: Spec
    columns: tuple[TableColumn, ...]
    files: Files
    groups: RowGroups
    first_row: Ids
    schema: pa.Schema
    parts: DecodedParts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "parts", DecodedParts(self._decode, self._key, len(self.groups.rows), self.manifest.held_bytes)
        )

    @property
    def block_rows(self) -> int | None:
        """About 1 MiB of rows; a row group where the data is larger than the cache, so that each is decoded once an epoch."""
        if self.manifest.held_bytes <= CACHE_BYTES:
            return None
        return int(np.median(np.diff(self.first_row)))

    def load(self, first: int, rows: int) -> Rows:
        """Rows [first, first + rows)."""
        begin = int(np.searchsorted(self.first_row, first, side="right")) - 1
        parts = []
        for group in range(begin, int(np.searchsorted(self.first_row, first + rows))):
            low, high = self.first_row[group : group + 2].tolist()
            start = max(first, low)
            if min(first + rows, high) > start:
                parts.append(self.parts.slice(group, start - low, min(first + rows, high) - start))
        return join_rows(parts)

    def pick(self, samples: Ids) -> tuple[tuple[Rows, ...], Ids, Ids]:
        """Rows in any order, out of the row groups that were decoded before."""
        return self.parts.pick(self.first_row, samples)

    def _decode(self, group: int) -> Rows:
        shard, number, rows = (int(a[group]) for a in (self.groups.shard, self.groups.number, self.groups.rows))
        place = f"{self.files.shards.path(shard)}, row group {number}"
        file = self.files.open(shard)
        with arrow_errors(place, _DAMAGED):
            table = self.files.table(shard, file, number, [column.feature for column in self.columns])
        if table.num_rows != rows:
            raise DataError(f"{place}: {table.num_rows:,} rows, and the file's footer says {rows:,}; {_DAMAGED}")
        if self.groups.kept is not None:
            table = table.take(pa.array(self.groups.kept[group]))
        try:
            with arrow_errors(place, _DAMAGED):
                return pack_rows(columns_of(table, self.columns), self.spec, table.num_rows, threads=_TOGETHER)
        except RowError as error:
            row = error.row if self.groups.kept is None else int(self.groups.kept[group][error.row])
            raise DataError(f"{place}, row {row:,}: {error.found}; {error.do}") from None

    def _key(self, group: int) -> str:
        shards, shard = self.files.shards, int(self.groups.shard[group])
        wanted = f"{self.groups.number[group]} {self.columns} {self.manifest.choice}"
        digest = hashlib.blake2b(wanted.encode(), digest_size=16).hexdigest()
        return entry_key(
            f"parquet {digest}", _VERSION, shards.path(shard), int(shards.sizes[shard]), int(shards.versions[shard])
        )


def open_parquet(shards: Shards, read: ReadRanges, options: Options) -> Parquet:
    """Opens Parquet files of the same columns; reads their footers, and the filter's columns."""
    files = Files(shards, read, options.limits, options.verify)
    first = files.open(0)
    files = replace(files, folders=folder_columns(shards, first.schema_arrow))
    schema = files.schema(first)
    keep = expression(options.own.get("filters"), schema)
    columns = choose_columns(schema, options, shards.path(0))
    if not columns:
        raise PlanError(f"{shards.path(0)}: no columns to read; leave columns= away to read all of them")
    spec = {column.name: column.field for column in columns}
    fixed_bytes = sum(field.row_bytes for field in spec.values())
    filtered = [] if keep is None else filter_columns(keep, schema)
    pruning = pruning_of(options.own.get("filters"), schema, files.folders.schema)
    opened = _Opened(files, columns, schema, fixed_bytes, keep, filtered, pruning)
    looked = _for_each(range(len(shards)), opened.look, options.progress)
    groups = _joined(looked, filtered=keep is not None)
    rows = groups.rows if groups.kept is None else np.array([len(kept) for kept in groups.kept], dtype=np.int64)
    per_shard = np.bincount(groups.shard, weights=rows, minlength=len(shards)).astype(np.int64)
    row_bytes = fixed_bytes + _varying_bytes(files, columns, groups)
    manifest = TableManifest(
        "parquet",
        shards,
        np.append(0, np.cumsum(per_shard)),
        held_bytes=int(row_bytes * int(rows.sum())),
        choice="" if groups.kept is None else choice(keep, groups.kept),
    )
    return Parquet(manifest, spec, columns, files, groups, np.append(0, np.cumsum(rows)).astype(np.int64), schema)


@dataclass(frozen=True, eq=False)
class _Opened:
    """What is looked for in each file."""

    files: Files
    columns: tuple[TableColumn, ...]
    schema: pa.Schema
    fixed_bytes: int
    keep: pc.Expression | None
    filtered: list[str]
    pruning: Pruning | None

    def look(self, shard: int) -> RowGroups:
        """A file's row groups."""
        shards, place, opened = self.files.shards, self.files.shards.path(shard), self.files.bytes_of(shard)
        with arrow_errors(place, _NO_PARQUET):  # before pyarrow does, so that what is read ahead of a store serves both
            names = self.pruning.names if self.pruning else ()
            said = read_row_groups(opened, names) if names else None
        file = self.files.open(shard, opened)
        check_same_columns(self.files.schema(file), self.schema, self.columns, place, shards.path(0))
        with arrow_errors(place, _DAMAGED):
            found = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        rows = np.array([group.num_rows for group in found], dtype=np.int64)
        if (rows < 0).any() or rows.sum() != file.metadata.num_rows or (len(rows) and rows.max() >= 1 << 31):
            raise DataError(
                f"{place}: row groups of {rows.tolist()[:8]} rows, {file.metadata.num_rows:,} in all; {_DAMAGED}"
            )
        for group, count in enumerate(rows.tolist()):
            size = max(self.fixed_bytes * count, found[group].total_byte_size)
            check_unpacked(size, int(shards.sizes[shard]), self.files.limits, f"{place}, row group {group}")
        number = np.flatnonzero(rows)
        if self.keep is None:
            return RowGroups(np.full(len(number), shard), number, rows[number])
        possible = [True] * len(rows)
        if self.pruning is not None:
            known = self.files.folders.known(shard)
            possible = self.pruning.possible(file.schema_arrow, rows.tolist(), said, known)
        none = np.empty(0, dtype=np.int32)
        kept = [
            self._kept(shard, file, group, int(rows[group])) if possible[group] else none for group in number.tolist()
        ]
        return RowGroups(np.full(len(number), shard), number, rows[number], kept)

    def _kept(self, shard: int, file: pq.ParquetFile, group: int, rows: int) -> npt.NDArray[np.int32]:
        assert self.keep is not None
        place = f"{self.files.shards.path(shard)}, row group {group}"
        with arrow_errors(f"{place}: filters={self.keep}", _DAMAGED):
            table = self.files.table(shard, file, group, self.filtered)
            if table.num_rows != rows:
                raise pa.ArrowInvalid(f"{table.num_rows:,} rows where the footer says {rows:,}")
            return kept_rows(table, self.keep)


def _varying_bytes(files: Files, columns: tuple[TableColumn, ...], groups: RowGroups) -> float:
    """Bytes of a row in columns of no fixed size, as the first row group with rows that are kept has them.

    The footer says how large columns are as well, but pyarrow ends the process when that part of a footer is damaged.
    """
    varying = [column.feature for column in columns if not column.field.is_fixed]
    first = next((group for group in range(len(groups.rows)) if groups.kept is None or len(groups.kept[group])), None)
    if not varying or first is None:
        return 0.0
    shard, number = int(groups.shard[first]), int(groups.number[first])
    file = files.open(shard)
    with arrow_errors(f"{files.shards.path(shard)}, row group {number}", _DAMAGED):
        return float(files.table(shard, file, number, varying).nbytes / groups.rows[first])


def _joined(parts: list[RowGroups], *, filtered: bool) -> RowGroups:
    shard, number, rows = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("shard", "number", "rows")
    )
    kept = [rows for part in parts for rows in part.kept or ()] if filtered else None
    return RowGroups(shard, number, rows, kept)


def _for_each(items: range, look: Callable[[int], _T], progress: Callable[[int, int], None] | None) -> list[_T]:
    """look(item) for all items, several at once; stops at the first error."""
    found = []
    with ThreadPoolExecutor(min(_TOGETHER, max(1, len(items))), thread_name_prefix="penstock-open") as threads:
        futures = [threads.submit(look, item) for item in items]
        try:
            for done, future in enumerate(futures, 1):
                found.append(future.result())
                if progress is not None:
                    progress(done, len(items))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return found


FORMAT = Format(
    name="parquet",
    suffixes=(".parquet", ".pq", ".parq"),
    matches=lambda head: head.startswith((b"PAR1", b"PARE")),
    options={"filters": "which rows to read: [('year', '>=', 2020)] or a pyarrow.compute expression"},
    access="by its row group, decoded once and kept",
    detects="any flipped bit in pages with checksums, otherwise what cannot be decoded; not a footer's bounds, which filters trust",
    open=open_parquet,
)
