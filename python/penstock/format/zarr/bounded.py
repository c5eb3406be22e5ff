"""Packed chunks that never become more than their chunk's shape takes, whatever they say.

zarr's codecs unpack all that is there: 30 KB of Zstandard become a gigabyte for a chunk of a dozen numbers. What a chunk says of itself (Blosc, LZ4,
Zstandard, and how many texts it has) is checked first; the others (gzip, zlib, bzip2, LZMA) are unpacked up to the bound and no further.

The decoder of Blosc takes a chunk at its word besides: of one that was cut, or states another length, it reads memory behind
the chunk: wrong rows, or the end of the process. So whatever is shorter than it says is refused first.
"""

from __future__ import annotations

import asyncio
import bz2
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numcodecs
import numcodecs.abc
import numcodecs.blosc
import numcodecs.lz4
import numcodecs.zstd
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zarr
from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec
from zarr.codecs import ShardingCodec, VLenBytesCodec, VLenUTF8Codec

from penstock.core.limits import Limits

#: Of Blosc: versions, flags and the size of an item; bytes decoded, of a block, and of the whole chunk with this header.
_BLOSC_HEADER = struct.Struct("<4B3I")
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
#: Bytes of a Zstandard frame's size by the flag that says so; 0 where it is not stated.
_SIZE_BYTES = {0: 0, 1: 2, 2: 4, 3: 8}
#: A filter may store values in another type, and one codec may pack what another packed: a little more than the values.
_WIDEST_BYTES = 16
_BESIDES_BYTES = 64 << 10
#: Filters of version 2 that give values of varying length.
_COUNTED = ("vlen-utf8", "vlen-bytes", "vlen-array")
#: Values of varying length may take this much, whatever the chunk's packed size.
_SMALL_BYTES = 1 << 20

_Data = npt.NDArray[np.uint8]
#: Unpacks bytes to so many at most: (packed, most, the codec's settings).
_Unpack = Callable[[_Data, int, Mapping[str, Any]], Any]


def with_bounded_chunks(array: Any, limits: Limits) -> Any:
    """The same zarr.Array, whose packed chunks raise ValueError where they are cut, or would become more than their shape takes."""
    metadata = array.metadata
    if metadata.zarr_format == 2:
        filters = tuple(_counted(codec, math.prod(metadata.chunks)) for codec in metadata.filters or ())
        checked = replace(metadata, filters=filters or None)
        if metadata.compressor is not None and metadata.compressor.codec_id in _UNPACK:
            most = _most(metadata.chunks, metadata.dtype, is_filtered=bool(filters))
            checked = replace(checked, compressor=_Second(metadata.compressor, most, limits))
    else:
        codecs = tuple(_bounded(codec, limits) for codec in metadata.codecs)
        if all(new is old for new, old in zip(codecs, metadata.codecs, strict=True)):
            return array
        checked = replace(metadata, codecs=codecs)
    return zarr.Array(zarr.AsyncArray(checked, array.store_path))


def _bounded(codec: Any, limits: Limits) -> Any:
    """A codec of version 3, or of a shard's inner chunks."""
    if isinstance(codec, ShardingCodec):
        return replace(codec, codecs=tuple(_bounded(inner, limits) for inner in codec.codecs))
    if isinstance(codec, BytesBytesCodec) and _name(codec) in _UNPACK:
        return _Third(codec, _name(codec), codec.to_dict().get("configuration") or {}, limits)
    return {VLenUTF8Codec: _Texts, VLenBytesCodec: _Bytes}.get(type(codec), lambda: codec)()


def _counted(codec: Any, values: int) -> Any:
    """A filter of version 2."""
    return _SecondCounted(codec, values) if codec.codec_id in _COUNTED else codec


def _name(codec: Any) -> str:
    return str(codec.to_dict()["name"]).removeprefix("numcodecs.")


def _most(shape: tuple[int, ...], kind: Any, *, is_filtered: bool = True) -> int | None:
    """Bytes that the values of a chunk may take before they are packed; None where that is not known: they are of varying length."""
    dtype = np.dtype(kind.to_native_dtype() if hasattr(kind, "to_native_dtype") else kind)
    if dtype.kind in "OT":
        return None
    width = max(dtype.itemsize, _WIDEST_BYTES) if is_filtered else dtype.itemsize
    return int(math.prod(shape) * width) + _BESIDES_BYTES


def _unpacked(name: str, settings: Mapping[str, Any], chunk: Any, most: int | None, limits: Limits) -> Any:
    data = np.asarray(chunk).reshape(-1).view(np.uint8)
    if most is None:
        most = max(_SMALL_BYTES, min(limits.record_bytes, limits.ratio * data.size))
    return _UNPACK[name](data, most, settings)


class _Second(numcodecs.abc.Codec):  # type: ignore[misc]
    """A codec of version 2. most: bytes of an unpacked chunk; None where its values are of varying length."""

    #: zarr looks for it at the class.
    codec_id = ""

    def __init__(self, inner: Any, most: int | None, limits: Limits) -> None:
        self.codec_id, self._inner, self._most, self._limits = inner.codec_id, inner, most, limits
        self._settings = self.get_config()

    def encode(self, buf: Any) -> Any:
        """As the codec itself."""
        return self._inner.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """The unpacked chunk."""
        made = _unpacked(self.codec_id, self._settings, np.frombuffer(buf, np.uint8), self._most, self._limits)
        return numcodecs.compat.ndarray_copy(made, out)

    def get_config(self) -> dict[str, Any]:
        """What metadata says of the codec."""
        config: dict[str, Any] = self._inner.get_config()
        return config


@dataclass(frozen=True)
class _Third(BytesBytesCodec):
    """A codec of version 3. name, settings: as metadata has them."""

    inner: Any
    name: str
    settings: Any
    limits: Limits
    is_fixed_size = False

    def to_dict(self) -> dict[str, Any]:
        """What metadata says of the codec."""
        described: dict[str, Any] = self.inner.to_dict()
        return described

    def evolve_from_array_spec(self, array_spec: Any) -> _Third:
        """The codec as it is for an array."""
        inner = self.inner.evolve_from_array_spec(array_spec)
        return self if inner is self.inner else replace(self, inner=inner)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """As the codec itself."""
        size: int = self.inner.compute_encoded_size(input_byte_length, chunk_spec)
        return size

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        most = _most(chunk_spec.shape, chunk_spec.dtype)
        made = _unpacked(self.name, self.settings, chunk_bytes.as_numpy_array(), most, self.limits)
        return chunk_spec.prototype.buffer.from_bytes(made)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        # Which of the two is called depends on zarr's version.
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)


class _SecondCounted(numcodecs.abc.Codec):  # type: ignore[misc]
    """Values of varying length in version 2. values: of a chunk."""

    codec_id = ""

    def __init__(self, inner: Any, values: int) -> None:
        self.codec_id, self._inner, self._values = inner.codec_id, inner, values

    def encode(self, buf: Any) -> Any:
        """As the codec itself."""
        return self._inner.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """The values."""
        _check_count(np.frombuffer(buf, np.uint8), self._values)
        return self._inner.decode(buf, out)

    def get_config(self) -> dict[str, Any]:
        """What metadata says of the codec."""
        config: dict[str, Any] = self._inner.get_config()
        return config


class _ThirdCounted(ArrayBytesCodec):
    """Values of varying length in version 3. zarr wants its own classes, and looks at their names."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        _check_count(chunk_bytes.as_numpy_array(), math.prod(chunk_spec.shape))
        return super()._decode_sync(chunk_bytes, chunk_spec)  # type: ignore[misc]

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        # Which of the two is called depends on zarr's version.
        _check_count(chunk_bytes.as_numpy_array(), math.prod(chunk_spec.shape))
        return await super()._decode_single(chunk_bytes, chunk_spec)


class _Texts(_ThirdCounted, VLenUTF8Codec):
    pass


class _Bytes(_ThirdCounted, VLenBytesCodec):
    pass


for _made in (_Texts, _Bytes):
    _made.__name__ = _made.__mro__[2].__name__


def _check_count(data: _Data, values: int) -> None:
    """ValueError for a chunk of values of varying length that says it has another number of them; it begins with the number."""
    stated = int.from_bytes(data[:4].tobytes(), "little")
    if stated != values:
        raise ValueError(f"a chunk that says it has {stated:,} values, where its shape has {values:,}; it is damaged")


# One function a codec


def _check(stated: int, most: int) -> None:
    if stated > most:
        raise ValueError(
            f"a chunk that unpacks to {stated:,} bytes or more, where its values take {most:,} at most; it is damaged, or made to fill the memory"
        )


def _blosc(data: _Data, most: int, _: Mapping[str, Any]) -> Any:
    header = _BLOSC_HEADER.unpack_from(data.data) if data.size >= _BLOSC_HEADER.size else (0, 0, _BLOSC_HEADER.size)
    if data.size < header[-1]:
        raise ValueError(f"a chunk of Blosc says that it takes {header[-1]:,} bytes and has {data.size:,}")
    _check(header[4], most)
    return numcodecs.blosc.decompress(data)


def _lz4(data: _Data, most: int, _: Mapping[str, Any]) -> Any:
    _check(int.from_bytes(data[:4], "little"), most)
    return numcodecs.lz4.decompress(data)


def _zstd(data: _Data, most: int, _: Mapping[str, Any]) -> Any:
    stated = _stated_by_zstd(data[:18].tobytes())
    if stated is not None:
        _check(stated, most)
        return numcodecs.zstd.decompress(data)
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
        made = stream.read(most + 1)
    _check(len(made), most)
    return made


def _stated_by_zstd(head: bytes) -> int | None:
    """The size that a frame states (RFC 8878, 3.1.1.1); None if it does not."""
    if head[:4] != _ZSTANDARD or len(head) < 18:
        return None
    has_window, identity = not head[4] & 0x20, (0, 1, 2, 4)[head[4] & 3]
    width = _SIZE_BYTES[head[4] >> 6] or (0 if has_window else 1)
    start = 5 + has_window + identity
    size = int.from_bytes(head[start : start + width], "little")
    return size + 256 * (width == 2) if width else None


def _streamed(data: _Data, most: int, make: Callable[[], Any], *, several: bool = True) -> bytes:
    """Unpacks one stream, or several one after the other."""
    found, rest, left = [], bytes(data.data) if several else data.data, most + 1
    while True:
        stream = make()
        found.append(stream.decompress(rest, left))
        left -= len(found[-1])
        _check(most + 1 - left, most)
        if not stream.eof:
            raise ValueError("a chunk that ends in the middle of its packed bytes")
        rest = stream.unused_data.lstrip(b"\0") if several else b""
        if not rest:
            return found[0] if len(found) == 1 else b"".join(found)


def _gzip(data: _Data, most: int, _: Mapping[str, Any]) -> Any:
    return _streamed(data, most, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))


def _zlib(data: _Data, most: int, _: Mapping[str, Any]) -> Any:
    return _streamed(data, most, zlib.decompressobj, several=False)


def _bz2(data: _Data, most: int, _: Mapping[str, Any]) -> Any:
    return _streamed(data, most, bz2.BZ2Decompressor)


def _lzma(data: _Data, most: int, settings: Mapping[str, Any]) -> Any:
    form, filters = settings.get("format", lzma.FORMAT_XZ), settings.get("filters")
    return _streamed(data, most, lambda: lzma.LZMADecompressor(form, filters=filters))


_UNPACK: dict[str, _Unpack] = {
    "blosc": _blosc,
    "bz2": _bz2,
    "gzip": _gzip,
    "lz4": _lz4,
    "lzma": _lzma,
    "zlib": _zlib,
    "zstd": _zstd,
}
