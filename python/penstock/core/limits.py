"""One set of bounds for everything that foreign bytes could make large."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a record may ask for; checked before anything is allocated.

    record_bytes: encoded size of one record.
    pixels: width × height of one picture, before any crop.
    unpacked_bytes: size of one shard after decompression.
    ratio: unpacked size over packed size of one shard (only checked above 1 MiB).
    values: values of one feature in one record.
    """

    record_bytes: int = 1 << 30
    pixels: int = 1 << 28
    unpacked_bytes: int = 1 << 38
    ratio: int = 1_100
    values: int = 1 << 28


DEFAULT_LIMITS = Limits()
