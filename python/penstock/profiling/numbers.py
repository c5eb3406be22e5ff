"""Numbers of a column: sums, quantiles, outliers, and the distribution, in two passes that hold whole numbers alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.transform.table.statistics.moments import Moments
from penstock.transform.table.statistics.protocol import Block
from penstock.transform.table.statistics.quantiles import number_of, patterns_of

Floats = npt.NDArray[np.float64]

#: Which quantiles are told; deciles are what drift is measured on.
FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99)
#: Bars of a histogram, and points of a distribution with equally many numbers between two.
BARS, _POINTS = 40, 256
#: Outliers are so many times the distance of the quartiles away from these.
IQR_TIMES = 1.5
#: Numbers of a column that are held at most; where there are more near a quantile, it is told to 32 bits of its pattern.
_HELD = 1 << 20
_DIGIT = 16


class NumberFigures:
    """Of a column of numbers that are not infinite. `add` in the first pass; then `plan`, and `add_again` in the second, unless all values are known with their counts."""

    def __init__(self) -> None:
        self.moments = Moments()
        self.positive_infinite = self.negative_infinite = self.zeros = self.negative = 0
        self._counts = np.zeros(1 << _DIGIT, np.int64)

    def add(self, values: Floats) -> Floats:
        """Takes some rows, NaN where missing; gives them with NaN where they are infinite."""
        if (infinite := np.isinf(values)).any():
            self.positive_infinite += int((values == math.inf).sum())
            self.negative_infinite += int((values == -math.inf).sum())
            values = np.where(infinite, np.nan, values)
        self.moments.add(Block(values))
        self.zeros += int(np.count_nonzero(values == 0))
        self.negative += int(np.count_nonzero(values < 0))
        kernels.table_radix_count(values, 0, np.zeros(1, np.uint64), self._counts)
        return values

    @property
    def infinite(self) -> int:
        """How many rows are infinite; the sums have them as missing."""
        return self.positive_infinite + self.negative_infinite

    @property
    def count(self) -> int:
        """How many rows have a finite number."""
        return self.moments.count

    @np.errstate(all="ignore")
    def plan(self) -> None:
        """What the second pass gathers: numbers near the quantiles, and how many there are up to some points."""
        filled = np.flatnonzero(self._counts)
        ends = np.cumsum(self._counts[filled])
        self._begins = {int(bucket): int(end - self._counts[bucket]) for bucket, end in zip(filled, ends, strict=True)}
        ranks = sorted({rank for fraction in FRACTIONS for rank in self._ranks(fraction)})
        wanted = filled[np.unique(np.searchsorted(ends, ranks, side="right"))]
        self._prefixes = wanted.astype(np.uint64)
        self._holds = int(self._counts[wanted].sum()) <= _HELD
        self._held = list[Floats]()
        self._finer = np.zeros(0 if self._holds else len(wanted) << _DIGIT, np.int64)
        lows, highs = (np.array(side) for side in zip(*(self._bounds(int(bucket)) for bucket in filled), strict=True))
        self._fences = self._fences_of(lows, highs, ends)
        near = np.logical_or.reduce([(highs >= low) & (lows <= high) for low, high in self._fences])
        self._holds_fences = int(self._counts[filled[near]].sum()) <= _HELD
        self._near = list[Floats]()
        self._points = self._points_of(lows, highs, ends)
        self._cumulated = np.zeros(len(self._points), np.int64)

    def _ranks(self, fraction: float) -> tuple[int, int]:
        low = min(max(math.floor((self.count - 1) * fraction), 0), self.count - 1)
        return low, min(low + 1, self.count - 1)

    def _bounds(self, bucket: int) -> tuple[float, float]:
        """Between which numbers those of a bucket lie."""
        first = number_of(bucket << 64 - _DIGIT)
        last = number_of((bucket + 1 << 64 - _DIGIT) - 1)
        return max(first, self.moments.least), min(last, self.moments.greatest)

    def _fences_of(self, lows: Floats, highs: Floats, ends: npt.NDArray[Any]) -> list[tuple[float, float]]:
        """Between which numbers the fences lie, beyond which outliers are, by the bounds of the quartiles."""
        (a, b), (c, d) = (self._between(fraction, lows, highs, ends) for fraction in (0.25, 0.75))
        least, most = IQR_TIMES * max(c - b, 0.0), IQR_TIMES * (d - a)
        return [(a - most, b - least), (c + least, d + most)]

    def _points_of(self, lows: Floats, highs: Floats, ends: npt.NDArray[Any]) -> Floats:
        wanted = _spread_ranks(self.count)
        equal = np.interp(wanted, np.concatenate([[0], ends]), np.concatenate([lows[:1], highs]))
        bars = bars_of(self.moments.least, self.moments.greatest)
        points = np.concatenate([bars, equal, np.array(self._fences).reshape(-1)])
        kept: Floats = np.unique(points[(points >= self.moments.least) & (points <= self.moments.greatest)])
        return kept

    def _between(self, fraction: float, lows: Floats, highs: Floats, ends: npt.NDArray[Any]) -> tuple[float, float]:
        """Bounds of a quantile, by the buckets of its ranks."""
        first, last = np.searchsorted(ends, self._ranks(fraction), side="right").tolist()
        return float(lows[first]), float(highs[last])

    def add_again(self, values: Floats) -> None:
        """Takes the same rows a second time, NaN where missing or infinite."""
        if self._holds:
            self._held.append(kernels.table_radix_collect(values, _DIGIT, self._prefixes))
        else:
            kernels.table_radix_count(values, _DIGIT, self._prefixes, self._finer)
        if self._holds_fences:
            near = [(values >= low) & (values <= high) for low, high in self._fences]
            self._near.append(values[near[0] | near[1]])
        # Sorting takes less time than looking up each number. NaN is last, behind every point.
        self._cumulated += np.searchsorted(np.sort(values), self._points, side="right")

    @property
    def is_exact(self) -> bool:
        """Whether quantiles are told to the last bit."""
        return self._holds

    def end(self) -> None:
        """After the second pass."""
        if self._holds:
            self._sorted = np.sort(np.concatenate([np.zeros(0), *self._held])) + 0.0
            tops = patterns_of(self._sorted) >> np.uint64(64 - _DIGIT)
            self._first = np.searchsorted(tops, self._prefixes)
        near = np.sort(np.concatenate([np.zeros(0), *self._near]))
        self._near = [near]

    def outside(self, low: float, high: float) -> tuple[int, int]:
        """How many numbers are below a fence, and how many above another."""
        below, up_to = np.nextafter(low, -math.inf), high
        return self._up_to_fence(float(below)), self.count - self._up_to_fence(up_to)

    @property
    def knows_outside(self) -> bool:
        """Whether that is exact."""
        return self._holds_fences

    def _up_to_fence(self, point: float) -> int:
        for low, high in self._fences if self._holds_fences else ():
            if low <= point <= high:
                (near,) = self._near
                first, last = np.searchsorted(near, [low, point], side="right").tolist()
                return int(round(float(self.up_to(np.array([low]))[0])) + last - first)
        return round(float(self.up_to(np.array([point]))[0]))

    def at(self, rank: int) -> float:
        """The number at a rank near a quantile."""
        place = max(number for number, prefix in enumerate(self._prefixes.tolist()) if self._begins[prefix] <= rank)
        prefix = int(self._prefixes[place])
        before = rank - self._begins[prefix]
        if self._holds:
            return float(self._sorted[self._first[place] + before])
        ends = np.cumsum(self._finer[place << _DIGIT : place + 1 << _DIGIT])
        digit = int(np.searchsorted(ends, before, side="right"))
        found = number_of((prefix << _DIGIT | digit) << 64 - 2 * _DIGIT)
        return min(max(found, self.moments.least), self.moments.greatest)

    @property
    def distribution(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Points, and how many numbers there are up to each."""
        return self._points, self._cumulated

    def up_to(self, points: Floats) -> Floats:
        """How many numbers there are up to some points; between two of the distribution's by a line."""
        found = np.interp(points, self._points, self._cumulated, left=0, right=self.count)
        return np.asarray(np.where(points < self.moments.least, 0, found))


def quantile(numbers: Any, count: int, fraction: float) -> float:
    """By linear interpolation between two ranks, as NumPy has it. numbers: what has `at`."""
    place = (count - 1) * fraction
    low = min(max(math.floor(place), 0), count - 1)
    first, last = numbers.at(low), numbers.at(min(low + 1, count - 1))
    part, step = place - low, last - first
    if fraction == 0.5:
        return float(first if count % 2 else _middle(first, last))
    if math.isinf(step):
        return float(first * (1 - part) + last * part)
    return float(last - step * (1 - part) if part >= 0.5 else first + step * part)


def _spread_ranks(last: int) -> Floats:
    """Ranks with equally many between two, and nearer together at both ends, where shares are small."""
    tail = last / 2.0 ** np.arange(1, 20)
    return np.unique(np.concatenate([np.linspace(0, last, _POINTS + 1), tail, last - tail]))


def _middle(first: float, last: float) -> float:
    middle = (first + last) / 2
    return middle if math.isfinite(middle) else first / 2 + last / 2


@np.errstate(all="ignore")
def bars_of(least: float, greatest: float, *, is_whole: bool = False) -> Floats:
    """The edges of a histogram; bars of whole numbers have equally many each."""
    if least == greatest:
        return np.array([least])
    if is_whole and greatest - least < 1 << 32:
        step = math.ceil((greatest - least + 1) / BARS)
        return np.arange(least - 0.5, greatest + step, step)
    parts = np.arange(BARS + 1) / BARS
    edges: Floats = least * (1 - parts) + greatest * parts
    edges[0], edges[-1] = least, greatest
    return np.unique(edges)


class Counted:
    """The same answers from all values with their counts: exact, and without a second pass."""

    is_exact = knows_outside = True

    def __init__(self, values: Floats, counts: npt.NDArray[np.int64]) -> None:
        finite = np.isfinite(values)
        self._values, self._ends = values[finite], np.cumsum(counts[finite])
        self.count = int(self._ends[-1]) if len(self._ends) else 0

    def at(self, rank: int) -> float:
        """The number at a rank."""
        return float(self._values[np.searchsorted(self._ends, rank, side="right")])

    def up_to(self, points: Floats) -> Floats:
        """How many numbers there are up to some points."""
        places = np.searchsorted(self._values, points, side="right")
        found: Floats = np.concatenate([[0], self._ends])[places].astype(np.float64)
        return found

    @property
    def distribution(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Points, and how many numbers there are up to each: all of them, or some with equally many between two."""
        if len(self._values) <= 2 * _POINTS:
            return self._values, self._ends
        wanted = np.ceil(_spread_ranks(self.count - 1)).astype(np.int64)
        chosen = np.unique(np.concatenate([[0], np.searchsorted(self._ends, wanted, side="right")]))
        return self._values[chosen], self._ends[chosen]

    def outside(self, low: float, high: float) -> tuple[int, int]:
        """How many numbers are below a fence, and how many above another."""
        below, up_to = self.up_to(np.array([np.nextafter(low, -math.inf), high])).tolist()
        return int(below), self.count - int(up_to)

    @property
    def is_step(self) -> bool:
        """Whether the distribution has every value."""
        return len(self._values) <= 2 * _POINTS
