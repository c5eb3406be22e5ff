"""RecordIO and MDS files made by hand: what the tests of several formats need of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

MAGIC = struct.pack("<I", 0xCED7230A)


def part(data: bytes, flag: int = 0) -> bytes:
    """One part of a RecordIO record: whole (0), first (1), middle (2) or last (3)."""
    return MAGIC + struct.pack("<I", flag << 29 | len(data)) + data + bytes(-len(data) % 4)


def recordio(data: bytes) -> bytes:
    """One record, cut where the magic number stands at a multiple of 4, as dmlc's writer does."""
    pieces, begin = [], 0
    for at in range(0, len(data) - 3, 4):
        if data[at : at + 4] == MAGIC:
            pieces.append(data[begin:at])
            begin = at + 4
    if not pieces:
        return part(data)
    flags = [1, *[2] * (len(pieces) - 1), 3]
    return b"".join(part(piece, flag) for piece, flag in zip([*pieces, data[begin:]], flags, strict=True))


def mds(folder: Path, columns: dict[str, str], rows: Sequence[dict[str, bytes]]) -> Path:
    """A folder with one shard of encoded values, all of sizes that vary; returns the shard."""
    names = sorted(columns)
    state = {"column_encodings": [columns[name] for name in names], "column_names": names}
    state |= {"column_sizes": [None] * len(names), "format": "mds", "version": 2}
    samples = [
        b"".join([*(struct.pack("<I", len(row[name])) for name in names), *(row[name] for name in names)])
        for row in rows
    ]
    config = json.dumps(state).encode()
    head = 4 * (len(rows) + 2) + len(config)
    edges = np.cumsum([head, *map(len, samples)]).astype("<u4")
    path = folder / "shard.00000.mds"
    path.write_bytes(struct.pack("<I", len(rows)) + edges.tobytes() + config + b"".join(samples))
    raw = {"basename": path.name, "bytes": path.stat().st_size, "hashes": {}}
    state |= {"samples": len(rows), "raw_data": raw, "zip_data": None, "compression": None, "hashes": []}
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [state]}))
    return path
