"""LitData's two ways to pack a chunk from within: frames of many items ("batch"), or each item by itself ("sample").

Format: litdata, streaming/framed_zstd.py. Unpacked, both are a table of offsets and the items, as a plain chunk is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Bytes, Ids
from penstock.core.limits import Limits
from penstock.derived.decompressed_shards import beyond

_MAGIC = b"LDFZ01\0\0"
_PREFIX = struct.Struct("<8sHHIII")
_STEP_BYTES = 1 << 20
_FRAME = np.dtype([("first", "<u4"), ("items", "<u4"), ("offset", "<u8"), ("packed", "<u4"), ("unpacked", "<u4")])


def unpack_frames(packed: Bytes, limits: Limits) -> Iterator[bytes]:
    """The pieces of a plain chunk; ValueError for a chunk of frames that is damaged."""
    data = memoryview(packed.data)
    if packed.size < _PREFIX.size:
        raise ValueError("it is shorter than its header")
    magic, version, _, items, _, count = _PREFIX.unpack_from(data)
    if magic != _MAGIC or version != 1:
        raise ValueError(f"it begins with {magic!r}, version {version}, where LDFZ01, version 1, belongs")
    edges_end = _PREFIX.size + 4 * (items + 1)
    if edges_end + _FRAME.itemsize * count > packed.size:
        raise ValueError("it is shorter than its tables")
    edges = np.frombuffer(data, "<u4", items + 1, _PREFIX.size).astype(np.int64)
    frames = np.frombuffer(data, _FRAME, count, edges_end)
    sizes, ends = frames["unpacked"].astype(np.int64), frames["offset"].astype(np.uint64) + frames["packed"]
    if (
        (ends > packed.size).any()
        or (frames["offset"] > packed.size).any()
        or int(sizes.sum()) != edges[-1]
        or edges[0]
    ):
        raise ValueError("its frames do not lie in it, or do not hold its items")
    if why := beyond(int(sizes.sum()), packed.size, limits):
        raise ValueError(why)
    yield _table(edges)
    for frame in frames:
        begin = int(frame["offset"])
        size = int(frame["unpacked"])
        part = _inflate(packed[begin : begin + int(frame["packed"])], size)
        if len(part) != size:
            raise ValueError(f"a frame becomes other than the {size:,} bytes that it states")
        yield part


def unpack_items(packed: Bytes, limits: Limits) -> Iterator[bytes]:
    """The pieces of a plain chunk; ValueError for a chunk of packed items that is damaged."""
    items = int.from_bytes(packed[:4].tobytes(), "little")
    if 4 * (items + 2) > packed.size:
        raise ValueError("it is shorter than its table")
    edges = packed[4 : 4 * (items + 2)].view("<u4").astype(np.int64)
    if edges[0] < 4 * (items + 2) or (np.diff(edges) < 0).any() or edges[-1] > packed.size:
        raise ValueError("its items do not lie in it")
    parts, size = [], 0
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = _inflate(packed[begin:end], limits.record_bytes)
        size += len(part)
        if why := beyond(size, packed.size, limits):
            raise ValueError(why)
        if len(part) > limits.record_bytes:
            raise ValueError(f"an item becomes more than {limits.record_bytes:,} bytes; raise Limits.record_bytes")
        parts.append(part)
    yield _table(np.cumsum([0, *map(len, parts)]))
    yield from parts


def _inflate(packed: Bytes, most: int) -> bytes:
    """What zstd unpacks, cut one byte above `most`. It is asked for in steps, since Arrow takes memory for all that it is asked for."""
    parts, left = list[bytes](), most + 1
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), "zstd") as stream:
        while left and (part := stream.read(min(left, _STEP_BYTES))):
            parts.append(part)
            left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _table(edges: Ids) -> bytes:
    """A plain chunk's table for items that begin at `edges`, counted from the first."""
    items = len(edges) - 1
    begins = edges + 4 * (items + 2)
    if begins[-1] >= 1 << 32:
        raise ValueError("it becomes larger than a plain chunk can be")
    return struct.pack("<I", items) + begins.astype("<u4").tobytes()
