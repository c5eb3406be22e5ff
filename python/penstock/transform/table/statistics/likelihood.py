"""The exponent under which a column is most like a normal distribution: by likelihoods at a few exponents a pass, nearer together each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.errors import DataError, RowError
from penstock.transform.table.statistics.moments import Moments, infinite_row
from penstock.transform.table.statistics.protocol import Block

#: Distances between the exponents of a pass, and how many there are at most.
_DISTANCES = (1.0, 0.1, 0.01)
_PASSES = 12
#: Exponents that are tried at first, on both sides of 0; beyond three times that no column is made better.
_FIRST, _LAST = 4, 12.0


class Likelihood:
    """step: "yeo_johnson" or "box_cox"."""

    takes_floats = True

    def __init__(self, step: str) -> None:
        self._step, self._level, self._passes = step, 0, 0
        self._logs = Moments()
        self.best = dict[str, float]()
        self._try([float(power) for power in range(-_FIRST, _FIRST + 1)])

    def _try(self, powers: Sequence[float]) -> None:
        self._powers, self._passes = tuple(powers), self._passes + 1
        self._sums: list[Moments | None] = [Moments() for _ in powers]

    def add(self, block: Block) -> None:
        """See `Statistic`."""
        values = block.values
        if np.isinf(values).any():
            raise infinite_row(values)
        if self._passes == 1:
            self._logs.add(Block(self._derivatives(values)))
        for place, power in enumerate(self._powers):
            made = applied(self._step, power, values)
            if (sums := self._sums[place]) is None:
                continue
            try:
                sums.add(Block(made))
            except RowError:  # beyond float64 under this exponent
                self._sums[place] = None

    def _derivatives(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Of each number, the logarithm by which its power's derivative grows with the exponent."""
        if self._step == "box_cox":
            return applied("box_cox", 0.0, values)  # the logarithm itself
        return np.copysign(applied("log", 1.0, np.abs(values)), values)

    def merge(self, other: Self) -> None:
        """See `Statistic`."""
        if self._passes == 1:
            self._logs.merge(other._logs)
        for place, sums in enumerate(other._sums):
            mine = self._sums[place]
            if sums is None or mine is None:
                self._sums[place] = None
            else:
                mine.merge(sums)

    def next(self) -> Self | None:
        """See `Statistic`."""
        if not self._logs.count:
            raise DataError("has no number in any row; leave the column out")
        if len(self._powers) == 1:
            (sums,) = self._sums
            if sums is None or not math.isfinite(sums.variance):
                raise DataError("has numbers that no power makes alike; put Clip before it")
            self.best = {"power": self._powers[0], "centre": sums.mean, "scale": sums.deviation}
            return None
        if self._logs.least == self._logs.greatest:
            self._try([1.0])  # a constant
            return self
        power, is_inside = self._peak()
        if is_inside:
            self._level += 1
        if self._level == len(_DISTANCES) or self._passes >= _PASSES or abs(power) > _LAST:
            self._try([min(max(power, -_LAST), _LAST)])
        else:
            distance = _DISTANCES[self._level]
            self._try([power + distance * step for step in (-2, -1, 0, 1, 2)])
        return self

    def _peak(self) -> tuple[float, bool]:
        """Where the likelihood is greatest, by a parabola through the best exponent and its neighbours, and whether these enclose it."""
        found = [self._of(power, sums) for power, sums in zip(self._powers, self._sums, strict=True)]
        best = int(np.argmax(found))
        if not math.isfinite(found[best]):
            raise DataError("has numbers that no power makes alike; put Clip before it")
        if not 0 < best < len(found) - 1 or not all(map(math.isfinite, found[best - 1 : best + 2])):
            return self._powers[best], False
        left, middle, right = found[best - 1 : best + 2]
        bend = left - 2 * middle + right
        distance = self._powers[best + 1] - self._powers[best]
        shift = 0.0 if bend >= 0 else 0.5 * (left - right) / bend
        return self._powers[best] + distance * shift, True

    def _of(self, power: float, sums: Moments | None) -> float:
        variance = 0.0 if sums is None else sums.variance
        if not 0 < variance < math.inf:
            return -math.inf
        return (power - 1) * self._logs.mean - 0.5 * math.log(variance)


def applied(step: str, value: float, values: Any) -> npt.NDArray[np.float64]:
    """One native step on numbers."""
    chain = {"name": "x", "inputs": [0], "pairs": [], "array": 0, "offset": 0, "width": 1}
    program = kernels.TableProgram(
        ["float64"], [{**chain, "steps": [{"step": step, "value": value}]}], [("float64", 1)]
    )
    out = np.empty(len(values))
    program.run([np.ascontiguousarray(values)], [out], 1)
    return out
