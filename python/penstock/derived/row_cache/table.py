"""Which rows are held, and where: arrays of one entry a row, in memory or in a file that processes share.

A row is there once its byte in `present` is 1, which is set last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.files.scratch import scratch_file
from penstock.derived.row_cache.spaces import PAGE, FileSpace


class Table:
    """start, sum: of a row's columns of one shape, and then of each other column, its first byte and CRC-32C, which is 0 in memory. length: of the others.

    file: what holds the arrays, which are written through it: a store into mapped memory that somebody cut off would end the process.
    """

    def __init__(self, rows: int, others: int, file: FileSpace | None = None) -> None:
        self.dtype, sizes = _dtype(others), _sizes(rows, others)
        self.file, self.nbytes, self._entries_at = file, sum(sizes), sizes[0]
        memory = np.zeros(self.nbytes, dtype=np.uint8) if file is None else file.table
        self.present = memory[:rows]
        self._entries = memory[sizes[0] :][: rows * self.dtype.itemsize].view(self.dtype)
        self.start, self.length, self.sum = (self._entries[name] for name in self.dtype.names or ())

    @property
    def writes(self) -> bool:
        """Whether rows can be added."""
        return self.file is None or self.file.writes

    @property
    def is_whole(self) -> bool:
        """Whether entries are what was written."""
        return self.file is None or self.file.is_whole

    def write(self, rows: Ids, entries: npt.NDArray[Any], can: npt.NDArray[np.bool_]) -> None:
        """Notes where rows lie, and then that those are there that `can` be had. OSError where that fails."""
        if self.file is None:
            self._entries[rows] = entries
        else:
            self.file.write(rows, entries, self._entries_at)
        self.mark(rows[can], 1)

    def mark(self, rows: Ids, value: int) -> None:
        """Whether rows are there."""
        if self.file is None:
            self.present[rows] = value
        else:
            self.file.write(rows, np.full(len(rows), value, dtype=np.uint8), 0)


def _dtype(others: int) -> np.dtype[Any]:
    """An entry of a row."""
    return np.dtype([("start", "<i8", (1 + others,)), ("length", "<i8", (others,)), ("sum", "<u4", (1 + others,))])


def _sizes(rows: int, others: int) -> list[int]:
    """Bytes of the arrays, each of whole pages: a byte a row, and an entry."""
    return [-(-count // PAGE) * PAGE for count in (rows, rows * _dtype(others).itemsize)]


def make_table(path: str, facts: Mapping[str, Any], rows: int, others: int) -> None:
    """Makes the file of an empty table, unless there is one. OSError where there is no room."""
    with scratch_file(path) as scratch:
        FileSpace.make(scratch, facts, sum(_sizes(rows, others)))
        with contextlib.suppress(FileExistsError):
            os.link(scratch, path)  # never in the place of one that is there
