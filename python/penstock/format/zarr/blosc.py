"""Blosc, with a look at each chunk before it is decoded.

A chunk of Blosc states its own length, and the decoder takes it at its word: of a chunk that was cut, or states another length, it reads memory behind
the chunk: wrong rows, or the end of the process. So whatever is shorter than it says is refused first.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, ShardingCodec

#: Versions, flags and the size of an item; bytes decoded, of a block, and of the whole chunk with this header.
_HEADER = struct.Struct("<4B3I")


def with_checked_blosc(array: Any) -> Any:
    """The same zarr.Array, whose chunks of Blosc raise ValueError where they are cut."""
    metadata = array.metadata
    if metadata.zarr_format == 2:
        if not _is_blosc(metadata.compressor):
            return array
        checked = replace(metadata, compressor=_CheckedBlosc.from_config(_settings(metadata.compressor)))
    else:
        codecs = tuple(map(_checked_codec, metadata.codecs))
        if all(new is old for new, old in zip(codecs, metadata.codecs, strict=True)):
            return array
        checked = replace(metadata, codecs=codecs)
    return zarr.Array(zarr.AsyncArray(checked, array.store_path))


def _is_blosc(codec: Any) -> bool:
    return isinstance(codec, numcodecs.Blosc)


def _settings(codec: Any) -> dict[str, Any]:
    return {name: value for name, value in codec.get_config().items() if name != "id"}


def _checked_codec(codec: Any) -> Any:
    """A codec of version 3, or of a shard's inner chunks."""
    if isinstance(codec, BloscCodec):
        return _CheckedBloscCodec.from_dict(codec.to_dict())
    if isinstance(codec, ShardingCodec):
        return replace(codec, codecs=tuple(map(_checked_codec, codec.codecs)))
    return codec


def _check(chunk: Any) -> None:
    """ValueError for a chunk that is shorter than its header says."""
    data = np.asarray(chunk).reshape(-1).view(np.uint8)
    stated = _HEADER.unpack_from(data.data)[-1] if data.size >= _HEADER.size else _HEADER.size
    if data.size < stated:
        raise ValueError(f"a chunk of Blosc says that it takes {stated:,} bytes and has {data.size:,}")


class _CheckedBlosc(numcodecs.Blosc):  # type: ignore[misc]
    """Version 2."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        _check(np.frombuffer(buf, np.uint8))
        return super().decode(buf, out)


class _CheckedBloscCodec(BloscCodec):
    """Version 3. Which of the two is called depends on zarr's version."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _check(chunk_bytes.as_numpy_array())
        return super()._decode_sync(chunk_bytes, chunk_spec)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _check(chunk_bytes.as_numpy_array())
        return await super()._decode_single(chunk_bytes, chunk_spec)
