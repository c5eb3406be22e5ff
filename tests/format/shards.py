"""RecordIO and MDS files made by hand: what the tests of several formats need of them."""

from __future__ import annotations

import struct

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
