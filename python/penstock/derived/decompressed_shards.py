"""Shards that are compressed as a whole: decompressed once to the user's cache, checked against their index, and read from there."""

from __future__ import annotations

import hashlib
import os
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Bytes
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges, read_range
from penstock.core.files.scratch import check_room
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.core.verbs.options import Options
from penstock.derived.file_indexes import shard_key
from penstock.derived.files import DerivedFiles

#: How many shards are decompressed at once, each read as a whole.
_TOGETHER = 4
_STEP_BYTES = 1 << 20
#: Below this size, a shard may have any ratio.
_SMALL_BYTES = 1 << 20
_WHAT = "an unpacked shard"

#: Yields the decompressed bytes of a compressed shard, piece by piece.
Unpack = Callable[[Bytes, Limits], Iterator[bytes]]

_STREAMS = {"zstd": "zstd", "gz": "gzip", "bz2": "bz2", "br": "brotli"}


@dataclass(frozen=True, kw_only=True)
class ShardCompression:
    """How one shard is compressed.

    unpack: yields its pieces. name: the method, part of the decompressed file's identity. unpacked_bytes: its decompressed size; None if
    its index does not say. packed_hashes, unpacked_hashes: hex digests by algorithm; those unknown to hashlib are ignored.
    """

    unpack: Unpack
    name: str
    unpacked_bytes: int | None = None
    packed_hashes: Mapping[str, str] = field(default_factory=dict)
    unpacked_hashes: Mapping[str, str] = field(default_factory=dict)


def codec(name: str) -> Unpack | None:
    """The function that decompresses "zstd", "gz", "bz2", "br" or "snappy"; None for other names."""
    if name == "snappy":
        return _unpack_snappy
    if name not in _STREAMS:
        return None

    def unpack(packed: Bytes, _: Limits) -> Iterator[bytes]:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), _STREAMS[name]) as stream:
            while piece := stream.read(_STEP_BYTES):
                yield piece

    return unpack


def _unpack_snappy(packed: Bytes, limits: Limits) -> Iterator[bytes]:
    """Snappy's raw form, which states its size in front (7 bits a byte, the lowest first)."""
    size = 0
    for place, byte in enumerate(packed[:5].tolist()):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if why := beyond(size, packed.size, limits):
        raise ValueError(why)
    yield pa.decompress(packed, decompressed_size=size, codec="snappy", asbytes=True)


def unpack_shards(
    shards: Shards, packing: Mapping[int, ShardCompression], read: ByteRanges, options: Options
) -> Shards | None:
    """The files to read, those of packed shards in the cache; None if no shard is packed.

    Raises DataError with the shard that is damaged or exceeds the limits, StorageError without room.
    """
    if not packing:
        return None
    shard_of = {
        shard_key(f"shard {packed.name}", 1, shards, shard) or uuid.uuid4().hex: shard
        for shard, packed in packing.items()
    }
    files = DerivedFiles("unpacked", shard_of, shards.path(min(packing)), _WHAT)

    def unpack(key: str) -> int:
        shard = shard_of[key]
        packed, size = packing[shard], int(shards.sizes[shard])
        with files.writing(key, size, shards.path(shard)) as scratch:
            _unpack_to(scratch, shards, shard, packed, read, options)
        return size

    def unpack_all(missing: list[str]) -> None:
        total, done = int(shards.sizes[[shard_of[key] for key in missing]].sum()), 0
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="penstock-unpack") as threads:
            for size in threads.map(unpack, missing):
                done += size
                if options.progress is not None:
                    options.progress(done, total)

    sizes = {key: packing[shard].unpacked_bytes for key, shard in shard_of.items()}
    try:
        for key in files.missing(sizes):  # before room is made for what an index says
            _check_stated(shards, shard_of[key], sizes[key], options.limits)
        files.make(sizes, unpack_all)
        read.forget(shards.take(np.array(list(packing), dtype=np.int64)))
        return with_unpacked(shards, files, {shard: key for key, shard in shard_of.items()})
    except BaseException:
        files.release()
        raise


def with_unpacked(shards: Shards, files: DerivedFiles, keys: Mapping[int, str]) -> Shards:
    """The files to read: `shards`, but those of `keys` as they lie unpacked in the cache, until nobody uses what is returned."""
    paths: list[str] = shards.paths.to_pylist()
    sizes, copied = shards.sizes.copy(), np.zeros(len(shards), dtype=bool)
    stamps = None if shards.stamps is None else shards.stamps.copy()
    for shard, key in keys.items():
        paths[shard], sizes[shard], copied[shard] = files.path(key), files.size(key) or 0, True
        if stamps is not None:
            stamps[shard] = -1
    made = pa.array(paths, pa.large_string())
    unpacked = Shards(
        made,
        sizes,
        shards.versions,
        etags=shards.etags,
        copied=copied,
        stamps=stamps,
        made_of=shards.as_made_of,
    )
    weakref.finalize(unpacked, files.release)
    return unpacked


def _check_stated(shards: Shards, shard: int, stated: int | None, limits: Limits) -> None:
    if stated is not None and (why := beyond(stated, int(shards.sizes[shard]), limits)):
        raise DataError(f"{shards.path(shard)}: {why}")


def _unpack_to(
    scratch: str, shards: Shards, shard: int, packing: ShardCompression, read: ByteRanges, options: Options
) -> None:
    """Writes the unpacked shard."""
    where, stated = shards.path(shard), packing.unpacked_bytes
    packed = read_whole(shards, shard, read)
    if options.verify:
        _check_hashes(where, _started(packing.packed_hashes), packing.packed_hashes, packed)
    hashes = _started(packing.unpacked_hashes) if options.verify else {}
    size = 0
    with open(scratch, "wb") as file:
        for piece in _pieces(where, packed, packing, options.limits):
            size += len(piece)
            if why := beyond(size, packed.size, options.limits):
                raise DataError(f"{where}: {why}")
            if stated is not None and size > stated:
                break
            check_room(where, os.path.dirname(scratch), len(piece), _WHAT)
            file.write(piece)
            for state in hashes.values():
                state.update(piece)
    if stated is not None and size != stated:
        more = "more than " if size > stated else ""
        raise DataError(
            f"{where}: it decompresses to {more}{min(size, stated):,} bytes, its index says {stated:,}; copy or write it again"
        )
    _check_hashes(where, hashes, packing.unpacked_hashes)


def _pieces(where: str, packed: Bytes, packing: ShardCompression, limits: Limits) -> Iterator[bytes]:
    """The decompressed bytes; DataError for damaged data."""
    try:
        yield from packing.unpack(packed, limits)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DataError(
            f"{where}: compressed data that cannot be decompressed ({error}); copy or write the shard again"
        ) from None


def read_whole(shards: Shards, shard: int, read: ByteRanges) -> Bytes:
    """All bytes of one shard."""
    return read_range(read, shards, shard, 0, int(shards.sizes[shard]))


def beyond(size: int, packed_bytes: int, limits: Limits) -> str:
    """Why so many bytes may not be decompressed, "" if they may."""
    most = min(limits.unpacked_bytes, max(_SMALL_BYTES, limits.ratio * packed_bytes))
    if size <= most:
        return ""
    return (
        f"{packed_bytes:,} compressed bytes expand to more than {most:,}; "
        "raise Limits.unpacked_bytes or Limits.ratio if the file can be trusted"
    )


def _started(wanted: Mapping[str, str]) -> dict[str, hashlib._Hash]:
    known = hashlib.algorithms_available
    return {name: hashlib.new(name) for name in wanted if name in known and not name.startswith("shake_")}


def _check_hashes(
    where: str, states: Mapping[str, hashlib._Hash], wanted: Mapping[str, str], data: Bytes | None = None
) -> None:
    for name, state in states.items():
        if data is not None:
            state.update(data.data)
        if state.hexdigest() != wanted[name].lower():
            raise DataError(
                f"{where}: its {name} is {state.hexdigest()}, its index says {wanted[name]}; copy or write it again"
            )
