"""Files that are compressed as a whole (gzip, zlib, Zstandard, bzip2, xz, LZ4): decompressed once to the cache, and read from there.

Several frames or members are one file, as for the formats' own tools. Native code decompresses gzip and zlib, the standard library
bzip2 and xz, Arrow's codecs the others; all without the interpreter's lock.
"""

from __future__ import annotations

import bz2
import errno
import lzma
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import DataError
from penstock.core.files.progress import watched
from penstock.core.files.scratch import room_errors, scratch_path, usable_bytes, whole_file
from penstock.core.files.setup_times import timed
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.files import DerivedFiles
from penstock.derived.lease import make_room

#: Estimated decompressed bytes for a compressed one, to make room beforehand.
_LIKELY_RATIO = 4
#: Native code decompresses these (gzip, zlib); see `kernels.recognise_packing` for the numbers.
_LAST_NATIVE = 2
_CODECS = {3: "zstd", 6: "lz4"}
_STEP_BYTES = 1 << 20
#: An xz file may need a dictionary of 4 GiB; what `xz -9` writes needs 65 MiB.
_XZ_MEMORY = 256 << 20


def unpack_files(shards: Shards, packing: Ids, files: DerivedFiles, keys: list[str], options: Options) -> list[int]:
    """Unpacks shards into the cache, under the names `keys`: the size of each.

    Raises DataError for damaged files and those that exceed `Limits.unpacked_bytes` or `Limits.ratio`; StorageError if they would
    fill the disk.
    """
    folder = files.folder
    make_room(folder, _LIKELY_RATIO * int(shards.sizes.sum()))
    targets = list(map(files.path, keys))
    room = max(0, usable_bytes(folder))
    native = np.flatnonzero(packing <= _LAST_NATIVE)
    others = np.flatnonzero(packing > _LAST_NATIVE)
    sizes = np.zeros(len(shards), dtype=np.int64)
    with room_errors("", folder, room + 1, "the unpacked file"):
        if native.size:
            sizes[native] = _unpack_natively(shards.take(native), packing[native], _at(targets, native), options, room)
        if others.size:
            rest = _RoomLeft(room - int(sizes.sum()))
            sizes[others] = _unpack_by_codecs(shards.take(others), packing[others], _at(targets, others), options, rest)
    make_room(folder)
    return sizes.tolist()


def _at(targets: list[str], places: Ids) -> list[str]:
    return [targets[place] for place in places.tolist()]


@timed("decompress")
def _unpack_natively(shards: Shards, packing: Ids, targets: list[str], options: Options, room: int) -> Ids:
    return watched(
        kernels.WorkProgress(),
        lambda work: kernels.unpack_files_once(
            shards.paths.to_pylist(),
            packing,
            targets,
            [scratch_path(target) for target in targets],
            unpacked_bytes=options.limits.unpacked_bytes,
            ratio=options.limits.ratio,
            room_bytes=room,
            threads=usable_cpus(),
            progress=work,
        ),
        options.progress,
        int(shards.sizes.sum()),
    )


class _RoomLeft:
    """The bytes that all files together may still take, and the compressed bytes that are done."""

    def __init__(self, free: int) -> None:
        self._lock = threading.Lock()
        self._free = free
        self.done = 0
        self._stopped = False

    def stop(self) -> None:
        """End the work early."""
        self._stopped = True

    def take(self, read: int, written: int, path: str) -> None:
        """Count bytes read and about to be written; OSError (ENOSPC) if there is no room for them."""
        with self._lock:
            self.done += read
            self._free -= written
            if self._free < 0:
                raise OSError(errno.ENOSPC, "decompressing needs more than what is free", path)
        if self._stopped:
            raise KeyboardInterrupt


@timed("decompress")
def _unpack_by_codecs(shards: Shards, packing: Ids, targets: list[str], options: Options, room: _RoomLeft) -> list[int]:
    columns = shards.paths.to_pylist(), shards.sizes.tolist(), packing.tolist(), targets

    def run(work: _RoomLeft) -> list[int]:
        with ThreadPoolExecutor(min(usable_cpus(), len(targets)), thread_name_prefix="penstock-unpack") as threads:
            return list(threads.map(partial(_unpack, options, work), *columns))

    return watched(room, run, options.progress, int(shards.sizes.sum()))


def _unpack(options: Options, room: _RoomLeft, path: str, size: int, packing: int, target: str) -> int:
    """Decompress one file by way of a scratch file; returns its size."""
    most = min(max(options.limits.ratio * size, 1 << 20), options.limits.unpacked_bytes)
    read = total = 0
    with whole_file(target) as scratch, open(path, "rb") as source, open(scratch, "wb") as out:
        for piece in _pieces(source, packing, path):
            total += len(piece)
            if total > most:
                raise DataError(
                    f"{path}: {size} compressed bytes expand to more than {most}; "
                    "raise Limits.unpacked_bytes or Limits.ratio if the file can be trusted"
                )
            room.take(source.tell() - read, len(piece), path)
            read = source.tell()
            out.write(piece)
    return total


def _pieces(source: BinaryIO, packing: int, path: str) -> Iterator[bytes]:
    """The decompressed bytes; DataError for damaged data."""
    total = 0
    make = _DECODERS.get(packing)
    try:
        for piece in _arrow_pieces(source, _CODECS[packing]) if make is None else _decoded_pieces(source, make):
            yield piece
            total += len(piece)
    except (OSError, EOFError, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(
            f"{path}, after {total} decompressed bytes: compressed data that cannot be decompressed ({error}); "
            "copy or write the file again"
        ) from None


def _arrow_pieces(source: BinaryIO, codec: str) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), codec)
    while piece := stream.read(_STEP_BYTES):
        yield piece


def _xz_decoder() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


#: From the standard library; Arrow's bzip2 does not accept empty members.
_DECODERS: dict[int, Callable[[], Any]] = {4: bz2.BZ2Decompressor, 5: _xz_decoder}


def _decoded_pieces(source: BinaryIO, make: Callable[[], Any]) -> Iterator[bytes]:
    """Decodes several streams with a decoder of one; streams may be padded with zeros."""
    decoder = None
    while chunk := source.read(_STEP_BYTES):
        while chunk:
            if decoder is None:
                chunk = chunk.lstrip(b"\0")
                if not chunk:
                    break
                decoder = make()
            yield decoder.decompress(chunk, _STEP_BYTES)
            while not decoder.eof and not decoder.needs_input:
                yield decoder.decompress(b"", _STEP_BYTES)
            chunk = decoder.unused_data
            decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise EOFError("it ends in the middle")
