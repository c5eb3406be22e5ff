"""Runs of ids, one after another: what `concat`, `take` and `skip` make of sources before anything shuffles them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.core.spec import Ids


@dataclass(frozen=True)
class Segments:
    """Runs of ids, each (first id, count). Their rows are numbered from 0 on: a row's *place*.

    Segments(((10, 3), (0, 2))).ids(np.arange(5)) is [10, 11, 12, 0, 1]
    """

    runs: tuple[tuple[int, int], ...]

    @cached_property
    def rows(self) -> int:
        """Rows of all runs together."""
        return sum(count for _, count in self.runs)

    @cached_property
    def is_identity(self) -> bool:
        """Whether ids are places."""
        return len(self.runs) == 1 and self.runs[0][0] == 0

    def joined(self, other: Segments) -> Segments:
        """These and then the others."""
        return Segments(self.runs + other.runs)

    def sliced(self, first: int, count: int) -> Segments:
        """The rows [first, first + count), as far as there are any."""
        kept, begin = [], 0
        for start, rows in self.runs:
            low, high = max(first, begin), min(first + count, begin + rows)
            if low < high:
                kept.append((start + low - begin, high - low))
            begin += rows
        return Segments(tuple(kept))

    @cached_property
    def edges(self) -> Ids:
        """The place at which each run begins, and the end of all."""
        return np.cumsum([0, *(count for _, count in self.runs)], dtype=np.int64)

    @cached_property
    def _by_id(self) -> tuple[Ids, Ids, Ids]:
        """Runs in the order of their ids: first id, end, and the first place less the first id."""
        first, count = np.array(self.runs, dtype=np.int64).reshape(-1, 2).T
        turn = np.argsort(first, kind="stable")
        return first[turn], (first + count)[turn], (self.edges[:-1] - first)[turn]

    def run_of(self, places: Ids) -> Ids:
        """The run of each place."""
        return np.searchsorted(self.edges[1:], places, side="right")

    def ids(self, places: Ids) -> Ids:
        """The ids at places."""
        if self.is_identity:
            return places
        shift = np.array([first for first, _ in self.runs], dtype=np.int64) - self.edges[:-1]
        return np.asarray(places + shift[self.run_of(places)])

    def places(self, ids: Ids) -> Ids:
        """The places of ids; -1 for those of no run."""
        if self.is_identity:
            return np.where(ids < self.rows, ids, -1)
        first, end, shift = self._by_id
        run = np.maximum(np.searchsorted(first, ids, side="right") - 1, 0)
        return np.where((ids >= first[run]) & (ids < end[run]), ids + shift[run], -1)
