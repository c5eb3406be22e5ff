"""Making checksums: every file of a dataset is read once, and an interrupted run continues with the files that it had not finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import ByteRanges, Progress
from penstock.core.files.shards import Shards
from penstock.source.checks.ranges import TOGETHER, CheckedFiles, CheckedRanges, bytes_of_chunks, sums_of_chunks
from penstock.source.checks.store import Checksums, chunks_of, store_files
from penstock.source.manifest import Manifest

#: Seconds of work that an interruption can cost, beyond what is being read.
_STORE_S = 10.0
#: Chunks of files whose checksums are made in one go (4 GiB), unless it is a single file.
_PART_CHUNKS = 1 << 16
#: Reads that run at once, so that one reads while the other counts.
_AT_ONCE = 2


@dataclass(frozen=True)
class BuiltChecksums:
    """Files and bytes that have checksums now, and how many of them were read for it."""

    files: int
    size_bytes: int
    read_files: int
    read_bytes: int


def build_checksums(manifest: Manifest, read: CheckedRanges, progress: Progress | None = None) -> BuiltChecksums:
    """Makes the checksums of all files that a dataset is read from, but for those that have them.

    Raises PlanError where they cannot be kept, DataError for a file that is gone or was changed meanwhile.
    """
    for listed in manifest.listings:
        read.files(listed).touched[:] = True
    seen: set[str] = set()
    listings = [(known, _not_in(known, seen)) for known in list(read.checks.listings.values())]
    missing = [(known, numbers[known.start[numbers] < 0]) for known, numbers in listings]
    total = sum(int(known.shards.sizes[numbers].sum()) for known, numbers in missing)
    done = 0
    with _stored() as add:
        for known, numbers in missing:
            for part in _parts(known.shards.take(numbers)):
                sums = []
                for found, size in _sums(part, known.read):
                    sums.append(found)
                    done += size
                    if progress is not None:
                        progress(done, total)
                add(part, np.concatenate([np.empty(0, dtype=np.uint32), *sums]))
    return BuiltChecksums(
        files=len(seen),
        size_bytes=sum(int(known.shards.sizes[numbers].sum()) for known, numbers in listings),
        read_files=sum(len(numbers) for _, numbers in missing),
        read_bytes=total,
    )


def _not_in(known: CheckedFiles, seen: set[str]) -> Ids:
    """The numbers of files that were read and are not among `seen`, to which they are added."""
    numbers = []
    for number in np.flatnonzero(known.touched).tolist():
        path = known.shards.path(number)
        if path not in seen:
            seen.add(path)
            numbers.append(number)
    return np.array(numbers, dtype=np.int64)


def _parts(shards: Shards) -> Iterator[Shards]:
    """Files in parts of so many chunks that their checksums are made in one go."""
    part = (np.cumsum(chunks_of(shards.sizes)) - 1) // _PART_CHUNKS
    for numbers in np.split(np.arange(len(shards), dtype=np.int64), np.flatnonzero(np.diff(part)) + 1):
        if len(numbers):
            yield shards.take(numbers)


def _sums(shards: Shards, read: ByteRanges) -> Iterator[tuple[Checksums, int]]:
    """The checksums of all chunks, file after file, in groups with the bytes that were read for each."""
    chunks = chunks_of(shards.sizes)
    shard = np.repeat(np.arange(len(shards), dtype=np.int64), chunks)
    number = np.arange(len(shard), dtype=np.int64) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    groups = [slice(begin, begin + TOGETHER) for begin in range(0, len(shard), TOGETHER)]

    def work(group: slice) -> Checksums:
        return sums_of_chunks(shards, read, shard[group], number[group])

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="penstock-checksums") as threads:
        for group, sums in zip(groups, threads.map(work, groups), strict=True):
            yield sums, int(bytes_of_chunks(shards, shard[group], number[group]).sum())


@contextmanager
def _stored() -> Iterator[Callable[[Shards, Checksums], None]]:
    """Takes the checksums of whole files; stores them every few seconds, and at the end, whatever ends it; PlanError where that cannot be."""
    pending: list[tuple[Shards, Checksums]] = []
    stored_at = time.monotonic()

    def add(shards: Shards, sums: Checksums) -> None:
        pending.append((shards, sums))
        if time.monotonic() - stored_at > _STORE_S:
            store()

    def store() -> None:
        nonlocal stored_at
        while pending:
            if not store_files(*pending.pop(0)):
                raise PlanError(
                    "the checksums could not be stored: is there a folder for them (XDG_CACHE_HOME), and room?"
                )
        stored_at = time.monotonic()

    try:
        yield add
    finally:
        store()
