"""Bytes packed by the libraries that users pack with."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import pyarrow as pa


def arrow(codec: str) -> Callable[[bytes], bytes]:
    return lambda data: (
        bytes(pa.compress(data, codec=codec, asbytes=True)) if codec == "brotli" else _streamed(data, codec)
    )


def _streamed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": arrow("zstd"),
    "lz4": arrow("lz4"),
}
