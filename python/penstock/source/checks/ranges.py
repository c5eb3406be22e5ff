"""Checksums checked where bytes enter: the `ByteRanges` that a format gets looks at every chunk that it reads for the first time.

What a format reads by itself, by a path, it asks to be checked before: `check_files` and `check_ranges`. A chunk is read and
checked once in a process; what happens to it later, in memory or on the disk, is not seen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns import compute as pc
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.files.traffic import Traffic
from penstock.core.warnings import warn
from penstock.source.checks.store import (
    CHUNK_BITS,
    CHUNK_BYTES,
    Checksums,
    FolderChecksums,
    by_folder,
    chunks_of,
    has_any,
    load_folder,
    names_of,
)

#: Chunks that are read and checked together: 16 MiB.
TOGETHER = 256

_DO = "copy the file again from where it is whole; if it was changed on purpose, touch it and run penstock index --checksums"


@dataclass(eq=False)
class CheckedFiles:
    """Files of a listing. start: for each the number of its first chunk in sums and verified, -1 where nothing is known of it.

    touched: which files were read while the dataset was opened. left: how many chunks were not verified yet.
    """

    shards: Shards
    read: ByteRanges
    start: Ids
    sums: Checksums
    verified: npt.NDArray[np.bool_] = field(init=False)
    touched: npt.NDArray[np.bool_] = field(init=False)
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.verified = np.zeros(len(self.sums), dtype=bool)
        self.touched = np.zeros(len(self.shards), dtype=bool)
        self.left = int(chunks_of(self.shards.sizes[self.start >= 0]).sum())
        self._lock = threading.Lock()

    def check(self, shard: Ids, offset: Ids, length: Ids | np.int64) -> None:
        """Checks the chunks in which byte ranges lie; DataError for the first that is not what it was."""
        if self.left <= 0:
            return
        start, size = self.start[shard], self.shards.sizes[shard]
        first = start + (offset >> CHUNK_BITS)
        last = start + ((np.minimum(offset + length, size) - 1) >> CHUNK_BITS)
        known = np.flatnonzero((start >= 0) & (length > 0) & (first <= last))
        new = known[~self.verified[first[known]] | ~self.verified[last[known]] | (last[known] - first[known] > 1)]
        chunks = last[new] - first[new] + 1
        chunk = np.repeat(first[new] - np.cumsum(chunks) + chunks, chunks) + np.arange(chunks.sum())
        owner = np.repeat(shard[new], chunks)
        new = np.flatnonzero(~self.verified[chunk])
        chunk, place = np.unique(chunk[new], return_index=True)
        owner = owner[new[place]]
        for begin in range(0, len(chunk), TOGETHER):
            self._verify(chunk[begin : begin + TOGETHER], owner[begin : begin + TOGETHER])

    def _verify(self, chunk: Ids, shard: Ids) -> None:
        number = chunk - self.start[shard]
        found = sums_of_chunks(self.shards, self.read, shard, number)
        if (bad := np.flatnonzero(found != self.sums[chunk])).size:
            raise self._damaged(
                int(shard[bad[0]]), int(number[bad[0]]), int(found[bad[0]]), int(self.sums[chunk[bad[0]]])
            )
        with self._lock:
            self.left -= int(np.count_nonzero(~self.verified[chunk]))
            self.verified[chunk] = True

    def _damaged(self, shard: int, number: int, found: int, wanted: int) -> DataError:
        begin = number * CHUNK_BYTES
        end = min(begin + CHUNK_BYTES, int(self.shards.sizes[shard]))
        what = f"their checksum is {found:#010x}, {wanted:#010x} was indexed"
        return DataError(f"{self.shards.path(shard)}, bytes {begin:,} to {end - 1:,}: {what}; {_DO}")


def bytes_of_chunks(shards: Shards, shard: Ids, number: Ids) -> Ids:
    """The length of the chunks `number` of files: the last of a file can be shorter."""
    length: Ids = np.minimum(shards.sizes[shard] - number * CHUNK_BYTES, CHUNK_BYTES)
    return length


def sums_of_chunks(shards: Shards, read: ByteRanges, shard: Ids, number: Ids) -> Checksums:
    """The CRC-32C of the chunks `number` of files, read together; neighbouring ones as one range."""
    offset, length = number * CHUNK_BYTES, bytes_of_chunks(shards, shard, number)
    at = np.cumsum(length) - length
    run = np.flatnonzero(np.append(True, (np.diff(shard) != 0) | (np.diff(number) != 1)))
    run_length = np.add.reduceat(length, run)
    buffer: Bytes = np.empty(int(length.sum()), dtype=np.uint8)
    read(shards, shard[run], offset[run], run_length, buffer, at[run])
    return kernels.crc32c_sums(buffer, at, length, usable_cpus())


class Checks:
    """All that is known of a dataset's files, listing by listing; what several readers of one dataset share.

    opening: whether it is noted which files are read, so that checksums can be made of all of them.
    """

    def __init__(self) -> None:
        self.listings: dict[int, CheckedFiles] = {}
        self.opening = True
        self._folders: dict[str, FolderChecksums | None] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process looks them up again."""
        return Checks, ()

    def files(self, shards: Shards, read: ByteRanges) -> CheckedFiles:
        """What is known of the files of a listing."""
        known = self.listings.get(id(shards))
        if known is None:
            with self._lock:
                known = self.listings.get(id(shards)) or self._looked_up(shards, read)
                self.listings[id(shards)] = known
        return known

    def folder(self, folder: str) -> FolderChecksums | None:
        """The checksums of a folder's files, if it has any."""
        if folder not in self._folders:
            self._folders[folder] = load_folder(folder)
        return self._folders[folder]

    def _looked_up(self, shards: Shards, read: ByteRanges) -> CheckedFiles:
        start = np.full(len(shards), -1, dtype=np.int64)
        sums: list[Checksums] = [np.empty(0, dtype=np.uint32)]
        before = 0
        for folder, numbers in by_folder(shards.paths) if has_any() else ():
            entry = self.folder(folder)
            if entry is None:
                continue
            part = shards.take(numbers)
            found = entry.find(names_of(part.paths), part.sizes, part.versions)
            start[numbers] = np.where(found >= 0, before + entry.first[found], -1)
            sums.append(entry.sums)
            before += len(entry.sums)
        return CheckedFiles(shards, read, start, np.concatenate(sums))


class CheckedRanges(ByteRanges):
    """Gives no byte of a chunk that is not what it was when its checksum was made."""

    def __init__(self, read: ByteRanges, checks: Checks) -> None:
        self.read, self.checks = read, checks

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Check, then read."""
        self.check(shards, shard, offset, length)
        self.read(shards, shard, offset, length, out, at)

    def check(self, shards: Shards, shard: Ids, offset: Ids, length: Ids | np.int64) -> None:
        """DataError for the first range that lies in a damaged chunk."""
        files = self.files(shards)
        if self.checks.opening:
            files.touched[shard] = True
        files.check(shard, offset, length)

    def files(self, shards: Shards) -> CheckedFiles:
        """What is known of the files of a listing."""
        return self.checks.files(shards, self.read)

    def has_checksums(self, shards: Shards, shard: int | None = None) -> bool:
        """Whether a file has checksums, or any has."""
        start = self.files(shards).start
        return bool((start >= 0).any() if shard is None else start[shard] >= 0)

    def gone_file(self, shards: Shards) -> str | None:
        """A file that has checksums, but is not listed in its folder any more."""
        for folder, numbers in by_folder(shards.paths) if has_any() else ():
            entry = self.checks.folder(folder)
            if entry is None:
                continue
            listed = names_of(shards.paths.take(pa.array(numbers)))
            for name in entry.names.filter(pc.invert(pc.is_in(entry.names, value_set=listed))).to_pylist():
                if not name.startswith(".") or (os.path.isabs(folder) and not os.path.exists(folder + name)):
                    return f"{folder}{name}"
        return None

    @property
    def storage(self) -> Any:
        """The storage behind it."""
        return self.read.storage

    @property
    def traffic(self) -> Traffic | None:
        """Requests and bytes so far."""
        return self.read.traffic

    def forget(self, shards: Shards) -> None:
        """Evict files from the storage's cache."""
        self.read.forget(shards)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Copies in other processes begin anew."""
        return _anew, (self.read,)


def _anew(read: ByteRanges) -> CheckedRanges:
    return CheckedRanges(read, Checks())


def warn_of_unknown(read: ByteRanges, shards: Shards) -> None:
    """Warns if some of the files have checksums and others do not."""
    if not isinstance(read, CheckedRanges):
        return
    unknown = np.flatnonzero(read.files(shards).start < 0)
    if 0 < unknown.size < len(shards):
        warn(
            f"{shards.path(int(unknown[0]))}: no checksums of it ({unknown.size:,} of {len(shards):,} files), since it is new or was "
            "changed; it is read unchecked until penstock index --checksums runs again"
        )
