"""Where the records of files without an index of their own lie: native indexing on first use, kept in the user's cache.

What is particular to a format is its `Framing`. Files that were packed as a whole (GZIP, ZLIB, …) are unpacked once to the
cache and read from there.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock import kernels
from penstock.errors import SourceError
from penstock.format.index_cache import Entry, cache_folder, entry_key, load_entry, store_entry
from penstock.format.protocol import Options, Progress
from penstock.shards import Shards
from penstock.spec import Ids

_T = TypeVar("_T")

#: Left free on the disk when files are unpacked.
RESERVE_BYTES = 256 << 20
#: Seconds between two reports of progress.
_TICK_S = 0.1


class IndexFiles(Protocol):
    """A native indexer: visits every record of every file once."""

    def __call__(
        self, paths: list[str], sizes: Ids, *, record_bytes: int, threads: int, progress: kernels.WorkProgress
    ) -> tuple[Ids, Ids, Ids]:
        """Where each file's first record begins, records of each file, and the length of each record, file after file.

        Records lie without gaps; frames and padding belong to their record. Raises DataError for the first damaged frame.
        """


@dataclass(frozen=True, kw_only=True)
class Framing:
    """How a format's records follow each other.

    kind: names the index's entries in the cache. version: changes when the meaning of an entry does. packing: how each file
    is packed as a whole (see `kernels.unpack_files_once`), 0 not at all; None if the format is never packed.
    """

    kind: str
    version: int
    index: IndexFiles
    packing: Callable[[list[str], int], Ids] | None = None


@dataclass(frozen=True, eq=False)
class RecordIndex:
    """Records of all shards: see `Manifest` for the arrays. unpacked: the files to read, None if they are the shards."""

    first_sample: Ids
    offset: Ids
    length: Ids
    unpacked: Shards | None


def index_shards(shards: Shards, options: Options, framing: Framing) -> RecordIndex:
    """Indexes shards, from the cache where it has them.

    Raises DataError naming file, record and byte of the first damaged frame; SourceError for files that are not local;
    OSError (ENOSPC) where unpacked files would fill the disk.
    """
    paths: list[str] = shards.paths.to_pylist()
    _check_local(paths, framing)
    folder = cache_folder("index")
    keys = [
        entry_key(framing.kind, framing.version, path, size, modified)
        for path, size, modified in zip(paths, shards.sizes.tolist(), shards.versions.tolist(), strict=True)
    ]
    entries = {shard: entry for shard, key in enumerate(keys) if (entry := _load_usable(folder, key)) is not None}
    missing = np.array([shard for shard in range(len(shards)) if shard not in entries], dtype=np.int64)
    if missing.size:
        found = _index_missing(shards.take(missing), [keys[shard] for shard in missing], options, framing)
        for shard, entry in zip(missing.tolist(), found, strict=True):
            entries[shard] = entry
            store_entry(folder, keys[shard], entry)
    return _joined(shards, keys, [entries[shard] for shard in range(len(shards))])


def _check_local(paths: list[str], framing: Framing) -> None:
    for path in paths:
        if "://" in path:
            raise SourceError(
                f"{path}: {framing.kind} files are indexed from local or mounted paths; copy or mount them"
            )


def _load_usable(folder: str | None, key: str) -> Entry | None:
    entry = load_entry(folder, key)
    if entry is not None and entry.packing:
        target = _unpacked_path(key)
        if target is None or not _is_of_size(target, entry.unpacked_bytes):
            return None
    return entry


def _is_of_size(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size == size
    except OSError:
        return False


def _index_missing(shards: Shards, keys: list[str], options: Options, framing: Framing) -> list[Entry]:
    """The entries of shards that the cache does not have."""
    threads = _threads()
    packing = np.zeros(len(shards), dtype=np.int64)
    if framing.packing is not None:
        packing = framing.packing(shards.paths.to_pylist(), threads)
    unpacked_bytes = np.full(len(shards), -1, dtype=np.int64)
    packed = np.flatnonzero(packing)
    readable: list[str] = shards.paths.to_pylist()
    sizes = shards.sizes.copy()
    if packed.size:
        targets = _unpack(shards.take(packed), packing[packed], [keys[shard] for shard in packed], options)
        for shard, (target, size) in zip(packed.tolist(), targets, strict=True):
            readable[shard], sizes[shard], unpacked_bytes[shard] = target, size, size
    limit = options.limits.record_bytes
    start, counts, length = _watched(
        lambda work: framing.index(readable, sizes, record_bytes=limit, threads=threads, progress=work),
        options.progress,
        int(sizes.sum()),
    )
    parts = np.split(length, np.cumsum(counts)[:-1])
    columns = zip(parts, start.tolist(), packing.tolist(), unpacked_bytes.tolist(), strict=True)
    return [Entry(part, begin, kind, size) for part, begin, kind, size in columns]


def _unpack(shards: Shards, packing: Ids, keys: list[str], options: Options) -> list[tuple[str, int]]:
    """Unpacks shards into the cache: (path, size) of each."""
    folder = cache_folder("unpacked")
    if folder is None:
        raise SourceError(
            f"{shards.path(0)}: a packed file is unpacked to the cache first, and there is no cache to use"
        )
    targets = [os.path.join(folder, key) for key in keys]
    scratch = [f"{target}.{uuid.uuid4().hex}.tmp" for target in targets]
    room = max(0, shutil.disk_usage(folder).free - RESERVE_BYTES)
    try:
        sizes = _watched(
            lambda work: kernels.unpack_files_once(
                shards.paths.to_pylist(),
                packing,
                targets,
                scratch,
                unpacked_bytes=options.limits.unpacked_bytes,
                ratio=options.limits.ratio,
                room_bytes=room,
                threads=_threads(),
                progress=work,
            ),
            options.progress,
            int(shards.sizes.sum()),
        )
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"no room to unpack it below {folder}, where {room:,} bytes may be used ({error.strerror}); "
            "free some, point XDG_CACHE_HOME to a larger disk, or unpack the files yourself",
            error.filename,
        ) from None
    return list(zip(targets, sizes.tolist(), strict=True))


def _unpacked_path(key: str) -> str | None:
    folder = cache_folder("unpacked")
    return None if folder is None else os.path.join(folder, key)


def _joined(shards: Shards, keys: list[str], entries: list[Entry]) -> RecordIndex:
    first_sample = np.zeros(len(entries) + 1, dtype=np.int64)
    np.cumsum([entry.length.size for entry in entries], out=first_sample[1:])
    length = np.concatenate([entry.length for entry in entries])
    offset = np.cumsum(length)
    offset -= length
    for entry, first in zip(entries, first_sample[:-1].tolist(), strict=True):
        records = offset[first : first + entry.length.size]
        if records.size:
            records += entry.start - records[0]
    return RecordIndex(first_sample, offset, length, _unpacked_shards(shards, keys, entries))


def _unpacked_shards(shards: Shards, keys: list[str], entries: list[Entry]) -> Shards | None:
    if not any(entry.packing for entry in entries):
        return None
    paths: list[str] = shards.paths.to_pylist()
    sizes = shards.sizes.copy()
    for shard, entry in enumerate(entries):
        if entry.packing and (target := _unpacked_path(keys[shard])) is not None:
            paths[shard], sizes[shard] = target, entry.unpacked_bytes
    return Shards(pa.array(paths, type=pa.large_string()), sizes, shards.versions)


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _watched(call: Callable[[kernels.WorkProgress], _T], progress: Progress | None, total: int) -> _T:
    """The result of a native call that runs in a thread, so that progress can be told and Ctrl-C ends it."""
    work = kernels.WorkProgress()
    with ThreadPoolExecutor(1, thread_name_prefix="penstock-index") as threads:
        future = threads.submit(call, work)
        try:
            while wait([future], timeout=_TICK_S).not_done:
                if progress is not None:
                    progress(min(work.done, total), total)
        except BaseException:
            work.stop()
            raise
    if progress is not None and future.exception() is None:
        progress(total, total)
    return future.result()
