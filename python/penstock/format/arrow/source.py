"""Arrow IPC files and streams, Feather V2: local files are mapped, and plain columns are used where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.columns.categories import Categories, has_categories
from penstock.core.columns.ragged import edges_of
from penstock.core.columns.rows import Rows, as_rows, join_columns, join_rows
from penstock.core.columns.spec import Columns, Spec
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.lru import Lru
from penstock.core.verbs.options import Options
from penstock.derived.decoded import MEMORY_BYTES, DecodedParts
from penstock.format.arrow.batches import DAMAGED, ArrowFile, Batches, bytes_of, open_file
from penstock.format.arrow.messages import FILE_MAGIC, BigEndian, Message, read_file, read_stream
from penstock.format.arrow.nodes import nodes_of
from penstock.format.arrow.unpacked import UnpackedColumns, unpacked_columns
from penstock.source.manifest import MOST_IDS, TableManifest
from penstock.source.protocol import Access
from penstock.source.tables.mapped_shards import MappedShards
from penstock.source.tables.ranged_file import open_shard
from penstock.source.tables.table import (
    TableColumn,
    arrow_errors,
    check_names,
    check_same_columns,
    choose_columns,
    with_nulls,
)

#: Batches whose columns stay in memory; they point into mapped files.
_READY = 1_024
#: Batches in runs that stay as they are.
_SHORT = 8

MadeT = TypeVar("MadeT")


class Ready(Generic[MadeT]):
    """What was made of the batches that were used last, so many of them at most."""

    def __init__(self, make: Callable[[int], MadeT], most: int) -> None:
        self._make, self._most = make, most
        self._made: Lru[int, MadeT] = Lru(most)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies in other processes begin empty."""
        return Ready, (self._make, self._most)

    def of(self, batch: int) -> MadeT:
        """What is made of a batch."""
        found = self._made.get(batch)
        return self._made.put(batch, self._make(batch)) if found is None else found


@dataclass(frozen=True, eq=False)
class ArrowBatches:
    """Rows of Arrow files, batch after batch: out of `ready` where they lie, else out of `decoded`.

    unpacked: what columns take unpacked; None where none without a fixed shape is compressed.
    """

    manifest: TableManifest
    spec: Spec
    batches: Batches
    ready: Ready[Columns]
    short: Ready[pa.RecordBatch]
    decoded: DecodedParts
    block_rows: int | None = None
    access: Access = Access.BLOCKS
    null_counts: Mapping[str, int | None] = field(default_factory=dict)
    unpacked: UnpackedColumns | None = None
    reads_columns_alone: ClassVar[bool] = True

    def load(self, first: int, rows: int) -> Columns | Rows:
        """Rows [first, first + rows)."""
        first_row = self.batches.first_row
        begin = int(np.searchsorted(first_row, first, side="right")) - 1
        parts: list[Columns | Rows] = []
        counts = []
        for batch in range(begin, int(np.searchsorted(first_row, first + rows))):
            low, high = first_row[batch : batch + 2].tolist()
            start, count = max(first, low) - low, min(first + rows, high) - max(first, low)
            if count <= 0:
                continue
            counts.append(count)
            if self.batches.is_plain(batch):
                self.batches.check_now(batch)
                columns = self.ready.of(batch)
                parts.append({name: _slice(column, start, count) for name, column in columns.items()})
            elif self.batches.is_short(batch):
                parts.append(self.batches.written_out(batch, self.short.of(batch), start, count))
            else:
                parts.append(self.decoded.slice(batch, start, count))
        plain = [part for part in parts if not isinstance(part, Rows)]
        if len(plain) == len(parts):
            return join_columns(plain)
        return join_rows([as_rows(part, self.spec, count) for part, count in zip(parts, counts, strict=True)])

    @property
    def unpacked_bytes(self) -> int:
        """See `source.protocol.CompressedSource`."""
        if self.unpacked is None:
            return self.manifest.held_bytes
        return self.unpacked.size_bytes(self.batches.columns, self.manifest.samples)

    @property
    def decoded_bytes(self) -> int:
        """Bytes of all rows in batches, as the first record batch has them."""
        return self.batches.written_row_bytes * self.manifest.samples

    def keep_within(self, memory_bytes: int) -> int:
        """See `source.protocol.KeepingSource`."""
        working = self._working_bytes
        return self.decoded.keep_within(memory_bytes, working) if working else 0

    def needed_within(self, memory_bytes: int) -> int:
        """See `source.protocol.KeepingSource`."""
        working = self._working_bytes
        return self.decoded.needed_within(memory_bytes, working) if working else 0

    @cached_property
    def _working_bytes(self) -> int:
        every = range(len(self.batches))
        is_more = self.unpacked_bytes > self.manifest.held_bytes
        row_bytes = -(-self.unpacked_bytes // max(1, self.manifest.samples)) if is_more else 0
        sizes = (self.batches.working_bytes(batch, row_bytes) for batch in every if self._is_decoded(batch))
        return max(sizes, default=0)

    def _is_decoded(self, batch: int) -> bool:
        return not self.batches.is_plain(batch) and not self.batches.is_short(batch)

    def place(self, sample: int) -> str:
        """Where a row lies, for messages."""
        batch = int(np.searchsorted(self.batches.first_row, sample, side="right")) - 1
        return f"{self.batches.place(batch)}, row {sample - int(self.batches.first_row[batch]):,}"

    def categories(self, name: str) -> Iterator[Categories]:
        """See `source.protocol.CategorySource`: batches with the same dictionaries before them are looked at once."""
        (column,) = (column for column in self.batches.columns if column.name == name)
        if len(column.path) > 1:
            return
        batches = replace(self.batches, columns=(column,), spec={name: self.spec[name]})
        kinds = [file.schema.field(column.path[0]).type for file in batches.files]
        last = None
        for batch in range(len(batches) if has_categories(kinds, batches.shards.path) else 0):
            if (before := batches.before(batch)) != last:
                yield Categories.of(batches.short_rows(batch)[column.path[0]], batches.place(batch))
            last = before

    def only(self, names: Sequence[str]) -> ArrowBatches:
        """The same rows with these columns alone."""
        return self._only(names)

    def once(self, names: Sequence[str]) -> ArrowBatches:
        """The same rows with these columns alone, of which nothing is written to the cache."""
        return self._only(names, MEMORY_BYTES)

    def _only(self, names: Sequence[str], most_bytes: int = MOST_IDS) -> ArrowBatches:
        known = {column.name: column for column in self.batches.columns}
        columns, spec = tuple(known[name] for name in names), {name: self.spec[name] for name in names}
        batches = replace(self.batches, columns=columns, spec=spec)
        ready, short = Ready(batches.load, _READY), Ready(batches.short_rows, _SHORT)
        made = replace(self, spec=spec, batches=batches, ready=ready, short=short)
        total_bytes = min(made.unpacked_bytes, most_bytes)
        return replace(made, decoded=DecodedParts(batches.decode, batches.key, len(batches), total_bytes))


def _slice(column: Any, start: int, count: int) -> Any:
    return column.slice(start, count) if isinstance(column, pa.Array) else column[start : start + count]


def open_arrow(shards: Shards, read: ByteRanges, options: Options, name: str = "arrow") -> ArrowBatches:
    """Opens Arrow files or streams of the same columns; reads the headers of their messages."""
    files = []
    for shard in range(len(shards)):
        files.append(_look(shards, shard, read))
        if options.progress is not None:
            options.progress(shard + 1, len(shards))
    columns = choose_columns(files[0].schema, options, files[0].path)
    if not columns:
        raise PlanError(f"{files[0].path}: no columns to read; leave columns= away to read all of them")
    for file in files[1:]:
        check_same_columns(file.schema, files[0].schema, columns, file.path, files[0].path)
    nulls = {column.name: _nulls_in(files, column) for column in columns}
    columns = with_nulls(columns, lambda column: nulls[column.name])
    spec = {column.name: column.field for column in columns}
    rows = np.concatenate([file.rows for file in files])
    shard_of_batch = np.repeat(np.arange(len(files)), [len(file.batches) for file in files])
    number = np.concatenate([np.arange(len(file.batches)) for file in files])
    per_shard = np.array([int(file.rows.sum()) for file in files], dtype=np.int64)
    held = int(rows.sum()) * sum(field.required.row_bytes for field in spec.values())
    if not all(field.required.is_fixed for field in spec.values()):
        held += sum(batch.length for file in files for batch in file.batches)
    manifest = TableManifest(name, shards, edges_of(per_shard), held_bytes=held)
    first_row = edges_of(rows)
    batches = Batches(
        shards,
        MappedShards(shards),
        read,
        options.limits,
        tuple(files),
        columns,
        spec,
        shard_of_batch,
        number,
        first_row,
    )
    unpacked = unpacked_columns(files, columns, shards, read, options.limits)
    total_bytes = held if unpacked is None else unpacked.size_bytes(columns, manifest.samples)
    decoded = DecodedParts(batches.decode, batches.key, len(batches), total_bytes)
    exact = {column.name: nulls[column.name] for column in columns if not column.field.shape and len(column.path) == 1}
    ready, short = Ready(batches.load, _READY), Ready(batches.short_rows, _SHORT)
    return ArrowBatches(manifest, spec, batches, ready, short, decoded, null_counts=exact, unpacked=unpacked)


def _nulls_in(files: Sequence[ArrowFile], column: TableColumn) -> int | None:
    """How many nulls a column has, those in lists among them, by what its batches say; None where one does not."""
    found = 0
    for file in files:
        nodes = nodes_of(file.schema, column.path)
        for batch in file.batches:
            counts = [batch.nulls[node] if node < len(batch.nulls) else -1 for node in nodes]
            if min(counts, default=0) < 0:
                return None
            found += sum(counts)
    return found


def _look(shards: Shards, shard: int, read: ByteRanges) -> ArrowFile:
    """The schema and the messages of one file."""
    path, size = shards.path(shard), int(shards.sizes[shard])
    if size == 0:
        raise DataError(f"{path}: the file is empty; remove it or write it again")
    with open_shard(shards, shard, read) as file:
        head = file.read(len(FILE_MAGIC))
        if head.startswith(b"FEA1"):
            raise SourceError(f"{path}: Feather V1, which is no Arrow format; write it again as Feather V2")
        try:
            with arrow_errors(path, DAMAGED):
                found = _look_at_file(file, path, size) if head == FILE_MAGIC else _look_at_stream(file, path, size)
                check_names(found.schema)
        except BigEndian:
            raise DataError(
                f"{path}: numbers as big-endian machines write them; read the file with pyarrow and write it again"
            ) from None
    return found


def _look_at_file(file: pa.NativeFile, path: str, size: int) -> ArrowFile:
    messages = read_file(file, size)
    dictionaries = tuple(message for message in messages if message.kind == "dictionary")
    batches = tuple(messages[len(dictionaries) :])
    return ArrowFile(path, open_file(file, size).schema, None, batches, (dictionaries,) * len(batches))


def _look_at_stream(file: pa.NativeFile, path: str, size: int) -> ArrowFile:
    messages = read_stream(file, size)
    if not messages:
        raise DataError(f"{path}: no message in {size:,} bytes; {DAMAGED}")
    batches = tuple(message for message in messages if message.kind == "batch")
    before = tuple(_dictionaries(messages, batch) for batch in batches)
    return ArrowFile(path, pa.ipc.read_schema(bytes_of(file, messages[0])), messages[0], batches, before)


def _dictionaries(messages: list[Message], batch: Message) -> tuple[Message, ...]:
    return tuple(message for message in messages if message.kind == "dictionary" and message.start < batch.start)
