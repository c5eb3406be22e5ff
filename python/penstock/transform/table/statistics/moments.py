"""Counts, bounds, means and variances: exact sums, rounded once at the end."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from penstock.core import kernels
from penstock.core.errors import RowError
from penstock.transform.table.statistics.protocol import Block

#: Sums are whole numbers of these units: 2**-1074 is the least float64 above 0.
_UNIT = 1074
_EPSILON = float(np.finfo(np.float64).eps)


class Moments:
    """Of finite numbers; what is missing is counted. total and squares: exact sums, of units of 2**-1074 and of their squares."""

    takes_floats = True

    def __init__(self) -> None:
        self.count, self.missing = 0, 0
        self.least, self.greatest = math.inf, -math.inf
        self.total, self.squares = 0, 0

    def add(self, block: Block) -> None:
        """See `Statistic`."""
        count, missing, infinite, least, greatest, sums = kernels.table_moments(block.values)
        if infinite:
            raise infinite_row(block.values)
        self.count, self.missing = self.count + count, self.missing + missing
        self.least, self.greatest = min(self.least, least), max(self.greatest, greatest)
        for exponent, total, low, high in sums:
            self.total += total << (exponent - 1)
            self.squares += (low + (high << 64)) << (2 * (exponent - 1))

    def merge(self, other: Self) -> None:
        """See `Statistic`."""
        self.count, self.missing = self.count + other.count, self.missing + other.missing
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        self.total, self.squares = self.total + other.total, self.squares + other.squares

    def next(self) -> Self | None:
        """See `Statistic`."""
        return None

    def filled(self, value: float) -> Moments:
        """The same of the column whose missing numbers are this one."""
        made = Moments()
        made.__dict__.update(vars(self))
        if self.missing:
            units = _units(value)
            made.count, made.missing = self.count + self.missing, 0
            made.total, made.squares = self.total + self.missing * units, self.squares + self.missing * units * units
            made.least, made.greatest = min(self.least, value), max(self.greatest, value)
        return made

    @property
    def mean(self) -> float:
        """The mean, rounded correctly; NaN of nothing."""
        return _ratio(self.total, self.count << _UNIT) if self.count else math.nan

    @property
    def variance(self) -> float:
        """The mean of squared distances from the mean (divided by n), rounded correctly; NaN of nothing."""
        if not self.count:
            return math.nan
        spread = self.count * self.squares - self.total * self.total
        return _ratio(spread, self.count * self.count << 2 * _UNIT)

    @property
    def deviation(self) -> float:
        """The square root of the variance; 1 where all numbers are the same but for rounding, as scikit-learn has it."""
        variance, mean, count = self.variance, self.mean, self.count
        bound = count * _EPSILON * variance + (count * mean * _EPSILON) ** 2
        return 1.0 if variance <= bound or not variance else math.sqrt(variance)


def infinite_row(values: Any) -> RowError:
    """The error of the first infinite number."""
    row = int(np.flatnonzero(np.isinf(values))[0])
    return RowError(
        row,
        f"is {values[row]}, of which there is no mean and no quantile",
        "put Clip with bounds before the op, or leave such rows out with filter",
    )


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << _UNIT) // denominator


def _ratio(numerator: int, denominator: int) -> float:
    """Python divides whole numbers with one rounding."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
