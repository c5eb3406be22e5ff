"""Quantiles, exact: each pass knows 16 bits more of the numbers at the wanted ranks, until few enough are left to be held.

The first block says where the quantiles may lie. Numbers there are held from the first pass on, while they are few, and where the quantiles do lie there, that pass was the only one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.transform.table.statistics.moments import infinite_row
from penstock.transform.table.statistics.protocol import Block

#: Bits that a pass finds out, and all of them.
_DIGIT, _BITS = 16, 64
#: Numbers that are held at most: of all columns that are searched together, and of one of them.
_HELD_TOGETHER, _HELD = 1 << 24, 1 << 22
#: How far from a block's quantiles those of all rows may lie, in standard deviations of their ranks.
_DEVIATIONS = 5


class Quantiles:
    """The numbers of a column at some ranks, and between them by linear interpolation, as NumPy and scikit-learn have it.

    fractions: of all numbers that are not missing. A fraction of 0.5 is the median: the mean of two in the middle.
    """

    takes_floats = True

    def __init__(self, fractions: Sequence[float]) -> None:
        self.fractions = tuple(fractions)
        self.most_held = _HELD
        self.count: int | None = None
        #: Leading 16 bits of the patterns that are held in the first pass; None as long as there was no number.
        self._guess: npt.NDArray[np.uint64] | None = None
        self.found = dict[int, float]()
        self._known, self._prefixes, self._before = 0, np.zeros(1, np.uint64), [0]
        self._holds = False
        self._begin()

    def _begin(self) -> None:
        self._counts = np.zeros(0 if self._holds else len(self._prefixes) << _DIGIT, np.int64)
        self._held, self._held_count = list[npt.NDArray[np.float64]](), 0

    def add(self, block: Block) -> None:
        """See `Statistic`."""
        if self._holds:
            self._held.append(kernels.table_radix_collect(block.values, self._known, self._prefixes))
            return
        if not self._known and np.isinf(block.values).any():
            raise infinite_row(block.values)
        kernels.table_radix_count(block.values, self._known, self._prefixes, self._counts)
        if not self._known:
            self._hold(block.values)

    def share_room(self, columns: int) -> None:
        """Holds no more than its part, where so many columns are searched together."""
        self.most_held = min(_HELD, max(1, _HELD_TOGETHER // columns))

    def _hold(self, values: npt.NDArray[np.float64]) -> None:
        """Holds numbers that may be the quantiles, as long as they are few."""
        if self._guess is None:
            self._guess = self._guessed()
        if self._guess is not None and len(self._guess):
            self._held.append(kernels.table_radix_collect(values, _DIGIT, self._guess))
            self._held_count += len(self._held[-1])
            if self._held_count > self.most_held:
                self._guess, self._held = np.zeros(0, np.uint64), []

    def _guessed(self) -> npt.NDArray[np.uint64] | None:
        """Where the quantiles may lie, by the counts of the first rows."""
        ends = np.cumsum(self._counts)
        count, near = int(ends[-1]), list[npt.NDArray[Any]]()
        if not count:
            return None
        for fraction in self.fractions:
            distance = _DEVIATIONS * math.sqrt(count * fraction * (1 - fraction)) + 1
            ranks = np.clip([count * fraction - distance, count * fraction + distance], 0, count - 1)
            first, last = np.searchsorted(ends, ranks.astype(np.int64), side="right").tolist()
            near.append(np.arange(first, last + 1, dtype=np.uint64))
        return np.unique(np.concatenate(near))

    def merge(self, other: Self) -> None:
        """See `Statistic`."""
        self._counts = self._counts + other._counts
        if self._guess is not None and other._guess is not None and not self._known:
            self._guess = np.intersect1d(self._guess, other._guess)
        elif self._guess is None:
            self._guess = other._guess
        self._held = [*self._held, *other._held]

    def next(self) -> Self | None:
        """See `Statistic`."""
        if self._holds:
            self._look_up()
            return None
        if self.count is None:
            self.count = int(self._counts.sum())
        wanted = sorted({rank for fraction in self.fractions for rank in self._ranks(fraction)})
        if not wanted:
            return None
        return self._narrowed(wanted)

    def _narrowed(self, wanted: Sequence[int]) -> Self | None:
        """With 16 bits more of the prefixes in which the ranks lie."""
        counts = self._counts.reshape(len(self._prefixes), -1)
        prefixes, before, held = list[int](), list[int](), 0
        for place, prefix in enumerate(self._prefixes.tolist()):
            ends = np.cumsum(counts[place]) + self._before[place]
            mine = [rank for rank in wanted if self._before[place] <= rank < int(ends[-1])]
            for digit in np.unique(np.searchsorted(ends, mine, side="right")).tolist():
                prefixes.append(prefix << _DIGIT | digit)
                before.append(int(ends[digit] - counts[place, digit]))
                held += int(counts[place, digit])
        self._known += _DIGIT
        if self._known == _DIGIT and self._guess is not None and np.isin(prefixes, self._guess).all():
            self._prefixes, self._before = np.array(prefixes, np.uint64), before
            self._look_up()
            return None
        if self._known == _BITS:
            self._from_patterns(wanted, prefixes, before)
            return None
        self._prefixes, self._before = np.array(prefixes, np.uint64), before
        self._holds = held <= self.most_held
        self._begin()
        return self

    def _from_patterns(self, wanted: Sequence[int], patterns: Sequence[int], before: Sequence[int]) -> None:
        for rank in wanted:
            place = int(np.searchsorted(before, rank, side="right")) - 1
            self.found[rank] = number_of(patterns[place])

    def _look_up(self) -> None:
        values = np.sort(np.concatenate(self._held))
        patterns = patterns_of(values) >> np.uint64(_BITS - self._known)
        begins = np.searchsorted(patterns, self._prefixes)
        for fraction in self.fractions:
            for rank in self._ranks(fraction):
                place = int(np.searchsorted(self._before, rank, side="right")) - 1
                self.found[rank] = float(values[begins[place] + rank - self._before[place]]) + 0.0
        self._counts, self._held, self._guess = np.zeros(0, np.int64), [], None

    def _ranks(self, fraction: float) -> tuple[int, ...]:
        if not self.count:
            return ()
        low = min(max(math.floor((self.count - 1) * fraction), 0), self.count - 1)
        return low, min(low + 1, self.count - 1)

    def __getitem__(self, fraction: float) -> float:
        """The quantile of one of the fractions; NaN of nothing."""
        if not self.count:
            return math.nan
        first, last = (self.found[rank] for rank in self._ranks(fraction))
        if fraction == 0.5:  # as NumPy's median
            is_odd = self.count % 2
            return first if is_odd else float(np.mean([first, last]))
        part, step = (self.count - 1) * fraction - self._ranks(fraction)[0], last - first
        return last - step * (1 - part) if part >= 0.5 else first + step * part  # as NumPy's lerp


def patterns_of(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Bit patterns that sort as the numbers do; see rust/src/table/radix.rs."""
    bits = (values + 0.0).view(np.uint64)
    top = np.uint64(1 << 63)
    found: npt.NDArray[np.uint64] = np.where(bits & top, ~bits, bits | top)
    return found


def number_of(pattern: int) -> float:
    """The number of a pattern."""
    bits = pattern ^ (1 << 63) if pattern >> 63 else ~pattern & (1 << _BITS) - 1
    found: Any = np.array([bits], np.uint64).view(np.float64)[0]
    return float(found)
