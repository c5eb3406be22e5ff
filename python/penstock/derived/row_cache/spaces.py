"""Where the bytes of rows lie: in memory, or in a file to which several processes append.

head     of a file of rows (see `derived.row_file`), and at `_LEAST` how long this one is at least
facts    what is in it, and where its table is
table    see `table`
mark     the magic again: it is missing where somebody cut the table, also if the file grew afterwards
bytes    of rows, which processes append
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Bytes, Ids
from penstock.derived.row_file import HEAD_BYTES, MAGIC, read_facts, write_facts

#: A place in memory is the number of a piece, and the place in it.
_BITS = 38
_IN_PIECE = (1 << _BITS) - 1
#: A file that grows is mapped anew; others may still read by so many mappings before.
_MAPS = 4
PAGE = 4096
_LEAST = HEAD_BYTES
_FACTS = _LEAST + 8
#: What facts of the table take at most.
_FACTS_OF_TABLE = 80


class Space(Protocol):
    """Bytes at places. size_bytes: of all."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all that was appended."""

    def append(self, data: Bytes, width: int = 1) -> int:
        """Where the bytes lie from now on: a multiple of the width. OSError where there is no room."""

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

    def append(self, data: Bytes, width: int = 1) -> int:
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


class FileSpace:
    """See `Space`. A process reserves a part of the file under its lock, and fills it then. facts: what is in the file; table: the bytes of its table.

    OSError for a file that is shorter than it was: rows that others have found there are gone, and nothing may take their place. ValueError
    for one that is damaged.
    """

    def __init__(self, path: str) -> None:
        try:
            self._file, self.writes = os.open(path, os.O_RDWR | os.O_CLOEXEC), True
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            self._file, self.writes = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
        self.path, self._lock = path, threading.Lock()
        with open(self._file, "rb", closefd=False) as file:
            self.facts = read_facts(file)
        self._table_at = int(self.facts["table_at"])
        self._mark = self._table_at + int(self.facts["table_bytes"])
        self._check_length()
        self._mapped: Bytes = np.empty(0, dtype=np.uint8)
        self._watched: deque[kernels.WatchedMemory] = deque(maxlen=_MAPS)
        table, self._table = self._watch(self._mark)
        self.table = table[self._table_at :]

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    @staticmethod
    def make(path: str, facts: Mapping[str, Any], table_bytes: int) -> None:
        """Fills an empty file. OSError where there is no room."""
        table_at = -(-(_FACTS + len(json.dumps(facts)) + _FACTS_OF_TABLE) // PAGE) * PAGE
        mark = table_at + table_bytes
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, mark)  # what is lacking is said now
            write_facts(file, {**facts, "table_at": table_at, "table_bytes": table_bytes}, _FACTS)
            file.seek(_LEAST)
            file.write((mark + len(MAGIC)).to_bytes(8, "little"))
            file.seek(mark)
            file.write(MAGIC)

    @property
    def end(self) -> int:
        """How long the file is."""
        return os.fstat(self._file).st_size

    @property
    def size_bytes(self) -> int:
        """Bytes behind the table."""
        return self.end - self._mark

    @property
    def is_whole(self) -> bool:
        """Whether nobody cut the table: what is behind it is written once, and never again."""
        return os.pread(self._file, len(MAGIC), self._mark) == MAGIC

    def _check_length(self) -> None:
        if not self.is_whole or self.end < int.from_bytes(os.pread(self._file, 8, _LEAST), "little"):
            raise OSError(errno.EIO, "cut after it was written", self.path)

    def write(self, rows: Ids, entries: npt.NDArray[Any], at: int) -> None:
        """Entries of one size in the table, from there on behind each other in the order of their rows."""
        turn = np.argsort(rows, kind="stable")
        rows, data, size = rows[turn], np.ascontiguousarray(entries[turn]).view(np.uint8).data, entries.itemsize
        edges = np.concatenate([[0], np.flatnonzero(np.diff(rows) != 1) + 1, [len(rows)]]).tolist()
        first = (rows * size + (self._table_at + at)).tolist()
        for low, high in pairwise(edges):
            if high > low:
                os.pwrite(self._file, data[low * size : high * size], first[low])

    def append(self, data: Bytes, width: int = 1) -> int:
        """Where they lie. What a killed process reserved and did not fill belongs to no row."""
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                self._check_length()
                place = -(-self.end // width) * width
                os.ftruncate(self._file, place + data.nbytes)
                os.pwrite(self._file, (place + data.nbytes).to_bytes(8, "little"), _LEAST)
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
            with self._lock:
                if (size := self.end) > len(self._mapped):
                    self._mapped, watched = self._watch(size)
                    self._watched.append(watched)
        return [self._mapped], np.zeros_like(place), place

    def _watch(self, size: int) -> tuple[Bytes, kernels.WatchedMemory]:
        """The file, mapped: whoever cuts it meanwhile gets zeros read, not a signal, as long as the second is kept."""
        mapped = np.frombuffer(mmap.mmap(self._file, size, access=mmap.ACCESS_READ), dtype=np.uint8)
        return mapped, kernels.WatchedMemory(mapped.ctypes.data, size, mapped)

    @property
    def is_lost(self) -> bool:
        """Whether the file was cut while it was read."""
        return bool(kernels.lost_memory()) and any(watched.is_lost for watched in [*self._watched])
