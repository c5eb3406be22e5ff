"""Rows by the class that they are of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.core.spec import Ids


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each row as a number from 0 on (code), and a random number for each row."""

    code: Ids
    random: npt.NDArray[np.uint64]

    @cached_property
    def rows(self) -> Ids:
        """How many rows each class has."""
        return np.bincount(self.code)

    @cached_property
    def _keys(self) -> npt.NDArray[np.uint64]:
        """The class of each row above its random number."""
        bits = max(1, int(self.code.max(initial=0)).bit_length())
        return self.code.astype(np.uint64) << np.uint64(64 - bits) | self.random >> np.uint64(bits)

    @cached_property
    def _ordered(self) -> npt.NDArray[np.uint64]:
        """The keys in order: class after class."""
        return np.sort(self._keys)

    def chosen(self, counts: Ids) -> npt.NDArray[np.bool_]:
        """Whether each row is among so many of its class, chosen at random; of more counts, those of fewer are among them."""
        last = np.cumsum(self.rows) - self.rows + np.minimum(counts, self.rows) - 1
        bound = self._ordered[np.maximum(last, 0)]
        found: npt.NDArray[np.bool_] = (self._keys <= bound[self.code]) & (counts > 0)[self.code]
        for code in np.flatnonzero(np.bincount(self.code[found], minlength=len(self.rows)) > counts).tolist():
            alike = np.flatnonzero(self._keys == bound[code])  # two rows with one random number, once in a blue moon
            found[alike[len(alike) - (int(found[self.code == code].sum()) - int(counts[code])) :]] = False
        return found


def in_rounds(copies: Ids) -> Ids:
    """Rows as often as `copies` says: each once, in order, then those that come a second time, and so on.

    in_rounds(np.array([1, 3, 0, 2])) == [0, 1, 3, 1, 3, 1]
    """
    rounds, left, done = [], np.flatnonzero(copies), 1
    while len(left):
        rounds.append(left)
        left, done = left[copies[left] > done], done + 1
    return np.concatenate([np.empty(0, dtype=np.int64), *rounds])
