"""Shards that begin with a table of offsets, as MDS shards and LitData chunks do.

A u32 for the number of records, then a u32 for where each begins, and one for where the last ends.
"""

from __future__ import annotations

import numpy as np

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges, read_ranges
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.source.manifest import Manifest

#: Bytes of tables that are read at once.
_STEP_BYTES = 64 << 20


def read_tables(
    format: str, shards: Shards, unpacked: Shards | None, records: Ids, read: ByteRanges, limits: Limits, *, whole: bool
) -> Manifest:
    """The manifest of shards that hold, as their index says, so many records; the tables are read from `unpacked` if it is given.

    whole: whether the last record ends with its shard. Raises DataError naming the shard whose table is damaged or
    disagrees with the index.
    """
    stored, table_bytes = unpacked or shards, 4 * (records + 2)
    if (short := np.flatnonzero(table_bytes > stored.sizes)).size:
        shard = int(short[0])
        raise DataError(
            f"{stored.path(shard)}: {stored.sizes[shard]:,} bytes, the table of its {records[shard]:,} records takes "
            f"{table_bytes[shard]:,}; the shard is truncated, or its index belongs to another: write both again"
        )
    first_sample = edges_of(records)
    offset, length = np.empty(first_sample[-1], dtype=np.int64), np.empty(first_sample[-1], dtype=np.int64)
    steps = (np.cumsum(table_bytes) - table_bytes) // _STEP_BYTES
    for step in range(int(steps[-1]) + 1 if len(steps) else 0):
        numbers = np.flatnonzero(steps == step)
        found = read_ranges(read, stored, numbers, np.zeros_like(numbers), table_bytes[numbers])
        for row, shard in enumerate(numbers.tolist()):
            table = np.frombuffer(found[row], "<u4").astype(np.int64)
            _check(table, stored, shard, limits, whole=whole)
            part = slice(int(first_sample[shard]), int(first_sample[shard + 1]))
            offset[part], length[part] = table[1:-1], np.diff(table[1:])
    return Manifest(format, shards, first_sample, offset, length, unpacked)


def _check(table: Ids, shards: Shards, shard: int, limits: Limits, *, whole: bool) -> None:
    where, size, records = shards.path(shard), int(shards.sizes[shard]), len(table) - 2
    if table[0] != records:
        raise DataError(
            f"{where}: it says it holds {table[0]:,} records, its index {records:,}; the shard is damaged or its index belongs to another: write both again"
        )
    lengths = np.diff(table[1:])
    if table[1] < 4 * (records + 2) or (lengths < 0).any() or table[-1] > size or (whole and table[-1] != size):
        low, high = int(table[1]), int(table[-1])
        bad = int(np.argmax(lengths < 0)) if (lengths < 0).any() else None
        found = f"record {bad:,} ends before it begins" if bad is not None else f"records from byte {low:,} to {high:,}"
        raise DataError(
            f"{where}: {found} in a shard of {size:,} bytes; the shard is truncated or damaged: copy or write it again"
        )
    if records and int(lengths.max()) > limits.record_bytes:
        record = int(np.argmax(lengths > limits.record_bytes))
        raise DataError(
            f"{where}, record {record:,}: {lengths[record]:,} bytes, the limit is {limits.record_bytes:,}; "
            f"raise Limits.record_bytes if the file can be trusted"
        )
