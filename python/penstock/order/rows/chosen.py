"""Any ids, in any order, with repeats: what a filter, a split, a sample or a sort makes of sources before anything shuffles them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from penstock.core.columns.picked_rows import RowNumbers
from penstock.core.columns.spec import Ids
from penstock.order.rows.segments import Segments

#: Rows are read together where those between them are fewer than this part of what is worth reading together.
_BRIDGED = 4
#: Runs are of use for reading where they are so long on average.
_RUN_ROWS = 4


@dataclass(frozen=True, eq=False)
class Chosen:
    """See `segments.Segments`, which answers the same. Id `first_id` + number for each of the numbers that were picked.

    apart: rows of which ids differ by up to so much are read together; 1 where each is read by itself. sources: the first ids of
    sources, since no block lies in two of them.
    """

    picked: RowNumbers
    first_id: int = 0
    apart: int = 1
    sources: tuple[int, ...] = ()

    @classmethod
    def of(cls, below: ChosenRows, picked: RowNumbers) -> Chosen:
        """Of rows, by their places, those that were picked."""
        if isinstance(below, Segments) and below.first_id is not None:
            return cls(picked, below.first_id)
        return cls.of_ids(below.ids(picked.numbers.astype(np.int64)))

    @classmethod
    def of_ids(cls, ids: Ids) -> Chosen:
        """Some ids."""
        return cls(RowNumbers(ids, int(ids.max(initial=-1)) + 1))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.picked)

    @property
    def is_identity(self) -> bool:
        """Whether ids are places."""
        return False

    def moved(self, by: int) -> Chosen:
        """The same rows with ids that are larger by so much."""
        return replace(self, first_id=self.first_id + by) if by else self

    def sliced(self, first: int, count: int) -> Chosen:
        """The rows [first, first + count), as far as there are any."""
        return replace(self, picked=RowNumbers(self.picked.numbers[first : first + count], self.picked.rows))

    def every(self, count: int) -> Chosen:
        """Every count-th of the rows, from the first on."""
        return replace(self, picked=RowNumbers(self.picked.numbers[::count], self.picked.rows))

    def read_by(self, block_rows: int, sources: Ids) -> Chosen:
        """The same where so many rows of these sources, of which each begins with an id, are worth reading together."""
        return replace(self, apart=max(1, block_rows // _BRIDGED), sources=tuple(sources.tolist()))

    def rows_together(self, block_rows: int) -> int:
        """How many of the rows lie in a block of the source: 5 of 10 where every second row is chosen; 1 where neighbours are no neighbours there."""
        if not self.has_neighbours:
            return 1
        return max(1, block_rows * self.rows // self._covered)

    def rows_read(self, block_rows: int) -> int:
        """How many rows of the source lie in a block of so many of these: 20 of 10 where every second row is chosen."""
        if not self.has_neighbours or block_rows == 1:
            return 1
        return -(-block_rows * self._covered // self.rows)

    @cached_property
    def _covered(self) -> int:
        """Rows of the source that lie in runs."""
        begin, end = self.edges[:-1], self.edges[1:]
        return int((self.picked.at(end - 1) - self.picked.at(begin) + 1).sum())

    @cached_property
    def has_neighbours(self) -> bool:
        """Whether rows at neighbouring places mostly lie near each other in the source, so that they are read together."""
        return self.apart > 1 and self.picked.ascends and (len(self.edges) - 1) * _RUN_ROWS <= self.rows

    @property
    def repeats(self) -> bool:
        """Whether an id comes several times."""
        return self.picked.repeats

    @property
    def edges(self) -> Ids:
        """The place at which each run of rows that are read together begins, and the end of all."""
        inner = (one - self.first_id for one in self.sources)
        return self.picked.edges(self.apart, tuple(one for one in inner if 0 < one < self.picked.rows))

    @property
    def run_count(self) -> int:
        """Number of runs."""
        return len(self.edges) - 1

    def run_of(self, places: Ids) -> Ids:
        """The run of each place."""
        return np.searchsorted(self.edges[1:], places, side="right")

    def ids(self, places: Ids) -> Ids:
        """The ids at places."""
        return self.picked.at(places) + self.first_id

    def places(self, ids: Ids) -> Ids:
        """The first place of each id; -1 for those that are not chosen."""
        return self.picked.places(ids - self.first_id)

    def every_place(self, ids: Ids) -> tuple[Ids, Ids]:
        """All places of ids: which of `ids` each is of, in ascending order, and the place."""
        return self.picked.every_place(ids - self.first_id)

    def reading_places(self, ids: Ids, block_rows: int) -> Ids:
        """A place of the block of `block_rows` places with which each id is read, also of those between chosen ones; -1 for none."""
        if not self.has_neighbours:
            return self.places(ids)
        before = self.picked.place_before(ids - self.first_id)
        after = np.minimum(before + 1, self.rows - 1)
        is_there = self.ids(before) == ids
        between = (before // block_rows == after // block_rows) & (self.run_of(before) == self.run_of(after))
        return np.where((before >= 0) & (is_there | (between & (before < after))), before, -1)

    def draws(self, epoch: int, places: Ids) -> Ids:
        """A number for each copy of a row, another one in every epoch."""
        return epoch * self.picked.most_copies + self.picked.copies[places].astype(np.int64)


#: Rows that no order has dealt to lanes yet.
ChosenRows: TypeAlias = Segments | Chosen


def joined(parts: Sequence[ChosenRows]) -> Chosen:
    """The rows of several, one after another, as ids: 4 bytes a row (8 from 2 ** 31 on), also of those that were runs."""
    return Chosen.of_ids(np.concatenate([part.ids(np.arange(part.rows)) for part in parts]))
