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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.byte_ranges import Progress, ReadRanges, forget, read_range
from penstock.core.cache_dirs import cache_folder
from penstock.core.errors import DataError, SourceError, StorageError
from penstock.core.options import Options
from penstock.core.progress import watched
from penstock.core.scratch import check_room, one_maker, room_errors, scratch_file
from penstock.core.shards import Shards
from penstock.core.spec import Ids
from penstock.derived.entries import shard_key
from penstock.derived.lease import hold, make_room

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
    read: ReadRanges
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
    shards: Shards, read: ReadRanges, use: Callable[[int, str, Bringing], _T], progress: Progress | None
) -> list[_T]:
    """Call use(shard, path, work) for every shard, whose bytes are at `path` during that call; `work.check` may stop it.

    A DataError with the path is raised again with the shard's name.
    """

    def brought(desk: _Desk, shard: int) -> _T:
        with _brought_file(desk, shard) as file:
            path = f"/dev/fd/{file.fileno()}"
            with _named(path, shards.path(shard)):
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


def copies_of(shards: Shards, read: ReadRanges, options: Options) -> Shards:
    """Copies of all shards in the cache, each made once and held while the result is in use; local shards are their own.

    Raises SourceError without a cache, StorageError without room.
    """
    if shards.is_local:
        return shards
    folder = cache_folder("unpacked")
    if folder is None:
        raise SourceError(
            f"{shards.path(0)}: such a file is copied to the cache first, and there is no cache to use; set XDG_CACHE_HOME"
        )
    keys = [shard_key("copy", 1, shards, shard) or uuid.uuid4().hex for shard in range(len(shards))]
    paths = [os.path.join(folder, key) for key in keys]
    with room_errors(shards.path(0), folder, int(shards.sizes.sum()), _COPY):
        release = hold(folder, keys)
    try:
        if _missing(paths, shards).size:
            with one_maker(folder, keys):
                _download(shards, paths, read, options.progress)
    except BaseException:
        release()
        raise
    copies = Shards(
        pa.array(paths, pa.large_string()), shards.sizes, shards.versions, copied=np.ones(len(shards), dtype=bool)
    )
    weakref.finalize(copies, release)
    return copies


def _download(shards: Shards, paths: list[str], read: ReadRanges, progress: Progress | None) -> None:
    """Makes the copies that are not there."""
    missing, folder = _missing(paths, shards), os.path.dirname(paths[0])
    if not missing.size:
        return
    part = shards.take(missing)
    make_room(folder, int(part.sizes.sum()))

    def keep(desk: _Desk, number: int) -> None:
        target, size = paths[int(missing[number])], int(part.sizes[number])
        with room_errors(part.path(number), folder, size, _COPY), scratch_file(target) as scratch:
            with open(scratch, "wb") as file:
                desk.bring(number, file.fileno(), folder)
            os.replace(scratch, target)

    _all(part, read, keep, progress)
    forget(read, part)


def _missing(paths: list[str], shards: Shards) -> Ids:
    """The numbers (int64) of the shards of which no copy is there."""
    is_there = [_is_of_size(path, size) for path, size in zip(paths, shards.sizes.tolist(), strict=True)]
    return np.flatnonzero(~np.array(is_there, dtype=bool))


@contextlib.contextmanager
def told_of(shards: Shards, copies: Shards) -> Iterator[None]:
    """A DataError that names a copy is raised again naming its shard."""
    try:
        yield
    except DataError as error:
        text = str(error)
        if copies is not shards:
            for shard, path in enumerate(copies.paths.to_pylist()):
                text = text.replace(path, shards.path(shard))
        raise DataError(text) from None


def _is_of_size(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size == size
    except OSError:
        return False


@contextlib.contextmanager
def _named(path: str, where: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace(path, where)) from None


def _all(shards: Shards, read: ReadRanges, use: Callable[[_Desk, int], _T], progress: Progress | None) -> list[_T]:
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
