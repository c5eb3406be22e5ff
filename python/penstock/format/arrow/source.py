"""Arrow IPC files and streams, Feather V2: local files are mapped, and plain columns are used where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.rows import Rows, as_rows, join_columns, join_rows, pack_rows
from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.errors import DataError, PlanError, RowError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.core.lru import Lru
from penstock.core.verbs.options import Options
from penstock.derived.decoded import MEMORY_BYTES, DecodedParts
from penstock.derived.file_indexes import part_key
from penstock.format.arrow.messages import FILE_MAGIC, BigEndian, Message, read_file, read_stream, unpacked_bytes
from penstock.format.arrow.nodes import nodes_of
from penstock.source.manifest import TableManifest
from penstock.source.protocol import Access
from penstock.source.tables.mapped_shards import MappedShards, check_whole
from penstock.source.tables.ranged_file import open_shard
from penstock.source.tables.table import (
    TableColumn,
    arrow_errors,
    check_names,
    check_same_columns,
    check_unpacked,
    choose_columns,
    columns_of,
    with_nulls,
)

_DAMAGED = "the file is damaged, was cut, or holds what Arrow's rules forbid (decimals beyond their precision, date64 inside a day): write it again"
#: Changes when what is stored of a decoded batch does.
_VERSION = 3
#: Batches whose columns stay in memory; they point into mapped files.
_READY = 1_024


@dataclass(frozen=True, eq=False)
class ArrowFile:
    """One file or stream: its schema and its messages; `before[i]` are the dictionaries that batch i may use.

    schema_message: a stream's; a file's schema stands in its footer.
    """

    path: str
    schema: pa.Schema
    schema_message: Message | None
    batches: tuple[Message, ...]
    before: tuple[tuple[Message, ...], ...]

    @property
    def rows(self) -> Ids:
        """Rows of each batch."""
        return np.array([batch.rows for batch in self.batches], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Batches:
    """The record batches of some files, one after the other. Buffers are validated when a batch is first used."""

    shards: Shards
    mapped: MappedShards
    read: ByteRanges
    limits: Limits
    files: tuple[ArrowFile, ...]
    columns: tuple[TableColumn, ...]
    spec: Spec
    shard: Ids
    number: Ids
    first_row: Ids

    def __len__(self) -> int:
        return len(self.shard)

    def is_plain(self, batch: int) -> bool:
        """Whether a batch's columns can be used where they lie."""
        file = self.files[self.shard[batch]]
        number = int(self.number[batch])
        lies_elsewhere = file.batches[number].packed or file.before[number] or "://" in file.path
        return not lies_elsewhere and all(_lies_plain(file.schema.field(name).type) for name in self._names)

    @cached_property
    def _names(self) -> list[str]:
        """What the chosen columns lie in."""
        return list(dict.fromkeys(column.path[0] for column in self.columns))

    def _opened(self, shard: int) -> pa.NativeFile:
        is_mapped = os.path.isabs(self.files[shard].path) and self.shards.sizes[shard]
        return self.mapped.open(shard) if is_mapped else open_shard(self.shards, shard, self.read)

    def _table(self, batch: int) -> pa.RecordBatch:
        """A whole batch, validated."""
        shard, number = int(self.shard[batch]), int(self.number[batch])
        file = self.files[shard]
        message = file.batches[number]
        with (
            arrow_errors(self.place(batch), _DAMAGED),
            self._opened(shard) as opened,
        ):
            messages = [*file.before[number], message]
            if file.schema_message is not None:
                messages.insert(0, file.schema_message)
            start, length = (np.array([getattr(one, name) for one in messages]) for name in ("start", "length"))
            self.read.check(self.shards, np.full_like(start, shard), start, length)
            data = [_bytes_of(opened, one) for one in messages]
            size = sum(unpacked_bytes(one, part) for one, part in zip(messages, data, strict=True))
            check_unpacked(size, sum(one.length for one in messages), self.limits, self.place(batch))
            if not file.before[number]:
                table = pa.ipc.read_record_batch(data[-1], file.schema)
            elif file.schema_message is None:
                table = _open_file(opened, int(self.shards.sizes[shard])).get_batch(number)
            else:
                stream = pa.py_buffer(b"".join([memoryview(part) for part in data]))
                table = pa.ipc.open_stream(stream).read_next_batch()
            table = table.select(self._names)
            table.validate(full=True)
        check_whole(self.shards)
        if table.num_rows != message.rows:
            raise DataError(f"{self.place(batch)}: {table.num_rows:,} rows, where its header says {message.rows:,}")
        return table

    def check_now(self, batch: int) -> None:
        """DataError if the local file of a batch is not what it was when it was listed."""
        shard = int(self.shard[batch])
        if os.path.isabs(self.files[shard].path):
            self.shards.check_now(shard)

    def load(self, batch: int, *, keeps_repeated: bool = False) -> Columns:
        """The columns of a batch where they lie."""
        place = self.place(batch)
        try:
            with arrow_errors(place, _DAMAGED):
                return columns_of(self._table(batch), self.columns, keeps_repeated=keeps_repeated)
        except RowError as error:
            raise DataError(f"{place}, row {error.row:,}: {error.found}; {error.do}") from None

    def decode(self, batch: int) -> Rows:
        """The rows of a batch."""
        rows = int(self.first_row[batch + 1] - self.first_row[batch])
        return pack_rows(self.load(batch, keeps_repeated=True), self.spec, rows)

    def place(self, batch: int) -> str:
        """Where a batch lies, for messages."""
        return f"{self.shards.path(int(self.shard[batch]))}, batch {self.number[batch]}"

    def key(self, batch: int) -> str:
        """What names the rows of a batch in the cache."""
        return part_key(f"arrow {self.number[batch]} {self.columns}", _VERSION, self.shards, int(self.shard[batch]))


class Ready:
    """The columns of the batches that were used last."""

    def __init__(self, make: Callable[[int], Columns]) -> None:
        self._make = make
        self._columns: Lru[int, Columns] = Lru(_READY)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies in other processes begin empty."""
        return Ready, (self._make,)

    def columns(self, batch: int) -> Columns:
        """A batch's columns."""
        return self._columns.get(batch) or self._columns.put(batch, self._make(batch))


@dataclass(frozen=True, eq=False)
class ArrowBatches:
    """Rows of Arrow files, batch after batch: out of `ready` where they lie, else out of `decoded`."""

    manifest: TableManifest
    spec: Spec
    batches: Batches
    ready: Ready
    decoded: DecodedParts
    block_rows: int | None = None
    access: Access = Access.BLOCKS
    null_counts: Mapping[str, int | None] = field(default_factory=dict)

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
                columns = self.ready.columns(batch)
                parts.append({name: _slice(column, start, count) for name, column in columns.items()})
            else:
                parts.append(self.decoded.slice(batch, start, count))
        plain = [part for part in parts if not isinstance(part, Rows)]
        if len(plain) == len(parts):
            return join_columns(plain)
        return join_rows([as_rows(part, self.spec, count) for part, count in zip(parts, counts, strict=True)])

    def place(self, sample: int) -> str:
        """Where a row lies, for messages."""
        batch = int(np.searchsorted(self.batches.first_row, sample, side="right")) - 1
        return f"{self.batches.place(batch)}, row {sample - int(self.batches.first_row[batch]):,}"

    def only(self, names: Sequence[str]) -> ArrowBatches:
        """The same rows with these columns alone."""
        return self._only(names, self.manifest.held_bytes)

    def once(self, names: Sequence[str]) -> ArrowBatches:
        """The same rows with these columns alone, of which nothing is written to the cache."""
        return self._only(names, min(self.manifest.held_bytes, MEMORY_BYTES))

    def _only(self, names: Sequence[str], held_bytes: int) -> ArrowBatches:
        known = {column.name: column for column in self.batches.columns}
        columns, spec = tuple(known[name] for name in names), {name: self.spec[name] for name in names}
        batches = replace(self.batches, columns=columns, spec=spec)
        decoded = DecodedParts(batches.decode, batches.key, len(batches), held_bytes)
        return replace(self, spec=spec, batches=batches, ready=Ready(batches.load), decoded=decoded)


def _slice(column: Any, start: int, count: int) -> Any:
    return column.slice(start, count) if isinstance(column, pa.Array) else column[start : start + count]


def _bytes_of(file: pa.NativeFile, message: Message) -> pa.Buffer:
    file.seek(message.start)
    return file.read_buffer(message.length)


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
    decoded = DecodedParts(batches.decode, batches.key, len(batches), held)
    exact = {column.name: nulls[column.name] for column in columns if not column.field.shape and len(column.path) == 1}
    return ArrowBatches(manifest, spec, batches, Ready(batches.load), decoded, null_counts=exact)


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
            with arrow_errors(path, _DAMAGED):
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
    return ArrowFile(path, _open_file(file, size).schema, None, batches, (dictionaries,) * len(batches))


def _open_file(file: pa.NativeFile, size: int) -> pa.RecordBatchFileReader:
    file.seek(0)
    return pa.ipc.open_file(file, footer_offset=size)


def _look_at_stream(file: pa.NativeFile, path: str, size: int) -> ArrowFile:
    messages = read_stream(file, size)
    if not messages:
        raise DataError(f"{path}: no message in {size:,} bytes; {_DAMAGED}")
    batches = tuple(message for message in messages if message.kind == "batch")
    before = tuple(_dictionaries(messages, batch) for batch in batches)
    return ArrowFile(path, pa.ipc.read_schema(_bytes_of(file, messages[0])), messages[0], batches, before)


def _dictionaries(messages: list[Message], batch: Message) -> tuple[Message, ...]:
    return tuple(message for message in messages if message.kind == "dictionary" and message.start < batch.start)


def _lies_plain(kind: pa.DataType) -> bool:
    """Whether a batch can hold values of a type where they lie; what must be made first is cached as compressed batches are."""
    if pa.types.is_struct(kind):
        return all(_lies_plain(part.type) for part in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lies_plain(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        made = kind.extension_name in ("arrow.uuid", "arrow.bool8") or bool(getattr(kind, "permutation", None))
        return not made and _lies_plain(kind.storage_type)
    view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) or pa.types.is_run_end_encoded(kind)
    return not (view or pa.types.is_nested(kind))
