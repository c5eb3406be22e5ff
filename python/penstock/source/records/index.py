"""Where the records of files without an index of their own lie: native indexing on first use, cached for this user.

What is particular to a format is its `Framing`. Files that were packed as a whole are unpacked once to the cache and read from
there (see `unpack`); they stay as long as what was opened is in use. Files that lie elsewhere are read once, whole, for their index.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.files.progress import BRIEF_BYTES, watched
from penstock.core.files.setup_times import timed
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.decompress import unpack_files
from penstock.derived.decompressed_shards import with_unpacked
from penstock.derived.downloads import Bringing, for_each_shard, naming
from penstock.derived.file_indexes import IndexedFile, load_entry, shard_key, store_entry
from penstock.derived.files import DerivedFiles
from penstock.derived.lock import one_maker
from penstock.source.manifest import Manifest

#: Files beside shards that are asked for at once.
_STATED_TOGETHER = 16


#: A native indexer, which visits every record of every file once: (paths, sizes, record_bytes=, threads=, progress=) -> where each
#: file's first record begins (left out where that is always byte 0), records of each file, and the length of each record, file after
#: file. Records lie without gaps; frames and padding belong to their record. Raises DataError for the first damaged frame.
IndexFiles = Callable[..., tuple[Ids, ...]]

#: The length of each record of a shard as a file beside it states them; None without such a file, or if it cannot be right.
StatedLengths = Callable[[Shards, int, ByteRanges, Options], Ids | None]


@dataclass(frozen=True, kw_only=True)
class Framing:
    """How a format's records follow each other.

    kind: the format; names the index's entries in the cache, with `settings`, which are the options that the entries depend on. version:
    changes when the meaning of an entry does. packing: how each file is packed as a whole (see `kernels.recognise_packing`),
    0 not at all; None if the format is never packed. stated: what spares reading a file that lies elsewhere whole. empty: what is wrong
    where there are no records, with {files} for their number.
    """

    kind: str
    version: int
    index: IndexFiles
    packing: Callable[[list[str], int], Ids] | None = None
    settings: str = ""
    stated: StatedLengths | None = None
    empty: str = "no records in {files} file(s); write some, or point to others"


def index_shards(shards: Shards, read: ByteRanges, options: Options, framing: Framing) -> Manifest:
    """Indexes shards, from the cache where it has them.

    Raises SourceError if there is no record at all; DataError naming file, record and byte of the first damaged frame; OSError (ENOSPC)
    where unpacked files, or one that is here for its index only, would fill the disk.
    """
    if len(shards) == 0:
        raise SourceError(f"no {framing.kind} files to read")
    folder = cache_folder("index")
    named = [shard_key(framing.kind + framing.settings, framing.version, shards, shard) for shard in range(len(shards))]
    keys = [key or uuid.uuid4().hex for key in named]
    with _Unpacked(shards.path(0)) as unpacked:
        entries = _known_entries(folder, shards, named, unpacked, options)
        if len(entries) < len(shards):
            with one_maker(folder, filter(None, named)) if folder and any(named) else nullcontext():
                entries = _known_entries(folder, shards, named, unpacked, options)
                missing = np.array([shard for shard in range(len(shards)) if shard not in entries], dtype=np.int64)
                job = _Job(options, framing, unpacked)
                made = _made_entries(shards, missing, [keys[shard] for shard in missing], read, job)
                for shard, entry in zip(missing.tolist(), made, strict=True):
                    entries[shard] = entry
                    if named[shard] is not None:
                        store_entry(folder, keys[shard], entry)
        packed = {shard: keys[shard] for shard in range(len(shards)) if entries[shard].packing}
        stored = with_unpacked(shards, unpacked.held(packed.values()), packed) if packed else None
    first_sample, offset, length = _joined([entries[shard] for shard in range(len(shards))])
    if not len(length):
        raise SourceError(f"{shards.path(0)}: {framing.empty.format(files=f'{len(shards):,}')}")
    return Manifest(framing.kind, shards, first_sample, offset, length, stored)


class _Unpacked(ExitStack):
    """Unpacked files in the cache, which stay there until this ends."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def files(self, keys: Iterable[str]) -> DerivedFiles:
        """The files of these names."""
        files = self.held(keys)
        self.callback(files.release)
        return files

    def held(self, keys: Iterable[str]) -> DerivedFiles:
        """The same, which stay until they are released."""
        return DerivedFiles("unpacked", keys, self._where, "an unpacked file")


def _known_entries(
    folder: str | None, shards: Shards, named: Sequence[str | None], unpacked: _Unpacked, options: Options
) -> dict[int, IndexedFile]:
    """By shard, those in the cache that can be used: whose unpacked files are there, and no record (with its frame) is above the limit."""
    known = {
        shard: entry
        for shard, key in enumerate(named)
        if key and (entry := load_entry(folder, key)) is not None and entry.fits(int(shards.sizes[shard]))
    }
    sizes = {named[shard] or "": entry.unpacked_bytes for shard, entry in known.items() if entry.packing}
    gone = set(unpacked.files(sizes).missing(sizes)) if sizes else set()
    limit = options.limits.record_bytes
    return {
        shard: entry
        for shard, entry in known.items()
        if named[shard] not in gone and not (entry.length.size and int(entry.length.max()) > limit)
    }


def _made_entries(shards: Shards, missing: Ids, keys: list[str], read: ByteRanges, job: _Job) -> list[IndexedFile]:
    if not missing.size:
        return []
    if shards.is_local:
        read.check_files(shards, missing)
    return (job.entries if shards.is_local else job.entries_from_elsewhere)(shards.take(missing), keys, read)


@dataclass(frozen=True, eq=False)
class _Job:
    """Makes the entries of shards that the cache does not have."""

    options: Options
    framing: Framing
    unpacked: _Unpacked

    def entries(self, shards: Shards, keys: list[str], _: ByteRanges) -> list[IndexedFile]:
        """The entries of local files."""
        packing = np.zeros(len(shards), dtype=np.int64)
        if self.framing.packing is not None:
            packing = self.framing.packing(shards.paths.to_pylist(), usable_cpus())
        packed = np.flatnonzero(packing)
        if not packed.size:
            return self._indexed(shards, shards.paths.to_pylist(), shards.sizes, packing)
        packed_keys = [keys[shard] for shard in packed]
        files = self.unpacked.files(packed_keys)
        new = [key for key in packed_keys if files.size(key) is None]
        try:
            found = unpack_files(shards.take(packed), packing[packed], files, packed_keys, self.options)
            readable, sizes = shards.paths.to_pylist(), shards.sizes.copy()
            for shard, key, size in zip(packed.tolist(), packed_keys, found, strict=True):
                readable[shard], sizes[shard] = files.path(key), size
            return self._indexed(shards, readable, sizes, packing)
        except BaseException:
            files.remove(new)  # without an index nobody would read them
            raise

    @timed("index")
    def _indexed(self, shards: Shards, readable: list[str], sizes: Ids, packing: Ids) -> list[IndexedFile]:
        """The entries of files that can be read at these paths, where they have these sizes."""
        limit, total = self.options.limits.record_bytes, int(sizes.sum())
        with naming(shards, readable):
            *begin, counts, length = watched(
                kernels.WorkProgress(),
                lambda work: self.framing.index(
                    readable, sizes, record_bytes=limit, threads=usable_cpus(), progress=work
                ),
                self.options.progress,
                total,
                brief=total < BRIEF_BYTES,
            )
        parts = np.split(length, np.cumsum(counts)[:-1])
        starts = begin[0] if begin else np.zeros_like(counts)
        unpacked_bytes = np.where(packing, sizes, -1)
        columns = zip(parts, starts.tolist(), packing.tolist(), unpacked_bytes.tolist(), strict=True)
        return [IndexedFile(part, begin, kind, size) for part, begin, kind, size in columns]

    def entries_from_elsewhere(self, shards: Shards, keys: list[str], read: ByteRanges) -> list[IndexedFile]:
        """The entries of remote files, which are downloaded one by one unless an index lies beside them."""
        stated = self._stated(shards, read)
        rest = np.array([shard for shard in range(len(shards)) if stated[shard] is None], dtype=np.int64)

        def one(number: int, path: str, work: Bringing) -> IndexedFile:
            shard = rest[number : number + 1]
            here = Shards(pa.array([path], pa.large_string()), shards.sizes[shard], shards.versions[shard])
            quiet = replace(self.options, progress=lambda _, __: work.check())
            return replace(self, options=quiet).entries(here, [keys[shard[0]]], read)[0]

        made = for_each_shard(shards.take(rest), read, one, self.options.progress) if rest.size else []
        read.forget(shards.take(rest[[bool(entry.packing) for entry in made]]))
        found = iter(made)
        return [next(found) if length is None else IndexedFile(length) for length in stated]

    def _stated(self, shards: Shards, read: ByteRanges) -> list[Ids | None]:
        stated = self.framing.stated
        if stated is None:
            return [None] * len(shards)
        with ThreadPoolExecutor(_STATED_TOGETHER, thread_name_prefix="penstock-stated") as threads:
            return list(threads.map(lambda shard: stated(shards, shard, read, self.options), range(len(shards))))


def _joined(entries: list[IndexedFile]) -> tuple[Ids, Ids, Ids]:
    """The first sample of each shard, and where each record lies in its own."""
    first_sample = edges_of([entry.length.size for entry in entries])
    length = np.concatenate([entry.length for entry in entries])
    offset = np.cumsum(length)
    offset -= length
    for entry, first in zip(entries, first_sample[:-1].tolist(), strict=True):
        records = offset[first : first + entry.length.size]
        if records.size:
            records += entry.start - records[0]
    return first_sample, offset, length
