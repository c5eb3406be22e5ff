"""Which rows are held, and where: arrays of one entry a row, in memory or in a file that processes share.

A row is there once its byte in `present` is 1, which is set last. The file begins with a header that says what is held.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.files.scratch import scratch_file

_MAGIC = b"PSTKROW1"
_HEAD = len(_MAGIC) + 16 + 8  # with the digest of the rest, and its length
_PAGE = 4096
_MOST_HEADER = 1 << 24


class Table:
    """place: of a row's columns of one shape; start, length: of each other column's bytes. sum, sums: CRC-32C of these; 0 in memory.

    memory: the arrays, where they are mapped from a file, which is written through `file`: a store into mapped memory that somebody cut off would end the process.
    """

    def __init__(self, rows: int, others: int, memory: Bytes | None = None, file: TableFile | None = None) -> None:
        self.dtype, sizes = _dtype(others), _sizes(rows, others)
        memory = np.zeros(sum(sizes), dtype=np.uint8) if memory is None else memory
        self._file, self._entries_at = file, sizes[0]
        self.present = memory[:rows]
        self._entries = memory[sizes[0] :][: rows * self.dtype.itemsize].view(self.dtype)
        self.place, self.start, self.length, self.sum, self.sums = (
            self._entries[name] for name in self.dtype.names or ()
        )
        self.nbytes = sum(sizes)

    @property
    def file(self) -> TableFile | None:
        """What writes the file; None in memory."""
        return self._file

    @property
    def writes(self) -> bool:
        """Whether rows can be added."""
        return self._file is None or self._file.writes

    @property
    def is_whole(self) -> bool:
        """Whether entries are what was written."""
        return self._file is None or self._file.is_whole

    def write(self, rows: Ids, entries: npt.NDArray[Any], can: npt.NDArray[np.bool_]) -> None:
        """Notes where rows lie, and then that those are there that `can` be had. OSError where that fails."""
        if self._file is None:
            self._entries[rows] = entries
        else:
            self._file.write(rows, entries, self._entries_at)
        self.mark(rows[can], 1)

    def mark(self, rows: Ids, value: int) -> None:
        """Whether rows are there."""
        if self._file is None:
            self.present[rows] = value
        else:
            self._file.write(rows, np.full(len(rows), value, dtype=np.uint8), 0)


class TableFile:
    """Writes entries of rows, and how long the files of their bytes must be. begin: where the arrays begin in the file; size: the bytes of all."""

    def __init__(self, path: str, begin: int, size: int) -> None:
        self._begin, self._ends_at = begin, size - _PAGE
        try:
            self.file, self.writes = os.open(path, os.O_RDWR | os.O_CLOEXEC), True
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            self.file, self.writes = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False

    def __del__(self) -> None:
        if hasattr(self, "file"):
            os.close(self.file)

    @property
    def is_whole(self) -> bool:
        """Whether nobody cut the table: its last bytes are written once, and never again."""
        return os.pread(self.file, len(_MAGIC), self._ends_at + _PAGE - len(_MAGIC)) == _MAGIC

    def end(self, number: int) -> int:
        """How long a file of bytes is at least, unless somebody cut it."""
        return int.from_bytes(os.pread(self.file, 8, self._ends_at + 8 * number), "little")

    def set_end(self, number: int, end: int) -> None:
        """It is so long from now on."""
        os.pwrite(self.file, end.to_bytes(8, "little"), self._ends_at + 8 * number)

    def write(self, rows: Ids, entries: npt.NDArray[Any], at: int) -> None:
        """Entries of one size, behind each other in the order of their rows."""
        turn = np.argsort(rows, kind="stable")
        rows, data, size = rows[turn], np.ascontiguousarray(entries[turn]).view(np.uint8).data, entries.itemsize
        edges = np.concatenate([[0], np.flatnonzero(np.diff(rows) != 1) + 1, [len(rows)]]).tolist()
        first = (rows * size + (self._begin + at)).tolist()
        for low, high in pairwise(edges):
            if high > low:
                os.pwrite(self.file, data[low * size : high * size], first[low])


def _dtype(others: int) -> np.dtype[Any]:
    """An entry of a row."""
    return np.dtype(
        [
            ("place", "<i8"),
            ("start", "<i8", (others,)),
            ("length", "<i8", (others,)),
            ("sum", "<u4"),
            ("sums", "<u4", (others,)),
        ],
    )


def _sizes(rows: int, others: int) -> list[int]:
    """Bytes of the arrays, each of whole pages: a byte a row, an entry, and behind them how long the files of bytes are."""
    return [-(-count // _PAGE) * _PAGE for count in (rows, rows * _dtype(others).itemsize, 1)]


def make_table(path: str, header: Mapping[str, Any], rows: int, others: int) -> None:
    """Makes the file of an empty table, unless there is one. OSError where there is no room."""
    text = json.dumps(header).encode()
    head = _MAGIC + hashlib.blake2b(text, digest_size=16).digest() + len(text).to_bytes(8, "little") + text
    begin = -(-len(head) // _PAGE) * _PAGE
    with scratch_file(path) as scratch:
        with open(scratch, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, begin + sum(_sizes(rows, others)))  # what is lacking is said now
            file.write(head)
            file.seek(-len(_MAGIC), os.SEEK_END)
            file.write(_MAGIC)
        with contextlib.suppress(FileExistsError):
            os.link(scratch, path)  # never in the place of one that is there


def read_header(path: str) -> dict[str, Any] | None:
    """The header; None for a file that is missing, of another kind or damaged."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            size = int.from_bytes(head[-8:], "little") if len(head) == _HEAD else 0
            if head[: len(_MAGIC)] != _MAGIC or not 0 < size <= _MOST_HEADER:
                return None
            text = file.read(size)
            if hashlib.blake2b(text, digest_size=16).digest() != head[len(_MAGIC) : len(_MAGIC) + 16]:
                return None
            found: dict[str, Any] = json.loads(text)
            return {**found, "header_bytes": _HEAD + size}
    except (OSError, ValueError):
        return None


def open_table(path: str, header: Mapping[str, Any], rows: int, others: int) -> tuple[Table, Any]:
    """The arrays of a file, and what keeps them mapped. Read alone where the file cannot be written; OSError where it is not as long as it must be."""
    begin = -(-int(header["header_bytes"]) // _PAGE) * _PAGE
    size = begin + sum(_sizes(rows, others))
    file = TableFile(path, begin, size)
    if (found := os.fstat(file.file).st_size) != size or not file.is_whole:
        raise OSError(errno.EIO, f"{found:,} bytes, of which some were cut, where {size:,} belong", path)
    memory = np.frombuffer(mmap.mmap(file.file, size, access=mmap.ACCESS_READ), dtype=np.uint8)
    watched = kernels.WatchedMemory(memory.ctypes.data, size, memory)  # what is cut off reads as zeros: no row is there
    return Table(rows, others, memory[begin:], file), watched
