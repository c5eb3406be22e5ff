"""Runs of ids, one after another: what `concat`, `take` and `skip` make of sources before anything shuffles them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.core.columns.spec import Ids


@dataclass(frozen=True)
class Segments:
    """Runs of ids, each (first id, count, distance from one to the next). Their rows are numbered from 0 on: a row's *place*.

    Segments(((10, 3, 1), (0, 2, 5))).ids(np.arange(5)) is [10, 11, 12, 0, 5]
    """

    runs: tuple[tuple[int, int, int], ...]

    @cached_property
    def rows(self) -> int:
        """Rows of all runs together."""
        return sum(count for _, count, _ in self.runs)

    @property
    def runs_with_rows(self) -> list[tuple[int, int, int]]:
        """The runs that are not empty."""
        return [run for run in self.runs if run[1]]

    @cached_property
    def is_identity(self) -> bool:
        """Whether ids are places."""
        return len(self.runs) == 1 and self.runs[0][::2] == (0, 1)

    @cached_property
    def first_id(self) -> int | None:
        """What ids are more than places, where that is the same for all."""
        first = self.runs[0][0] if self.runs else 0
        follow = zip(self.runs, self.edges.tolist(), strict=False)
        return first if all((start, distance) == (first + edge, 1) for (start, _, distance), edge in follow) else None

    @property
    def has_neighbours(self) -> bool:
        """Whether rows at neighbouring places are read together: they lie in one run."""
        return True

    @property
    def repeats(self) -> bool:
        """Whether an id comes several times."""
        return False

    @property
    def run_count(self) -> int:
        """Number of runs."""
        return len(self.runs)

    def read_by(self, _: int, __: Ids) -> Segments:
        """The same, however many rows are worth reading together, since a run lies in one source."""
        return self

    def rows_together(self, block_rows: int) -> int:
        """How many of the rows are read together, where so many of the source's are."""
        return block_rows

    def rows_read(self, block_rows: int) -> int:
        """How many rows a block of so many of these is."""
        return block_rows

    def joined(self, other: Segments) -> Segments:
        """These and then the others."""
        return Segments(self.runs + other.runs)

    def moved(self, by: int) -> Segments:
        """The same rows with ids that are larger by so much."""
        return Segments(tuple((first + by, count, distance) for first, count, distance in self.runs)) if by else self

    def sliced(self, first: int, count: int) -> Segments:
        """The rows [first, first + count), as far as there are any."""
        kept, begin = [], 0
        for start, rows, distance in self.runs:
            low, high = max(first, begin), min(first + count, begin + rows)
            if low < high:
                kept.append((start + (low - begin) * distance, high - low, distance))
            begin += rows
        return Segments(tuple(kept))

    def without(self, rows: Ids) -> Segments:
        """All but some rows, by their places in ascending order; of one run of neighbours."""
        ((start, count, distance),) = self.runs
        edges = np.concatenate([[-1], rows, [count]])
        spans = zip((edges[:-1] + 1).tolist(), np.diff(edges).tolist(), strict=True)
        return Segments(
            tuple((start + first * distance, length - 1, distance) for first, length in spans if length > 1)
        )

    def every(self, count: int) -> Segments:
        """Every count-th of the rows, from the first on."""
        kept, begin = [], 0
        for start, rows, distance in self.runs:
            skipped = -begin % count
            if skipped < rows:
                kept.append((start + skipped * distance, -(-(rows - skipped) // count), distance * count))
            begin += rows
        return Segments(tuple(kept))

    @cached_property
    def edges(self) -> Ids:
        """The place at which each run begins, and the end of all."""
        return np.cumsum([0, *(count for _, count, _ in self.runs)], dtype=np.int64)

    @cached_property
    def _table(self) -> Ids:
        """First id, count and distance of each run: int64 (3, runs)."""
        return np.array(self.runs, dtype=np.int64).reshape(-1, 3).T

    @cached_property
    def _columns(self) -> tuple[Ids, Ids, Ids, Ids]:
        """First id, end, distance and first place of each run, in the order of the first ids."""
        first, count, distance = self._table
        turn = np.argsort(first, kind="stable")
        return first[turn], (first + (count - 1) * distance + 1)[turn], distance[turn], self.edges[:-1][turn]

    def run_of(self, places: Ids) -> Ids:
        """The run of each place."""
        return np.searchsorted(self.edges[1:], places, side="right")

    def ids(self, places: Ids) -> Ids:
        """The ids at places."""
        if self.is_identity:
            return places
        run = self.run_of(places)
        first, _, distance = self._table
        return np.asarray(first[run] + (places - self.edges[run]) * distance[run])

    def places(self, ids: Ids) -> Ids:
        """The places of ids; -1 for those of no run."""
        if self.is_identity:
            return np.where(ids < self.rows, ids, -1)
        first, end, distance, place = self._columns
        run = np.maximum(np.searchsorted(first, ids, side="right") - 1, 0)
        steps, rest = np.divmod(ids - first[run], distance[run])
        return np.where((ids >= first[run]) & (ids < end[run]) & (rest == 0), place[run] + steps, -1)
