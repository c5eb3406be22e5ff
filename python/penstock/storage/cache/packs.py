"""The cache's packs: files of one size that hold many pieces, so that small objects do not become small files.

One process at a time writes a pack, from its beginning on, and holds its lock meanwhile. Pieces are never moved; an evicted one
becomes a hole in the file. If the file system makes no holes, whole packs are evicted.

Thread-safe: one lock guards names and the table of paths made of them, another the pack that is written.
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
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.files.scratch import unlock
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
#: The use of a pack is recorded at most this often.
_NOTED_S = 60.0


class LostPackError(OSError):
    """The current pack was released or removed by another thread."""


class Packs:
    """The packs of a folder, each with a number in this process."""

    def __init__(self, folder: str) -> None:
        self._folder, self._pack_bytes = folder, 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._number: dict[int, int] = {}
        self._names: list[int] = []
        self._table: tuple[Ids, Bytes, Ids] | None = None
        self._noted: dict[int, float] = {}
        self._file, self._current, self._position = -1, -1, 0
        self._naming, self._writing = threading.Lock(), threading.RLock()

    def __del__(self) -> None:
        self.close()

    def forked(self) -> None:
        """Leave the current pack to the parent of a fork, which holds its lock, and forget what is known of packs."""
        if self._file >= 0:
            os.close(self._file)
        self._begin_anew()

    def resize(self, pack_bytes: int) -> None:
        """Set the size of all packs of the folder."""
        if pack_bytes != self._pack_bytes:
            self.close()
            with self._naming:
                self._pack_bytes, self._table = pack_bytes, None

    def numbers(self, names: Ids) -> Ids:
        """The numbers of packs by the names that the journal has for them."""
        some, which = np.unique(names, return_inverse=True)
        return np.array([self._number_of(name) for name in some.tolist()], dtype=np.int64)[which]

    def names(self, numbers: Ids) -> Ids:
        """The names of packs by their numbers."""
        with self._naming:
            return np.array(self._names, dtype=np.int64)[numbers]

    def path(self, number: int) -> str:
        """The path of a pack."""
        return os.path.join(self._folder, f"{self._names[number]:015x}.pack")

    def read(self, rows: Bytes, begin: Ids, length: Ids, out: Bytes, at: Ids) -> Ids:
        """Fill out[at[i] : at[i] + length[i]] from position begin[i] of the piece in row i of a table of `EXTENT`s.

        Every byte is compared with a checksum; returns the numbers of damaged pieces. OSError if a pack is missing.
        """
        damaged = kernels.read_pieces(*self._paths(), rows, begin, length, out, at, _IO_THREADS)
        self._note(distinct(rows.view(EXTENT)["pack"]))
        return damaged

    def _paths(self) -> tuple[Ids, Bytes, Ids]:
        """Paths and sizes of all packs that have a number."""
        with self._naming:
            if self._table is None:
                names = [self.path(number).encode() for number in range(len(self._names))]
                ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
                sizes = np.full(len(names), self._pack_bytes, dtype=np.int64)
                self._table = ends, np.frombuffer(b"".join(names), dtype=np.uint8), sizes
            return self._table

    def used_at(self) -> Ids:
        """When each pack was last written or read, in seconds since 1970 to about a minute; 0 for missing ones."""
        return np.array([_looked_up(self.path(number))[0] for number in range(len(self._names))], dtype=np.int64)

    def held_bytes(self) -> int:
        """The size on disk of all packs of the folder."""
        return sum(_looked_up(os.path.join(self._folder, name))[1] for name in self._listed())

    def lost(self, numbers: Ids) -> Ids:
        """The packs that are missing or have another size."""
        return np.array([n for n in distinct(numbers).tolist() if not self._is_there(n)], dtype=np.int64)

    # Writing; callers hold the cache's lock for all but `write`, and write from one thread at a time.

    def room(self) -> int:
        """Bytes that the current pack can still take."""
        with self._writing:
            return self._pack_bytes - self._position if self.is_current else 0

    def open(self, free: Sequence[tuple[int, int]]) -> None:
        """Continue one of the packs that no process writes, (number, end of its pieces), or start a new one."""
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
            raise OSError(errno.ENOLCK, "no pack could be created, since files cannot be locked here", self._folder)
        try:
            os.ftruncate(self._file, self._pack_bytes)
        except OSError:
            os.unlink(path)
            self.close()
            raise
        self._current, self._position = self._number_of(name), 0

    def reserve(self, sizes: Ids) -> tuple[int, Ids]:
        """Reserve room on the disk for pieces; returns the pack's number, and where each begins. OSError if the disk is full."""
        with self._writing:
            total, position = int(sizes.sum()), self._position + np.cumsum(sizes) - sizes
            _allocate(self._file, self._position, total)
            self._position += total
            return self._current, position

    def write(self, pack: int, first: int, buffers: Sequence[Any]) -> None:
        """Write pieces one after the other into reserved room. OSError if the disk is full even so."""
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
        """Free bytes [first, last) of a pack on the disk, if the file system can."""
        with contextlib.suppress(OSError, AttributeError), open(self.path(number), "r+b") as file:
            for first, last in holes:
                page, end = -(-first // PAGE_BYTES) * PAGE_BYTES, last // PAGE_BYTES * PAGE_BYTES
                if end > page:
                    _punch(file.fileno(), page, end - page)

    def sweep(self, used: Ids) -> None:
        """Remove packs without pieces that no process writes."""
        keep = {*self.names(used).tolist(), *(self.names(np.array([n]))[0] for n in (self._current,) if n >= 0)}
        for found in self._listed():
            if int(found[:15], 16) not in keep:
                with contextlib.suppress(OSError), open(os.path.join(self._folder, found), "r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(file.name)

    def remove_all(self) -> None:
        """Remove all packs, also those in writing, whose process then starts another."""
        self.close()
        for found in self._listed():
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, found))

    def close(self) -> None:
        """Release the current pack to other processes."""
        with self._writing:
            file, self._file = self._file, -1
            self._current, self._position = -1, 0
            if file >= 0:
                with contextlib.suppress(OSError):
                    unlock(file)

    def cut(self, number: int, end: int) -> None:
        """Free what a killed process wrote to a pack after its last piece, unless a process is writing it."""
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
        """Whether there is a current pack, and it was not removed."""
        with self._writing:
            try:
                return self._file >= 0 and os.path.samestat(os.stat(self.path(self._current)), os.fstat(self._file))
            except OSError:
                return False

    def is_writing(self, number: int) -> bool:
        """Whether a pack is the current one, and was not removed."""
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
    """Reserve room on the disk at once, so that other processes measure it; where that is impossible, writing takes it."""
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
