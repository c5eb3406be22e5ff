"""Pearson's correlation of columns of numbers: products of whole numbers, summed exactly by matrix products that float64 holds without rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: A number is so many steps of its column's range, told by two digits: what is summed over these rows stays below 2**53.
_DIGIT_BITS, _ROWS = 19, 1 << 13
#: Rows and columns of one product: so small that libraries of linear algebra start no threads, which wait for each other where the machine is busy.
_PIECE, _TILE = 1 << 8, 1 << 5
#: Sums of such rows that are held in 64 bits.
_MOST_HELD = 256
#: More columns are not compared, the first are.
MOST_COLUMNS = 100


class Correlations:
    """Of columns by their least and greatest numbers; each pair by the rows in which both have one, as pandas has it.

    Numbers are rounded to 2**-38 of their column's range, so that sums are exact in any order.
    """

    def __init__(self, bounds: Mapping[str, tuple[float, float]]) -> None:
        self.names = [*bounds]
        self._columns = len(bounds)
        self._sums = [[0] * 3 * self._columns for _ in range(3 * self._columns)]
        self._squares = [[0] * self._columns for _ in range(3 * self._columns)]
        self._fresh_sums = np.zeros((3 * self._columns, 3 * self._columns), np.int64)
        self._fresh_squares = np.zeros((3 * self._columns, self._columns), np.int64)
        self._held = 0
        self._bounds = {name: (low / 2 + high / 2, high / 2 - low / 2) for name, (low, high) in bounds.items()}

    def add(self, columns: Mapping[str, Floats]) -> None:
        """Takes some rows, NaN where a number is missing or infinite."""
        rows = len(next(iter(columns.values())))
        for begin in range(0, rows, _ROWS):
            some = min(_ROWS, rows - begin)
            digits = np.zeros((3, self._columns, -(-some // _PIECE) * _PIECE))
            for place, name in enumerate(self.names):
                self._split(name, columns[name][begin : begin + _ROWS], digits[:, place, :some])
            self._add_digits(digits, some)

    def _add_digits(self, digits: Floats, rows: int) -> None:
        high, low, there = digits
        gaps = np.flatnonzero(~there[:, :rows].all(axis=1))
        # Of columns without gaps one row of ones stands for all.
        ones = np.zeros((1, digits.shape[2]))
        ones[:, :rows] = 1
        flat = np.concatenate([digits[:2].reshape(2 * self._columns, -1), ones, there[gaps]])
        sums = _products(flat, flat)
        spread = np.full(self._columns, 2 * self._columns)
        spread[gaps] = np.arange(len(gaps)) + 2 * self._columns + 1
        places = np.concatenate([np.arange(2 * self._columns), spread])
        self._fresh_sums += sums[np.ix_(places, places)].astype(np.int64)
        whole = sums[: 2 * self._columns, : 2 * self._columns].reshape(2, self._columns, 2, self._columns)
        powers = [np.diagonal(whole[one, :, other]) for one, other in ((0, 0), (0, 1), (1, 1))]
        squares = np.repeat(np.concatenate(powers)[:, None], self._columns, axis=1)
        if len(gaps):
            squares[:, gaps] = _products(np.concatenate([high * high, high * low, low * low]), there[gaps])
        self._fresh_squares += squares.astype(np.int64)
        self._held += 1
        if self._held == _MOST_HELD:
            self._settle()

    def _settle(self) -> None:
        """Moves what is held in 64 bits to where there is no end."""
        self._sums = _plus(self._sums, self._fresh_sums)
        self._squares = _plus(self._squares, self._fresh_squares)
        self._fresh_sums[:], self._fresh_squares[:], self._held = 0, 0, 0

    def _split(self, name: str, values: Floats, out: Floats) -> None:
        middle, half = self._bounds[name]
        there = ~np.isnan(values)
        steps = np.rint((np.where(there, values, middle) - middle) / half * (1 << 2 * _DIGIT_BITS))
        out[0] = np.floor(steps / (1 << _DIGIT_BITS))
        out[1] = steps - out[0] * (1 << _DIGIT_BITS)
        out[2] = there

    def _of(self, first: int, second: int) -> float | None:
        """The correlation of two columns; None where one does not vary in their common rows."""
        count = self._sums[2 * self._columns + first][2 * self._columns + second]
        sums = [self._sum(one, other) for one, other in ((first, second), (second, first))]
        squares = [self._square(one, other) for one, other in ((first, second), (second, first))]
        product = self._product(first, second)
        spreads = [count * square - total * total for square, total in zip(squares, sums, strict=True)]
        if count < 2 or min(spreads) <= 0:
            return None
        both = math.isqrt(spreads[0] * spreads[1] << 64)
        found = (count * product - sums[0] * sums[1] << 32) / both
        return min(max(found, -1.0), 1.0)

    def _sum(self, one: int, other: int) -> int:
        there = 2 * self._columns + other
        return (self._sums[one][there] << _DIGIT_BITS) + self._sums[self._columns + one][there]

    def _square(self, one: int, other: int) -> int:
        high, mixed, low = (self._squares[part * self._columns + one][other] for part in range(3))
        return (high << 2 * _DIGIT_BITS) + (mixed << _DIGIT_BITS + 1) + low

    def _product(self, one: int, other: int) -> int:
        low = self._columns
        crossed = self._sums[one][low + other] + self._sums[low + one][other]
        return (
            (self._sums[one][other] << 2 * _DIGIT_BITS) + (crossed << _DIGIT_BITS) + self._sums[low + one][low + other]
        )

    @property
    def figures(self) -> list[list[float | None]]:
        """All of them, row by row."""
        self._settle()
        pairs = range(self._columns)
        found: list[list[float | None]] = [[1.0] * self._columns for _ in pairs]
        for one in pairs:
            for other in range(one):
                found[one][other] = found[other][one] = self._of(one, other)
        return found


def _products(left: Floats, right: Floats) -> Floats:
    """Of each row of one with each row of the other, summed: whole numbers, exact."""
    found = np.empty((len(left), len(right)))
    for first in range(0, len(left), _TILE):
        for other in range(0, len(right), _TILE):
            if right is left and other < first:
                found[first : first + _TILE, other : other + _TILE] = found[
                    other : other + _TILE, first : first + _TILE
                ].T
                continue
            one = left[first : first + _TILE].reshape(-1, left.shape[1] // _PIECE, _PIECE).transpose(1, 0, 2)
            two = right[other : other + _TILE].reshape(-1, right.shape[1] // _PIECE, _PIECE).transpose(1, 2, 0)
            found[first : first + _TILE, other : other + _TILE] = np.matmul(one, two).sum(axis=0)
    return found


def _plus(sums: Sequence[Sequence[int]], more: npt.NDArray[np.int64]) -> list[list[int]]:
    return [[a + b for a, b in zip(row, added, strict=True)] for row, added in zip(sums, more.tolist(), strict=True)]
