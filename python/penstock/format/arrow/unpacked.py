"""What columns of compressed record batches take in memory: each buffer says in its first bytes what it takes unpacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.core.files.byte_ranges import ByteRanges, read_ranges
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.format.arrow.batches import ArrowFile
from penstock.format.arrow.messages import Message
from penstock.source.tables.table import TableColumn, allowed_bytes

#: An int64: what a buffer takes unpacked, or -1 where it lies as it is.
_SIZE_BYTES = 8
#: Offsets of 32 bits become 64.
_WIDER_BYTES = 4


class _Buffer(NamedTuple):
    """A compressed buffer: its column, its file, where it begins there, and its bytes. most: what its batch may take unpacked."""

    column: str
    file: int
    start: int
    length: int
    most: int


@dataclass(frozen=True)
class UnpackedColumns:
    """Bytes of columns without a fixed shape: of each, by its name in the files, in compressed record batches; and of the batches that are not compressed, whole."""

    packed: Mapping[str, int]
    plain_bytes: int

    def size_bytes(self, columns: Sequence[TableColumn], rows: int) -> int:
        """Bytes of so many rows, which are all, in these columns."""
        fixed = rows * sum(column.field.required.row_bytes for column in columns)
        varying = _varying(columns)
        return fixed + sum(self.packed.get(name, 0) for name in varying) + (self.plain_bytes if varying else 0)


def unpacked_columns(
    files: Sequence[ArrowFile], columns: Sequence[TableColumn], shards: Shards, read: ByteRanges, limits: Limits
) -> UnpackedColumns | None:
    """What these columns take unpacked; None where none without a fixed shape is compressed.

    What a batch says beyond what it may is not believed: whoever reads it hears of it.
    """
    names, found = _varying(columns), Counter[str]()
    buffers = [
        one for number, file in enumerate(files) for one in _buffers(number, file, limits) if one.column in names
    ]
    if not buffers:
        return None
    shard, start, length, most = np.ascontiguousarray(np.array([one[1:] for one in buffers], np.int64).T)
    told = read_ranges(read, shards, shard, start, np.full_like(start, _SIZE_BYTES))
    said = told.buffers[0].view("<i8")
    sizes = np.where((said < 0) | (said > most), length, said)
    for one, size in zip(buffers, sizes.tolist(), strict=True):
        found[one.column] += size
    batches = [batch for file in files for batch in file.batches]
    wider = _WIDER_BYTES * sum(batch.rows for batch in batches if batch.packed)
    plain_bytes = sum(batch.length for batch in batches if not batch.packed)
    return UnpackedColumns({name: size + wider for name, size in found.items()}, plain_bytes)


def _varying(columns: Sequence[TableColumn]) -> set[str]:
    return {column.path[0] for column in columns if not column.field.required.is_fixed}


def _buffers(number: int, file: ArrowFile, limits: Limits) -> Iterator[_Buffer]:
    """The compressed buffers of a file's record batches; of damaged ones those that lie in them."""
    for batch in file.batches:
        columns = [*_columns_of_buffers(file.schema, batch)] if batch.packed else []
        most = allowed_bytes(batch.length, limits)
        for column, (offset, length) in zip(columns, batch.buffers, strict=False):
            begin = batch.body + offset
            if length >= _SIZE_BYTES and batch.body <= begin <= batch.length - _SIZE_BYTES:
                yield _Buffer(column, number, batch.start + begin, length, most)


def _columns_of_buffers(schema: pa.Schema, batch: Message) -> Iterator[str]:
    """The column of each buffer of a record batch."""
    of_views = iter(batch.of_views)
    for field in schema:
        for _ in range(_count(field.type, of_views)):
            yield field.name


def _count(kind: pa.DataType, of_views: Iterator[int]) -> int:
    """Buffers of a column: https://arrow.apache.org/docs/format/Columnar.html#buffer-listing-for-each-layout."""
    if isinstance(kind, pa.BaseExtensionType):
        return _count(kind.storage_type, of_views)
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return 2 + next(of_views, 0)
    if pa.types.is_map(kind):
        return 2 + _count(pa.struct([kind.key_field, kind.item_field]), of_views)
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        own = 1 + (pa.types.is_union(kind) and kind.mode == "dense")
        return own + sum(_count(part.type, of_views) for part in kind)
    if pa.types.is_run_end_encoded(kind):
        return _count(kind.run_end_type, of_views) + _count(kind.value_type, of_views)
    if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
        return (1 if pa.types.is_fixed_size_list(kind) else 2 + is_view) + _count(kind.value_type, of_views)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return 3 if any(is_kind(kind) for is_kind in text) else 2
