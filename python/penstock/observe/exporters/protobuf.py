"""Protocol buffers by hand, as much as TensorBoard's events and XProf's spaces need (protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

import struct

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_MOST = 3.4e38
_SMALL = [bytes([number]) for number in range(128)]


def varint(number: int) -> bytes:
    r"""A whole number: varint(300) == b"\xac\x02"."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def whole(field: int, number: int) -> bytes:
    """A field of int32, int64 or uint64."""
    return varint(field << 3 | _VARINT) + varint(number)


def double(field: int, number: float) -> bytes:
    """A field of double."""
    return varint(field << 3 | _DOUBLE) + struct.pack("<d", number)


def float32(field: int, number: float) -> bytes:
    """A field of float; what is beyond it is its largest number."""
    return varint(field << 3 | _FLOAT) + struct.pack("<f", max(-_MOST, min(_MOST, number)))


def nested(field: int, content: bytes) -> bytes:
    """A field of a message or of bytes."""
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """A field of string."""
    return nested(field, content.encode(errors="replace"))
