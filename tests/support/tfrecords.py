"""What the TFRecord tests share: a reader, frames and messages made by hand."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Spans
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.format.tfrecord import open_tfrecord
from penstock.source.records.native_columns import ParsedRecords

GOLDEN = Path(__file__).parent.parent / "golden" / "tfrecord"


def crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = _TABLE[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for number in range(256):
        state = number
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
        table.append(state)
    return table


_TABLE = _table()


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def block(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def integers(*values: int) -> bytes:
    return block(3, block(1, b"".join(map(varint, values))))


def floats(*values: float) -> bytes:
    return block(2, block(1, struct.pack(f"<{len(values)}f", *values)))


def texts(*values: bytes) -> bytes:
    return block(1, b"".join(block(1, value) for value in values))


def entry(key: str, feature: bytes) -> bytes:
    return block(1, block(1, key.encode()) + block(2, feature))


def example(**features: bytes) -> bytes:
    return block(1, b"".join(entry(key, feature) for key, feature in features.items()))


def write(path: Path, records: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(map(frame, records)))
    return path


def shards_of(*paths: Path) -> Shards:
    found = [os.stat(path) for path in paths]
    return Shards(
        pa.array([str(path) for path in paths], type=pa.large_string()),
        np.array([file.st_size for file in found], dtype=np.int64),
        np.array([file.st_mtime_ns for file in found], dtype=np.int64),
    )


def read(shards: Shards, shard, offset, length, out, at) -> None:
    names, text = shards.path_buffers
    kernels.read_ranges(names, text, shards.sizes, shard, offset, length, out, at, 1)


def allocate(name, field, rows):
    return np.empty((rows, *field.shape), field.numpy_dtype)


def open_files(*paths: Path, **options) -> ParsedRecords:
    return open_tfrecord(shards_of(*paths), ByteRanges(read), Options(**options))


def records_of(source: ParsedRecords, samples) -> Spans:
    """Each record in a buffer of its own, or all in one where they are many."""
    manifest = source.manifest
    samples = np.asarray(samples, dtype=np.int64)
    shard = manifest.shard_of(samples)
    offset, length = manifest.offset[samples], manifest.length[samples]
    at = np.cumsum(length) - length
    buffer = np.empty(int(length.sum()), dtype=np.uint8)
    read(manifest.stored, shard, offset, length, buffer, at)
    return Spans((buffer,), np.zeros(len(samples), dtype=np.int64), at, length)


def parse(source: ParsedRecords, samples=None, threads: int = 1) -> Columns:
    samples = np.arange(source.manifest.samples) if samples is None else np.asarray(samples, dtype=np.int64)
    return source.parse(samples, records_of(source, samples), allocate, threads=threads)


def listed(column) -> list:
    """A column as Python values."""
    if isinstance(column, Spans):
        return [column[row] for row in range(len(column))]
    return column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
