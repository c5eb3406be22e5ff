"""Rows that were picked out of others: their numbers, and what can be asked of these without going through them again."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids

#: Numbers below this are held in 4 bytes.
_SHORT = 1 << 31


class RowNumbers:
    """Numbers of rows, in any order and as often as they come, among `rows` of them. Nothing of it changes, and what is found out stays.

    A number takes 4 bytes, or 8 where there are 2 ** 31 rows or more; one byte more where numbers come several times.

    RowNumbers(np.array([7, 2, 7]), 10).at(np.array([0, 2])) is [7, 7]
    """

    def __init__(self, numbers: npt.NDArray[Any], rows: int) -> None:
        self.numbers: npt.NDArray[Any] = np.ascontiguousarray(numbers, dtype=np.int32 if rows < _SHORT else np.int64)
        self.rows = rows
        self._edges: dict[tuple[int, tuple[int, ...]], Ids] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies in other processes find out anew."""
        return RowNumbers, (self.numbers, self.rows)

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"{len(self):,} of {self.rows:,} #{self.digest}"

    @cached_property
    def digest(self) -> str:
        """8 hex digits of the numbers."""
        state = hashlib.blake2b(f"{len(self)} of {self.rows}".encode(), digest_size=4)
        state.update(
            np.ascontiguousarray(self.numbers.astype("<i8" if self.rows >= _SHORT else "<i4", copy=False)).data
        )
        return state.hexdigest()

    def at(self, places: Ids) -> Ids:
        """The numbers at places."""
        return self.numbers[places].astype(np.int64)

    @cached_property
    def ascends(self) -> bool:
        """Whether every number is larger than the one before."""
        return bool((self.numbers[1:] > self.numbers[:-1]).all())

    @cached_property
    def repeats(self) -> bool:
        """Whether a number comes several times."""
        if self.ascends:
            return False
        ordered = np.sort(self.numbers)
        return bool((ordered[1:] == ordered[:-1]).any())

    @cached_property
    def copies(self) -> npt.NDArray[Any]:
        """How often each number came before, in as few bytes as can be: RowNumbers(np.array([7, 2, 7]), 10).copies is [0, 0, 1]."""
        turn = np.argsort(self.numbers, kind="stable")
        place = np.arange(len(turn))
        begins = np.diff(self.numbers[turn], prepend=-1) != 0
        before = place - np.maximum.accumulate(np.where(begins, place, 0))
        copies = np.empty(len(turn), dtype=np.min_scalar_type(int(before.max(initial=0))))
        copies[turn] = before
        return copies

    @cached_property
    def most_copies(self) -> int:
        """How often a number comes at most."""
        return int(self.copies.max(initial=0)) + 1

    @cached_property
    def _turn(self) -> Ids:
        """The places of the numbers in ascending order; 8 bytes a number, for the cache's forecast alone."""
        return np.argsort(self.numbers, kind="stable")

    def every_place(self, numbers: Ids) -> tuple[Ids, Ids]:
        """All places of numbers: which of `numbers` each is of, in ascending order, and the place."""
        wanted = np.clip(numbers, -1, self.rows).astype(self.numbers.dtype)
        sorter = None if self.ascends else self._turn
        low = np.searchsorted(self.numbers, wanted, sorter=sorter)
        counts = np.searchsorted(self.numbers, wanted, side="right", sorter=sorter) - low
        owner = np.repeat(np.arange(len(numbers)), counts)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)
        return owner, rank if sorter is None else sorter[rank]

    def places(self, numbers: Ids) -> Ids:
        """The first place of each number; -1 for those that are not there."""
        wanted = np.clip(numbers, -1, self.rows).astype(self.numbers.dtype)
        sorter = None if self.ascends else self._turn
        found = np.minimum(np.searchsorted(self.numbers, wanted, sorter=sorter), max(0, len(self) - 1))
        place = found if sorter is None else sorter[found]
        return np.where(self.numbers[place] == wanted, place, -1) if len(self) else np.full(len(numbers), -1)

    def place_before(self, numbers: Ids) -> Ids:
        """Where numbers ascend: the place of the largest that is not larger; -1 if there is none."""
        wanted = np.clip(numbers, -1, self.rows).astype(self.numbers.dtype)
        return np.searchsorted(self.numbers, wanted, side="right") - 1

    def edges(self, apart: int, cuts: tuple[int, ...] = ()) -> Ids:
        """Of numbers that ascend: the places at which runs of them begin, and the end of all.

        In a run each is at most `apart` larger than the one before, and a new one begins with the numbers `cuts`.
        """
        if (apart, cuts) not in self._edges:
            gaps = np.flatnonzero(np.diff(self.numbers) > apart) + 1
            begins = np.searchsorted(self.numbers, np.array(cuts, dtype=self.numbers.dtype))
            self._edges[apart, cuts] = np.unique(np.concatenate([[0], gaps, begins, [len(self)]])).astype(np.int64)
        return self._edges[apart, cuts]
