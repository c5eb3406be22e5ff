"""Pixels as a PNG, written without an image library."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

#: PNG's colour types, by channels.
_COLOUR = {3: 2, 4: 6}


def png(pixels: Pixels) -> bytes:
    """An RGB or RGBA image of shape (height, width, 3 or 4) as a PNG (RFC 2083): no filter, deflate."""
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + channels * width), np.uint8)
    lines[:, 1:] = pixels.reshape(height, channels * width)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR[channels], 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(lines.tobytes())), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
