"""Where the records of files without an index of their own lie: native indexing on first use, kept in the user's cache.

What is particular to a format is its `Framing`. Files that were packed as a whole are unpacked once to the cache and read from
there (see `unpack`); they stay as long as what was opened is in use.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock import kernels
from penstock.errors import SourceError
from penstock.format.cache_room import hold
from penstock.format.index_cache import Entry, cache_folder, entry_key, load_entry, store_entry
from penstock.format.protocol import Options
from penstock.format.unpack import unpack_once
from penstock.format.watched import available_threads, watched
from penstock.shards import Shards
from penstock.spec import Ids


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

    kind: names the index's entries in the cache, with `settings`, which are the options that the entries depend on. version:
    changes when the meaning of an entry does. packing: how each file is packed as a whole (see `kernels.recognise_packing`),
    0 not at all; None if the format is never packed.
    """

    kind: str
    version: int
    index: IndexFiles
    packing: Callable[[list[str], int], Ids] | None = None
    settings: str = ""


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
    kind = framing.kind + framing.settings
    keys = [
        entry_key(kind, framing.version, path, size, modified)
        for path, size, modified in zip(paths, shards.sizes.tolist(), shards.versions.tolist(), strict=True)
    ]
    known = {shard: entry for shard, key in enumerate(keys) if (entry := load_entry(folder, key)) is not None}
    leases = _Leases()
    try:
        leases.hold(keys[shard] for shard, entry in known.items() if entry.packing)
        entries = {shard: entry for shard, entry in known.items() if _is_usable(keys[shard], entry)}
        missing = np.array([shard for shard in range(len(shards)) if shard not in entries], dtype=np.int64)
        if missing.size:
            found = _index_missing(shards.take(missing), [keys[shard] for shard in missing], options, framing, leases)
            for shard, entry in zip(missing.tolist(), found, strict=True):
                entries[shard] = entry
                store_entry(folder, keys[shard], entry)
    except BaseException:
        leases.release()
        raise
    return _joined(shards, keys, [entries[shard] for shard in range(len(shards))], leases)


class _Leases:
    """Keeps unpacked files in the cache until nothing reads them."""

    def __init__(self) -> None:
        self._releases: list[Callable[[], None]] = []

    def hold(self, keys: Iterable[str]) -> None:
        listed = list(keys)
        if listed and (folder := cache_folder("unpacked")) is not None:
            self._releases.append(hold(folder, listed))

    def release(self) -> None:
        for release in self._releases:
            release()


def _check_local(paths: list[str], framing: Framing) -> None:
    for path in paths:
        if "://" in path:
            raise SourceError(
                f"{path}: {framing.kind} files are indexed from local or mounted paths; copy or mount them"
            )


def _is_usable(key: str, entry: Entry) -> bool:
    if not entry.packing:
        return True
    target = _unpacked_path(key)
    return target is not None and _is_of_size(target, entry.unpacked_bytes)


def _is_of_size(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size == size
    except OSError:
        return False


def _index_missing(shards: Shards, keys: list[str], options: Options, framing: Framing, leases: _Leases) -> list[Entry]:
    """The entries of shards that the cache does not have."""
    threads = available_threads()
    packing = np.zeros(len(shards), dtype=np.int64)
    if framing.packing is not None:
        packing = framing.packing(shards.paths.to_pylist(), threads)
    unpacked_bytes = np.full(len(shards), -1, dtype=np.int64)
    packed = np.flatnonzero(packing)
    readable: list[str] = shards.paths.to_pylist()
    sizes = shards.sizes.copy()
    if packed.size:
        packed_keys = [keys[shard] for shard in packed]
        leases.hold(packed_keys)
        targets = unpack_once(shards.take(packed), packing[packed], packed_keys, options)
        for shard, (target, size) in zip(packed.tolist(), targets, strict=True):
            readable[shard], sizes[shard], unpacked_bytes[shard] = target, size, size
    limit = options.limits.record_bytes
    start, counts, length = watched(
        kernels.WorkProgress(),
        lambda work: framing.index(readable, sizes, record_bytes=limit, threads=threads, progress=work),
        options.progress,
        int(sizes.sum()),
    )
    parts = np.split(length, np.cumsum(counts)[:-1])
    columns = zip(parts, start.tolist(), packing.tolist(), unpacked_bytes.tolist(), strict=True)
    return [Entry(part, begin, kind, size) for part, begin, kind, size in columns]


def _unpacked_path(key: str) -> str | None:
    folder = cache_folder("unpacked")
    return None if folder is None else os.path.join(folder, key)


def _joined(shards: Shards, keys: list[str], entries: list[Entry], leases: _Leases) -> RecordIndex:
    first_sample = np.zeros(len(entries) + 1, dtype=np.int64)
    np.cumsum([entry.length.size for entry in entries], out=first_sample[1:])
    length = np.concatenate([entry.length for entry in entries])
    offset = np.cumsum(length)
    offset -= length
    for entry, first in zip(entries, first_sample[:-1].tolist(), strict=True):
        records = offset[first : first + entry.length.size]
        if records.size:
            records += entry.start - records[0]
    unpacked = _unpacked_shards(shards, keys, entries)
    if unpacked is not None:
        weakref.finalize(unpacked, leases.release)
    return RecordIndex(first_sample, offset, length, unpacked)


def _unpacked_shards(shards: Shards, keys: list[str], entries: list[Entry]) -> Shards | None:
    if not any(entry.packing for entry in entries):
        return None
    paths: list[str] = shards.paths.to_pylist()
    sizes = shards.sizes.copy()
    for shard, entry in enumerate(entries):
        if entry.packing and (target := _unpacked_path(keys[shard])) is not None:
            paths[shard], sizes[shard] = target, entry.unpacked_bytes
    return Shards(pa.array(paths, type=pa.large_string()), sizes, shards.versions)
