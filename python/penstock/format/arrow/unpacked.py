"""What columns of compressed record batches take in memory: each buffer says in its first bytes what it takes unpacked.

Of many batches some are looked at, evenly spread, so that files at URLs open as quickly as before; the same ones wherever the files lie, since default lanes follow from it.
"""

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
#: Batches that are looked at, at most.
_LOOKED_AT = 64
#: Offsets of 32 bits become 64.
_WIDER_BYTES = 4


class _PackedBuffer(NamedTuple):
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
    batches = [(number, batch) for number, file in enumerate(files) for batch in file.batches]
    packed = [one for one in batches if one[1].packed] if names else []
    some = [packed[at] for at in _spread(len(packed))]
    every = (buffer for number, batch in some for buffer in _buffers(number, files[number].schema, batch, limits))
    buffers = [buffer for buffer in every if buffer.column in names]
    if not buffers:
        return None
    shard, start, length, most = np.ascontiguousarray(np.array([one[1:] for one in buffers], np.int64).T)
    told = read_ranges(read, shards, shard, start, np.full_like(start, _SIZE_BYTES))
    said = told.buffers[0].view("<i8")
    sizes = np.where((said < 0) | (said > most), length, said)
    for one, size in zip(buffers, sizes.tolist(), strict=True):
        found[one.column] += size
    rows, seen = (sum(batch.rows for _, batch in those) for those in (packed, some))
    plain_bytes = sum(batch.length for _, batch in batches if not batch.packed)
    of_all = {name: size * rows // max(1, seen) + _WIDER_BYTES * rows for name, size in found.items()}
    return UnpackedColumns(of_all, plain_bytes)


def _spread(count: int) -> list[int]:
    """So many batches' numbers that are looked at, evenly spread."""
    return list(dict.fromkeys(np.linspace(0, count - 1, min(count, _LOOKED_AT), dtype=np.int64).tolist()))


def _varying(columns: Sequence[TableColumn]) -> set[str]:
    return {column.path[0] for column in columns if not column.field.required.is_fixed}


def _buffers(number: int, schema: pa.Schema, batch: Message, limits: Limits) -> Iterator[_PackedBuffer]:
    """The buffers of a compressed record batch; of a damaged one those that lie in it."""
    most = allowed_bytes(batch.length, limits)
    for column, (offset, length) in zip(_columns_of_buffers(schema, batch), batch.buffers, strict=False):
        begin = batch.body + offset
        if length >= _SIZE_BYTES and batch.body <= begin <= batch.length - _SIZE_BYTES:
            yield _PackedBuffer(column, number, batch.start + begin, length, most)


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
        own = 2 if pa.types.is_union(kind) and kind.mode == "dense" else 1
        return own + sum(_count(part.type, of_views) for part in kind)
    if pa.types.is_run_end_encoded(kind):
        return _count(kind.run_end_type, of_views) + _count(kind.value_type, of_views)
    if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
        return (1 if pa.types.is_fixed_size_list(kind) else 2 + is_view) + _count(kind.value_type, of_views)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return 3 if any(is_kind(kind) for is_kind in text) else 2
