"""The record batches of Arrow files: which lie plain, which in runs, and what each becomes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.core.columns.repeated_values import written_column_bytes
from penstock.core.columns.rows import Rows, pack_rows
from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.errors import DataError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.derived.file_indexes import part_key
from penstock.format.arrow.messages import Message, unpacked_bytes
from penstock.source.tables.mapped_shards import MappedShards, check_whole
from penstock.source.tables.ranged_file import open_shard
from penstock.source.tables.table import TableColumn, arrow_errors, check_unpacked, columns_of

DAMAGED = "the file is damaged, was cut, or holds what Arrow's rules forbid (decimals beyond their precision, date64 inside a day): write it again"
#: Changes when what is stored of a decoded batch does.
_VERSION = 3
#: Batches that are written out in less than this are, and those that are not so many times smaller in runs.
_SHORT_BYTES, _WORTH = 8 << 20, 4
#: Of a text in runs, the number of its value.
_NUMBER_BYTES = 8
#: How often a batch lies in memory while it is decoded.
_WORKING_COPIES = 3


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

    def is_short(self, batch: int) -> bool:
        """Whether a batch lies in runs that stand for far more than it takes, so that rows are written out as they are needed."""
        message = self.files[self.shard[batch]].batches[int(self.number[batch])]
        schema = self.files[self.shard[batch]].schema
        if not any(_has_runs(schema.field(name).type) for name in self._names):
            return False
        row_bytes = sum(field.required.row_bytes or _NUMBER_BYTES for field in self.spec.values())
        return bool(message.rows * row_bytes > max(_SHORT_BYTES, _WORTH * message.length))

    @cached_property
    def written_row_bytes(self) -> int:
        """Bytes of a row in a batch, as the first record batch has them; looked at only where values may stand once for many rows."""
        repeats = [name for name, field in self.spec.items() if not field.required.is_fixed]
        kinds = [self.files[0].schema.field(name).type for name in self._names]
        if not repeats or not len(self) or not any(_has_runs(kind) or pa.types.is_dictionary(kind) for kind in kinds):
            return 0
        try:
            table = self._table(int(np.argmax(np.diff(self.first_row))))
        except DataError:  # whoever reads these rows hears of it
            return 0
        size = sum(written_column_bytes(column) for column in table.columns)
        return -(-size // max(1, int(table.num_rows)))

    def working_bytes(self, batch: int, unpacked_row_bytes: int) -> int:
        """What decoding a batch takes: its buffers unpacked, as columns, and as rows; 0 for one that cannot be read. unpacked_row_bytes: of a row, in the mean."""
        shard, number = int(self.shard[batch]), int(self.number[batch])
        file = self.files[shard]
        messages = [*file.before[number], file.batches[number]]
        size = packed_bytes = sum(message.length for message in messages)
        try:
            if any(message.packed for message in messages) and os.path.isabs(file.path):
                with arrow_errors(self.place(batch), DAMAGED), self._opened(shard) as opened:
                    size = sum(unpacked_bytes(one, bytes_of(opened, one)) for one in messages)
            check_unpacked(size, packed_bytes, self.limits, self.place(batch))
        except DataError:  # whoever reads these rows hears of it
            return 0
        row_bytes = sum(field.required.row_bytes or _NUMBER_BYTES for field in self.spec.values())
        return _WORKING_COPIES * max(size, messages[-1].rows * max(row_bytes, unpacked_row_bytes))

    def before(self, batch: int) -> tuple[int, tuple[Message, ...]]:
        """What says which dictionaries a batch uses: its file, and the messages that hold some before it."""
        shard = int(self.shard[batch])
        return shard, self.files[shard].before[int(self.number[batch])]

    def short_rows(self, batch: int) -> pa.RecordBatch:
        """A whole batch as it lies in its runs, validated."""
        return self._table(batch)

    def _opened(self, shard: int) -> pa.NativeFile:
        is_mapped = os.path.isabs(self.files[shard].path) and self.shards.sizes[shard]
        return self.mapped.open(shard) if is_mapped else open_shard(self.shards, shard, self.read)

    def _table(self, batch: int) -> pa.RecordBatch:
        """A whole batch, validated."""
        shard, number = int(self.shard[batch]), int(self.number[batch])
        file = self.files[shard]
        message = file.batches[number]
        with (
            arrow_errors(self.place(batch), DAMAGED),
            self._opened(shard) as opened,
        ):
            messages = [*file.before[number], message]
            if file.schema_message is not None:
                messages.insert(0, file.schema_message)
            start, length = (np.array([getattr(one, name) for one in messages]) for name in ("start", "length"))
            self.read.check(self.shards, np.full_like(start, shard), start, length)
            data = [bytes_of(opened, one) for one in messages]
            size = sum(unpacked_bytes(one, part) for one, part in zip(messages, data, strict=True))
            check_unpacked(size, sum(one.length for one in messages), self.limits, self.place(batch))
            if not file.before[number]:
                table = pa.ipc.read_record_batch(data[-1], file.schema)
            elif file.schema_message is None:
                table = open_file(opened, int(self.shards.sizes[shard])).get_batch(number)
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
        return self._columns(batch, self._table(batch), 0, keeps_repeated=keeps_repeated)

    def _columns(self, batch: int, table: pa.RecordBatch, first: int, *, keeps_repeated: bool) -> Columns:
        """The columns of a part of a batch that begins with its row `first`."""
        place = self.place(batch)
        try:
            with arrow_errors(place, DAMAGED):
                return columns_of(table, self.columns, keeps_repeated=keeps_repeated)
        except RowError as error:
            raise DataError(f"{place}, row {first + error.row:,}: {error.found}; {error.do}") from None

    def written_out(self, batch: int, table: pa.RecordBatch, first: int, rows: int) -> Rows:
        """Some rows of a batch that lies in runs: numbers written out, text with each value once where it repeats."""
        columns = self._columns(batch, table.slice(first, rows), first, keeps_repeated=True)
        return pack_rows(columns, self.spec, rows)

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


def open_file(file: pa.NativeFile, size: int) -> pa.RecordBatchFileReader:
    """A file's reader."""
    file.seek(0)
    return pa.ipc.open_file(file, footer_offset=size)


def bytes_of(file: pa.NativeFile, message: Message) -> pa.Buffer:
    """The bytes of a message."""
    file.seek(message.start)
    return file.read_buffer(message.length)


def _has_runs(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_runs(part.type) for part in kind)
    return bool(pa.types.is_run_end_encoded(kind))


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
