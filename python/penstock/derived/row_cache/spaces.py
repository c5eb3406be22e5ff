"""Where the bytes of rows lie: in memory, or in a file to which several processes append."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from penstock.core import kernels
from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Bytes, Ids

#: A place in memory is the number of a piece, and the place in it.
_BITS = 38
_IN_PIECE = (1 << _BITS) - 1
#: A file that grows is mapped anew; others may still read by so many mappings before.
_MAPS = 4


class Space(Protocol):
    """Bytes at places. size_bytes: of all."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all that was appended."""

    def append(self, data: Bytes) -> int:
        """Where the bytes lie from now on. OSError where there is no room."""

    def find(self, place: Ids) -> tuple[Sequence[Bytes], Ids, Ids]:
        """Memory, which of it each place is in, and where in that."""

    @property
    def end(self) -> int:
        """No place that can be read is beyond this."""

    @property
    def is_lost(self) -> bool:
        """Whether some of it was there, and is gone."""


class MemorySpace:
    """See `Space`."""

    is_lost = False
    end = 1 << 63

    def __init__(self) -> None:
        self._pieces: list[Bytes] = []
        self.size_bytes = 0
        self._lock = threading.Lock()

    def append(self, data: Bytes) -> int:
        """A copy, since the memory of batches is used again."""
        copy = data.copy()
        with self._lock:
            self._pieces.append(copy)
            self.size_bytes += copy.nbytes
            return (len(self._pieces) - 1) << _BITS

    def find(self, place: Ids) -> tuple[Sequence[Bytes], Ids, Ids]:
        """The pieces that the places are in."""
        needed, which = distinct(place >> _BITS)
        return [self._pieces[number] for number in needed.tolist()], which, place & _IN_PIECE


class Ends(Protocol):
    """How long files of bytes are: see `table.TableFile`."""

    writes: bool

    @property
    def is_whole(self) -> bool:
        """Whether it is what was written."""

    def end(self, number: int) -> int:
        """How long a file is at least."""

    def set_end(self, number: int, end: int) -> None:
        """It is so long from now on."""


class FileSpace:
    """See `Space`. A process reserves a part of the file under its lock, and fills it then. ends, number: say how long the file is.

    OSError for a file that is shorter: rows that others have found there are gone, and nothing may take their place.
    """

    def __init__(self, path: str, ends: Ends, number: int) -> None:
        self.path, self._ends, self._number = path, ends, number
        flags = (os.O_RDWR | os.O_CREAT) if ends.writes else os.O_RDONLY
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._mapped: Bytes = np.empty(0, dtype=np.uint8)
        self._watched: deque[kernels.WatchedMemory] = deque(maxlen=_MAPS)
        self._check_length()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._file).st_size

    end = size_bytes

    def _check_length(self) -> None:
        if self.size_bytes < self._ends.end(self._number) or not self._ends.is_whole:
            raise OSError(errno.EIO, "cut after it was written", self.path)

    def append(self, data: Bytes) -> int:
        """Where they lie. What a killed process reserved and did not fill belongs to no row."""
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                self._check_length()
                place = os.fstat(self._file).st_size
                os.ftruncate(self._file, place + data.nbytes)
                self._ends.set_end(self._number, place + data.nbytes)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        left, at = memoryview(data.data), place
        while left:
            done = os.pwrite(self._file, left, at)
            left, at = left[done:], at + done
        return place

    def find(self, place: Ids) -> tuple[Sequence[Bytes], Ids, Ids]:
        """The whole file, mapped as far as it is written."""
        if len(place) and int(place.max()) >= len(self._mapped):
            self._map()
        return [self._mapped], np.zeros_like(place), place

    def _map(self) -> None:
        with self._lock:
            size = self.size_bytes
            if size <= len(self._mapped):
                return
            mapped = np.frombuffer(mmap.mmap(self._file, size, access=mmap.ACCESS_READ), dtype=np.uint8)
            # Whoever cuts the file meanwhile gets zeros read, not a signal.
            self._watched.append(kernels.WatchedMemory(mapped.ctypes.data, size, mapped))
            self._mapped = mapped

    @property
    def is_lost(self) -> bool:
        """Whether the file was cut while it was read."""
        return bool(kernels.lost_memory()) and any(watched.is_lost for watched in [*self._watched])
