"""Byte ranges of files, local or remote: the interface through which formats read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns.spec import Bytes, Ids, Spans
from penstock.core.errors import SourceError
from penstock.core.files.shards import Shards
from penstock.core.files.traffic import Traffic

#: Finds single files by path or URL: returns their listing, in the given order, and a reader of them.
Locate = Callable[[Sequence[str]], tuple[Shards, "ByteRanges"]]


#: Reports progress: (done, total) in bytes or files.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class FileRanges:
    """Byte ranges of a listing's files and where they go, all int64: length[i] bytes from offset[i] of file shard[i], to at[i] of a buffer."""

    shard: Ids
    offset: Ids
    length: Ids
    at: Ids

    @classmethod
    def one_by_one(cls, shard: Ids, offset: Ids, length: Ids) -> FileRanges:
        """Ranges that fill a buffer one behind the other."""
        return cls(shard, offset, length, np.cumsum(length) - length)

    def __len__(self) -> int:
        return len(self.shard)

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them together."""
        return int(self.length.sum())

    def part(self, low: int, high: int) -> FileRanges:
        """Ranges [low, high), one behind the other."""
        return self.one_by_one(self.shard[low:high], self.offset[low:high], self.length[low:high])


class ByteRanges:
    """Byte ranges of files, local or remote: what formats read by. Called, it reads many of them at once.

    This class reads by a function, and of nothing if there is none (data in memory). `storage.storage_ranges.StorageRanges` reads from
    a storage, and `source.checks.ranges.CheckedRanges` checks what another one reads.
    """

    def __init__(self, read: Callable[[Shards, Ids, Ids, Ids, Bytes, Ids], None] | None = None) -> None:
        self._read = read

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Fill out[at[i] : at[i] + length[i]] with length[i] bytes of shards[shard[i]] from offset[i], in native threads.

        Raises DataError with the file's name if it is missing, shorter than the range, or no longer of the size in `shards`.
        """
        if self._read is None:
            raise SourceError("a dataset in memory has no files to read")
        self._read(shards, shard, offset, length, out, at)

    def fill(self, shards: Shards, ranges: FileRanges, out: Bytes) -> None:
        """Read ranges to their places."""
        self(shards, ranges.shard, ranges.offset, ranges.length, out, ranges.at)

    @property
    def storage(self) -> Any:
        """The storage behind it; None for data in memory."""
        return None

    @property
    def traffic(self) -> Traffic | None:
        """Requests and bytes so far; None for local files, and for a storage that does not count them."""
        return None

    def forget(self, shards: Shards) -> None:
        """Evict files from the storage's cache, once a format has its own copies of them, so that nothing is cached twice."""

    def check(self, shards: Shards, shard: Ids, offset: Ids, length: Ids | np.int64) -> None:
        """Check ranges that a format reads by itself: DataError for the first that is not what its checksum says."""

    def check_files(self, shards: Shards, numbers: Ids | None = None) -> None:
        """Check whole files (all, or those of these numbers) that a format reads by itself."""
        shard = np.arange(len(shards), dtype=np.int64) if numbers is None else numbers
        self.check(shards, shard, np.zeros_like(shard), shards.sizes[shard])

    def has_checksums(self, shards: Shards, shard: int | None = None) -> bool:
        """Whether a file has checksums, so that it is worth reading here and not by a library; whether any has, if none is named."""
        return False

    def gone_file(self, shards: Shards) -> str | None:
        """A file that has checksums, but is not listed in its folder any more; None if there is none."""
        return None


def read_ranges(read: ByteRanges, shards: Shards, shard: Ids, offset: Ids, length: Ids) -> Spans:
    """Several byte ranges, read together into one buffer."""
    ranges = FileRanges.one_by_one(shard, offset, length)
    out = np.empty(ranges.size_bytes, dtype=np.uint8)
    read(shards, shard, offset, length, out, ranges.at)
    return Spans((out,), np.zeros(len(ranges), dtype=np.int64), ranges.at, length)


def first_bytes(shards: Shards, read: ByteRanges, size: int) -> list[bytes]:
    """The first bytes of every shard, all of a shorter one."""
    numbers = np.arange(len(shards), dtype=np.int64)
    found = read_ranges(read, shards, numbers, np.zeros_like(numbers), np.minimum(shards.sizes, size))
    return [found[shard] for shard in range(len(shards))]


def read_range(read: ByteRanges, shards: Shards, shard: int, offset: int, length: int) -> Bytes:
    """One byte range of one shard."""
    out = np.empty(length, dtype=np.uint8)
    number, begin, size, at = (np.array([one], dtype=np.int64) for one in (shard, offset, length, 0))
    read(shards, number, begin, size, out, at)
    return out
