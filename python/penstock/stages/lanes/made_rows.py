"""What came out of a lane stage, until it is taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.batch.merge import Allocate, gather_columns
from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.errors import DataError, PlanError
from penstock.runtime.stage import LaneResult


@dataclass(frozen=True, eq=False)
class _MadePiece:
    """Rows that came out together: of lane l, rows [first[l], end[l]) of its output are rows begin[l], begin[l] + 1, … of `rows`, which are rows of the columns."""

    columns: Columns
    rows: Ids
    first: Ids
    end: Ids
    begin: Ids
    size_bytes: int

    def find(self, lane: Ids, row: Ids) -> tuple[Ids, Ids]:
        """Which of some rows of lanes it has, by their numbers, and the rows of its columns that they are."""
        mine = np.flatnonzero((row >= self.first[lane]) & (row < self.end[lane]))
        return mine, self.rows[(self.begin - self.first)[lane[mine]] + row[mine]]


class MadeRows:
    """Rows of a stage's output in pieces, as they came. name: of the stage. count_bytes: counts a piece's bytes until it is gone."""

    def __init__(self, name: str, count_bytes: Callable[[Any, int], None], *, threads: int) -> None:
        self._name, self._count_bytes, self._threads = name, count_bytes, threads
        self.spec: Spec = {}
        self._pieces: deque[_MadePiece] = deque()

    @property
    def held_bytes(self) -> int:
        """Bytes of what is not all taken."""
        return sum(piece.size_bytes for piece in self._pieces)

    def check(self, made: LaneResult) -> None:
        """PlanError for columns that differ from those of rows before."""
        if not len(made.rows):
            return
        if self.spec and made.spec != self.spec:
            raise PlanError(
                f"{self._name}: gave {_shown(made.spec)}, after {_shown(self.spec)}; return the same columns for all rows"
            )
        self.spec = made.spec

    def keep(self, made: LaneResult, first: Ids, end: Ids, begin: Ids) -> None:
        """Keeps what came: rows [first[l], end[l]) of lane l's output, which begin at begin[l] of what was made."""
        if not len(made.rows):
            return
        size = made.size_bytes
        piece = _MadePiece(made.columns, made.rows, first, end, begin, size)
        self._count_bytes(piece, size)
        self._pieces.append(piece)

    def take(self, lane: Ids, row: Ids, allocate: Allocate) -> Columns:
        """Columns of rows of lanes, all of which came."""
        which, at = np.zeros(len(row), dtype=np.int64), np.zeros(len(row), dtype=np.int64)
        pieces, found = [*self._pieces], 0
        for number, piece in enumerate(pieces):
            mine, rows = piece.find(lane, row)
            which[mine], at[mine] = number, rows
            found += len(mine)
        if found != len(row):
            raise DataError(
                f"{self._name}: {len(row) - found:,} rows that it gave are lost; report this to the maintainers"
            )
        return gather_columns(
            [piece.columns for piece in pieces], which, at, self.spec, allocate, threads=self._threads
        )

    def forget_before(self, row: Ids) -> None:
        """Drops the first pieces of which no row from these on, one a lane, is left."""
        while self._pieces and (self._pieces[0].end <= row).all():
            self._pieces.popleft()

    def clear(self) -> None:
        """Drops all; the columns stay known."""
        self._pieces = deque()


def _shown(spec: Spec) -> str:
    return ", ".join(f"{name}: {field}" for name, field in spec.items()) or "nothing"
