"""The cache's packs: files of one size in which many pieces lie, so that small objects do not become small files.

A pack is written by one process at a time, from its beginning on, and holds a lock meanwhile. Pieces are never moved; what is dropped
becomes a hole in the file. Where the file system makes no holes, whole packs go.

For several threads at once: one lock guards names and the table of paths made of them, another the pack that is written.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.scratch import unlock
from penstock.core.spec import Bytes, Ids
from penstock.storage.cache.extents import EXTENT
from penstock.storage.fetch.plan import distinct

_NAME = re.compile(r"([0-9a-f]{15})\.pack")
#: fallocate(2): FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE.
_PUNCH = 0x03
PAGE_BYTES = 4096
#: Buffers of one call of `pwritev`.
_TOGETHER = 512
#: Threads that read packs.
_IO_THREADS = 8
#: Each use of a pack is noted no more often than this.
_NOTED_S = 60.0


class LostPackError(OSError):
    """The pack that was being written is so no more: another thread has let go of it, or removed it."""


class Packs:
    """The packs of a folder, each known by a number in this process."""

    def __init__(self, folder: str) -> None:
        self._folder, self._pack_bytes = folder, 0
        self._number: dict[int, int] = {}
        self._names: list[int] = []
        self._table: tuple[Ids, Bytes, Ids] | None = None
        self._noted: dict[int, float] = {}
        self._file, self._current, self._position = -1, -1, 0
        self._naming, self._writing = threading.Lock(), threading.RLock()

    def __del__(self) -> None:
        self.close()

    def forked(self) -> None:
        """In the child of a fork: leaves the pack that is written to the parent, whose lock it is. What is known of packs goes as well."""
        if self._file >= 0:
            os.close(self._file)
        self._naming, self._writing = threading.Lock(), threading.RLock()
        self._file, self._current, self._position = -1, -1, 0
        self._number, self._names, self._table, self._noted = {}, [], None, {}

    def resize(self, pack_bytes: int) -> None:
        """Says how large all packs of the folder are."""
        if pack_bytes != self._pack_bytes:
            self.close()
            with self._naming:
                self._pack_bytes, self._table = pack_bytes, None

    def numbers(self, names: Ids) -> Ids:
        """The numbers of packs by the names that the journal has for them."""
        some, which = np.unique(names, return_inverse=True)
        return np.array([self._number_of(name) for name in some.tolist()], dtype=np.int64)[which]

    def names(self, numbers: Ids) -> Ids:
        """The other way round."""
        with self._naming:
            return np.array(self._names, dtype=np.int64)[numbers]

    def path(self, number: int) -> str:
        """Where a pack lies."""
        return os.path.join(self._folder, f"{self._names[number]:015x}.pack")

    def read(self, rows: Bytes, begin: Ids, length: Ids, out: Bytes, at: Ids) -> Ids:
        """Fills out[at[i] : at[i] + length[i]] from place begin[i] on of the piece in row i of a table of `EXTENT`s.

        Every byte is compared with a checksum; the numbers of those that are damaged. OSError if a pack is not there any more.
        """
        damaged = kernels.read_pieces(*self._paths(), rows, begin, length, out, at, _IO_THREADS)
        self._note(distinct(rows.view(EXTENT)["pack"]))
        return damaged

    def _paths(self) -> tuple[Ids, Bytes, Ids]:
        """Paths and sizes of all packs that have a number by now."""
        with self._naming:
            if self._table is None:
                names = [self.path(number).encode() for number in range(len(self._names))]
                ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
                sizes = np.full(len(names), self._pack_bytes, dtype=np.int64)
                self._table = ends, np.frombuffer(b"".join(names), dtype=np.uint8), sizes
            return self._table

    def used_at(self) -> Ids:
        """When each pack was written or read last, in seconds since 1970 to about a minute; 0 for those that are gone."""
        return np.array([_looked_up(self.path(number))[0] for number in range(len(self._names))], dtype=np.int64)

    def held_bytes(self) -> int:
        """Bytes of the disk that all packs of the folder take."""
        return sum(_looked_up(os.path.join(self._folder, name))[1] for name in self._listed())

    def lost(self, numbers: Ids) -> Ids:
        """Those packs that are not there any more, or are not of their size."""
        return np.array([n for n in distinct(numbers).tolist() if not self._is_there(n)], dtype=np.int64)

    # Writing; callers hold the cache's lock for all but `write`, and write from one thread at a time.

    def room(self) -> int:
        """Bytes that the current pack can still take."""
        with self._writing:
            return self._pack_bytes - self._position if self.is_current else 0

    def open(self, free: Sequence[tuple[int, int]]) -> None:
        """Goes on with one of the packs that nobody writes, (number, end of its pieces), or begins a new one."""
        with self._writing:
            self.close()
            for number, end in free:
                if end < self._pack_bytes // 2 and self._is_there(number) and self._take(self.path(number), os.O_RDWR):
                    self._current, self._position = number, end
                    return
            self._begin(secrets.randbits(60))

    def _begin(self, name: int) -> None:
        path = os.path.join(self._folder, f"{name:015x}.pack")
        if not self._take(path, os.O_RDWR | os.O_CREAT | os.O_EXCL):
            raise OSError(errno.ENOLCK, "no pack could be made, since files cannot be locked here", self._folder)
        try:
            os.ftruncate(self._file, self._pack_bytes)
        except OSError:
            os.unlink(path)
            self.close()
            raise
        self._current, self._position = self._number_of(name), 0

    def reserve(self, sizes: Ids) -> tuple[int, Ids]:
        """Takes room of the disk for pieces: the pack's number, and where each begins. OSError if the disk is full."""
        with self._writing:
            total, position = int(sizes.sum()), self._position + np.cumsum(sizes) - sizes
            _allocate(self._file, self._position, total)
            self._position += total
            return self._current, position

    def write(self, pack: int, first: int, buffers: Sequence[Any]) -> None:
        """Writes pieces one behind the other to where there is room for them. OSError if the disk is full all the same."""
        with self._writing:
            if pack != self._current:
                raise LostPackError(errno.ESTALE, "the pack was given up", self._folder)
            for begin in range(0, len(buffers), _TOGETHER):
                some = buffers[begin : begin + _TOGETHER]
                size = sum(map(len, some))
                if os.pwritev(self._file, some, first) != size:
                    raise OSError(errno.ENOSPC, "no room on the disk", self._folder)
                first += size

    def punch(self, number: int, holes: Sequence[tuple[int, int]]) -> None:
        """Gives bytes [first, last) of a pack back to the disk, where the file system can."""
        with contextlib.suppress(OSError, AttributeError), open(self.path(number), "r+b") as file:
            for first, last in holes:
                page, length = (
                    -(-first // PAGE_BYTES) * PAGE_BYTES,
                    last // PAGE_BYTES * PAGE_BYTES + -first // PAGE_BYTES * PAGE_BYTES,
                )
                if length > 0:
                    _punch(file.fileno(), page, length)

    def sweep(self, used: Ids) -> None:
        """Removes packs without pieces that nobody writes."""
        keep = {*self.names(used).tolist(), *(self.names(np.array([n]))[0] for n in (self._current,) if n >= 0)}
        for found in self._listed():
            if int(found[:15], 16) not in keep:
                with contextlib.suppress(OSError), open(os.path.join(self._folder, found), "r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(file.name)

    def remove_all(self) -> None:
        """Removes all packs, also those that somebody writes, who then begins another one."""
        self.close()
        for found in self._listed():
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, found))

    def close(self) -> None:
        """Lets others go on with the current pack."""
        with self._writing:
            file, self._file = self._file, -1
            self._current, self._position = -1, 0
            if file >= 0:
                with contextlib.suppress(OSError):
                    unlock(file)

    def cut(self, number: int, end: int) -> None:
        """Gives back what a killed process wrote to a pack behind its last piece; not of a pack that somebody writes."""
        with contextlib.suppress(OSError), open(self.path(number), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _punch(file.fileno(), -(-end // PAGE_BYTES) * PAGE_BYTES, self._pack_bytes)

    def _take(self, path: str, flags: int) -> bool:
        try:
            file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._file = file
        return True

    @property
    def is_current(self) -> bool:
        """Whether there is a current pack, and nobody removed it."""
        with self._writing:
            try:
                return self._file >= 0 and os.path.samestat(os.stat(self.path(self._current)), os.fstat(self._file))
            except OSError:
                return False

    def is_writing(self, number: int) -> bool:
        """Whether a pack is the current one, and nobody removed it."""
        with self._writing:
            return number == self._current and self.is_current

    def _is_there(self, number: int) -> bool:
        try:
            return os.stat(self.path(number)).st_size == self._pack_bytes
        except OSError:
            return False

    def _number_of(self, name: int) -> int:
        with self._naming:
            if name not in self._number:
                self._names.append(name)
                self._number[name] = len(self._names) - 1
                self._table = None
            return self._number[name]

    def _listed(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if _NAME.fullmatch(name)]
        except OSError:
            return []

    def _note(self, pack: Ids) -> None:
        now = time.monotonic()
        for number in pack.tolist():
            if now - self._noted.get(number, -_NOTED_S) >= _NOTED_S:
                self._noted[number] = now
                with contextlib.suppress(OSError):
                    os.utime(self.path(number))


def _looked_up(path: str) -> tuple[int, int]:
    """Modification time in seconds, and bytes on the disk."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return int(found.st_mtime), found.st_blocks * 512


def _allocate(file: int, first: int, length: int) -> None:
    """Takes room of the disk at once, so that others who count it see it; where that cannot be, it is taken when it is written to."""
    try:
        os.posix_fallocate(file, first, length)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            raise


def _punch(file: int, first: int, length: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None, use_errno=True)
    if library.fallocate(file, _PUNCH, ctypes.c_longlong(first), ctypes.c_longlong(length)):
        raise OSError(ctypes.get_errno(), "no hole could be made")
