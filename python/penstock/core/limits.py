"""Limits on everything that foreign bytes could make large."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a record or shard may need, checked before anything is allocated.

    record_bytes: encoded size of one record.
    pixels: width × height of one image, before any crop.
    unpacked_bytes: size of one shard after decompression.
    ratio: decompressed size over compressed size of one shard (only checked above 1 MiB).
    values: values of one feature in one record.
    """

    record_bytes: int = 1 << 30
    pixels: int = 1 << 28
    unpacked_bytes: int = 1 << 38
    ratio: int = 1_100
    values: int = 1 << 28


DEFAULT_LIMITS = Limits()
