"""Downloads whole files of a storage: temporarily, to be indexed, or to the cache, for libraries that need a file.

Files are read in long pieces, several at once. Files in the cache stay as long as the dataset is in use.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.errors import DataError, StorageError
from penstock.core.files.byte_ranges import ByteRanges, Progress, read_range
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.files.progress import watched
from penstock.core.files.scratch import check_room, room_errors
from penstock.core.files.setup_times import timed
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.file_indexes import shard_key
from penstock.derived.files import DerivedFiles

_T = TypeVar("_T")

#: Bytes of one read, which a storage may split.
_PIECE_BYTES = 16 << 20
#: How many pieces, and how many files, are read at once.
_PIECES, _FILES = 8, 4
#: A temporary file up to this size goes to memory if no disk has room for it.
_IN_MEMORY_BYTES = 32 << 20
_COPY = "a copy"


class _NeedlessError(Exception):
    """Another file has failed."""


class Bringing:
    """The bytes downloaded so far, and a way to stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = self._failed = False
        self.done = 0

    def stop(self) -> None:
        """End the work early."""
        self._stopped = True

    def fail(self) -> None:
        """Cancel what is in progress, since its result is no longer needed."""
        self._failed = True

    def check(self) -> None:
        """Raise if the work was cancelled: KeyboardInterrupt if it was stopped."""
        if self._stopped:
            raise KeyboardInterrupt
        if self._failed:
            raise _NeedlessError

    def add(self, size: int) -> None:
        """Count downloaded bytes."""
        self.check()
        with self._lock:
            self.done += size


@dataclass(frozen=True)
class _Desk:
    """What all downloads of one call share."""

    shards: Shards
    read: ByteRanges
    pieces: ThreadPoolExecutor
    work: Bringing

    def bring(self, shard: int, handle: int, folder: str) -> None:
        """Write a shard to an open file below `folder`; StorageError without room."""
        size, where = int(self.shards.sizes[shard]), self.shards.path(shard)
        with room_errors(where, folder, size, _COPY):
            check_room(where, folder, size, _COPY)
            self.fill(shard, handle)

    def fill(self, shard: int, handle: int) -> None:
        """Write a shard to an open file."""
        size = int(self.shards.sizes[shard])
        for _ in self.pieces.map(lambda at: self._piece(shard, at, handle), range(0, size, _PIECE_BYTES)):
            pass

    def _piece(self, shard: int, at: int, handle: int) -> None:
        self.work.check()
        size = min(_PIECE_BYTES, int(self.shards.sizes[shard]) - at)
        piece = read_range(self.read, self.shards, shard, at, size)
        written = 0
        while written < size:
            written += os.pwrite(handle, piece[written:].data, at + written)
        self.work.add(size)


def for_each_shard(
    shards: Shards, read: ByteRanges, use: Callable[[int, str, Bringing], _T], progress: Progress | None
) -> list[_T]:
    """Call use(shard, path, work) for every shard, whose bytes are at `path` during that call; `work.check` may stop it.

    A DataError with the path is raised again with the shard's name.
    """

    def brought(desk: _Desk, shard: int) -> _T:
        with _brought_file(desk, shard) as file:
            path = f"/dev/fd/{file.fileno()}"
            with naming(shards.take(np.array([shard])), [path]):
                return use(shard, path, desk.work)

    return _all(shards, read, brought, progress)


def _brought_file(desk: _Desk, shard: int) -> BinaryIO:
    """A shard's bytes in a file without a name: in the cache's folder, the temporary folder or memory, the first that has room."""
    folders = filter(None, dict.fromkeys((cache_folder("unpacked"), tempfile.gettempdir())))
    error = None
    for folder in folders:
        with contextlib.ExitStack() as left:
            try:
                with room_errors(desk.shards.path(shard), folder, int(desk.shards.sizes[shard]), _COPY):
                    file = left.enter_context(tempfile.TemporaryFile(dir=folder))
                desk.bring(shard, file.fileno(), folder)
            except StorageError as full:
                if full.errno != errno.ENOSPC:
                    raise
                error = error or full
            else:
                left.pop_all()
                return file
    if error is not None and (desk.shards.sizes[shard] > _IN_MEMORY_BYTES or not hasattr(os, "memfd_create")):
        raise error
    file = os.fdopen(os.memfd_create("penstock"), "w+b")
    try:
        desk.fill(shard, file.fileno())
    except BaseException:
        file.close()
        raise
    return file


def copies_of(shards: Shards, read: ByteRanges, options: Options) -> Shards:
    """Copies of all shards in the cache, each made once and kept while the answer is in use; local shards are their own.

    Raises SourceError without a cache, StorageError without room.
    """
    if shards.is_local:
        return shards
    keys = [shard_key("copy", 1, shards, shard) or uuid.uuid4().hex for shard in range(len(shards))]
    files = DerivedFiles("unpacked", keys, shards.path(0), _COPY)

    def download(missing: list[str]) -> None:
        place = {key: shard for shard, key in enumerate(keys)}
        part = shards.take(np.array([place[key] for key in missing], dtype=np.int64))

        def write(desk: _Desk, shard: int) -> None:
            size, where = int(part.sizes[shard]), part.path(shard)
            with files.writing(missing[shard], size, where) as scratch, open(scratch, "wb") as file:
                desk.fill(shard, file.fileno())

        _all(part, read, write, options.progress)
        read.forget(part)

    try:
        files.make(dict(zip(keys, shards.sizes.tolist(), strict=True)), download)
    except BaseException:
        files.release()
        raise
    paths = pa.array(map(files.path, keys), pa.large_string())
    copies = Shards(paths, shards.sizes, shards.versions, copied=np.ones(len(shards), dtype=bool))
    weakref.finalize(copies, files.release)
    return copies


@contextlib.contextmanager
def naming(shards: Shards, paths: Sequence[str]) -> Iterator[None]:
    """Raise a DataError on one of `paths`, which are made of the shards, on the shard itself."""
    try:
        yield
    except DataError as error:
        text = str(error)
        for shard, path in enumerate(paths):
            text = text.replace(path, shards.path(shard))
        raise DataError(text) from None


@timed("download")
def _all(shards: Shards, read: ByteRanges, use: Callable[[_Desk, int], _T], progress: Progress | None) -> list[_T]:
    """Call use(desk, shard) for every shard, several at once; raises the first error."""

    def run(work: Bringing) -> list[_T]:
        with (
            ThreadPoolExecutor(_PIECES, thread_name_prefix="penstock-bring") as pieces,
            ThreadPoolExecutor(_FILES, thread_name_prefix="penstock-brought") as files,
        ):
            desk = _Desk(shards, read, pieces, work)

            def one(shard: int) -> _T:
                try:
                    work.check()
                    return use(desk, shard)
                except BaseException:
                    work.fail()
                    raise

            futures = [files.submit(one, shard) for shard in range(len(shards))]
            errors = [future.exception() for future in futures]
        for error in errors:
            if error is not None and not isinstance(error, _NeedlessError):
                raise error
        return [future.result() for future in futures]

    return watched(Bringing(), run, progress, int(shards.sizes.sum()))
