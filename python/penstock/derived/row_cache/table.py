"""Which rows are held, and where: arrays of one entry a row, in memory or in a file that processes share.

A row is there once its byte in `present` is 1, which is set last. The file begins with a header that says what is held.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.scratch import scratch_file

_MAGIC = b"PSTKROW1"
_HEAD = len(_MAGIC) + 16 + 8  # with the digest of the rest, and its length
_PAGE = 4096
_MOST_HEADER = 1 << 24


class Table:
    """place: of a row's columns of one shape; start, length: of each other column's bytes. sum, sums: CRC-32C of these; 0 in memory."""

    def __init__(self, rows: int, others: int, memory: npt.NDArray[np.uint8] | None = None, writes: bool = True) -> None:
        sizes = _sizes(rows, others)
        memory = np.zeros(sum(sizes), dtype=np.uint8) if memory is None else memory
        edges = np.cumsum([0, *sizes]).tolist()
        parts = [memory[low:high] for low, high in zip(edges[:-1], edges[1:], strict=True)]
        self.writes = writes
        self.present = parts[0][:rows]
        self.place = parts[1].view(np.int64)[:rows]
        self.start = parts[2].view(np.int64)[: rows * others].reshape(others, rows)
        self.length = parts[3].view(np.int64)[: rows * others].reshape(others, rows)
        self.sum = parts[4].view(np.uint32)[:rows]
        self.sums = parts[5].view(np.uint32)[: rows * others].reshape(others, rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in (self.present, self.place, self.start, self.length, self.sum, self.sums))


def _sizes(rows: int, others: int) -> list[int]:
    """Bytes of the arrays, each of whole pages."""
    counts = [rows, 8 * rows, 8 * rows * others, 8 * rows * others, 4 * rows, 4 * rows * others]
    return [-(-count // _PAGE) * _PAGE for count in counts]


def make_table(path: str, header: Mapping[str, Any], rows: int, others: int) -> None:
    """Makes the file of an empty table, unless there is one. OSError where there is no room."""
    text = json.dumps(header).encode()
    head = _MAGIC + hashlib.blake2b(text, digest_size=16).digest() + len(text).to_bytes(8, "little") + text
    begin = -(-len(head) // _PAGE) * _PAGE
    with scratch_file(path) as scratch:
        with open(scratch, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, begin + sum(_sizes(rows, others)))  # room that is lacking later would be a signal
            file.write(head)
        try:
            os.link(scratch, path)  # never in the place of one that is there
        except FileExistsError:
            pass


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
    try:
        file, writes = os.open(path, os.O_RDWR | os.O_CLOEXEC), True
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        file, writes = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
    try:
        if os.fstat(file).st_size != size:
            raise OSError(errno.EIO, f"{os.fstat(file).st_size:,} bytes where {size:,} belong", path)
        mapped = mmap.mmap(file, size, access=mmap.ACCESS_WRITE if writes else mmap.ACCESS_READ)
    finally:
        os.close(file)
    memory = np.frombuffer(mapped, dtype=np.uint8)
    watched = kernels.WatchedMemory(memory.ctypes.data, size, memory)  # what is cut off reads as zeros: no row is there
    return Table(rows, others, memory[begin:], writes), watched
