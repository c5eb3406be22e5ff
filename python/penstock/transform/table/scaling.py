"""Numbers on a common scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted
from penstock.transform.table.lane import Lane, floats
from penstock.transform.table.op import ColumnOp, Step, check_number
from penstock.transform.table.statistics.moments import Moments
from penstock.transform.table.statistics.protocol import Statistic
from penstock.transform.table.statistics.quantiles import Quantiles

#: A range that is less than this is that of a constant, as scikit-learn has it.
_NOTHING = 10 * float(np.finfo(np.float64).eps)


def check_finite(*numbers: float) -> None:
    """DataError where a column has no number, or one of its statistics is beyond float64."""
    if any(map(math.isnan, numbers)):
        raise DataError("has no number in any row; leave the column out")
    if any(map(math.isinf, numbers)):
        raise DataError("has numbers whose spread is beyond float64; put Clip before the op")


def _scale(spread: float) -> float:
    return 1.0 if spread < _NOTHING else spread


class _Scaling(ColumnOp):
    """Subtracts a centre, and divides by a scale."""

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return floats()

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        centre, scale = self.learnt["centre"], self.learnt["scale"]
        return [{"step": "subtract", "value": centre}] * (centre is not None) + [{"step": "divide", "value": scale}] * (
            scale is not None
        )

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        centre, scale = self.learnt["centre"], self.learnt["scale"]
        values = values if scale is None else values * scale
        return values if centre is None else values + centre


@dataclass(frozen=True)
class Standardize(_Scaling):
    """(x - mean) / standard deviation, as float32. scikit-learn's StandardScaler.

    What is missing counts for nothing and stays NaN. A constant column is divided by 1. Mean and variance are exact, rounded once, so that they are at most
    a rounding (2e-16 of it) from scikit-learn's where that sums without cancellation; computed in float64, and rounded to float32.

    Args:
        with_mean: whether the mean is subtracted. Default: True.
        with_std: whether it divides by the standard deviation. Default: True.

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: by `fit`, for a column without numbers, and for infinite ones.

    Example:
        heights = ps.from_arrays({"height": [1.0, 2.0, 3.0]})
        recipe = ps.table.Recipe(ps.table.Standardize()).fit(heights)
        heights.transform(recipe).head()["height"].astype(float).round(3).tolist() == [-1.225, 0.0, 1.225]
    """

    with_mean: bool = True
    with_std: bool = True

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        return Moments()

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        check_finite(found.mean, found.variance)
        return {
            "centre": found.mean if self.with_mean else None,
            "scale": found.deviation if self.with_std else None,
        }


@dataclass(frozen=True)
class Robust(_Scaling):
    """(x - median) / distance of two quantiles, as float32. scikit-learn's RobustScaler.

    The quantiles are exact, between two numbers by linear interpolation; what is missing counts for nothing and stays NaN.

    Args:
        with_centering: whether the median is subtracted. Default: True.
        with_scaling: whether it divides. Default: True.
        quantile_range: the quantiles, in percent. Default: (25, 75).

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: by `fit`, for a column without numbers, and for infinite ones.

    Example:
        prices = ps.from_arrays({"price": [1.0, 2.0, 3.0, 4.0, 500.0]})
        recipe = ps.table.Recipe(ps.table.Robust()).fit(prices)
        prices.transform(recipe).head()["price"].tolist() == [-1.0, -0.5, 0.0, 0.5, 248.5]
    """

    with_centering: bool = True
    with_scaling: bool = True
    quantile_range: tuple[float, float] = (25.0, 75.0)

    def __post_init__(self) -> None:
        """PlanError for quantiles that are none."""
        object.__setattr__(self, "quantile_range", pair("Robust", "quantile_range", self.quantile_range, 0, 100))

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        return Quantiles([0.5, *(percent / 100 for percent in self.quantile_range)])

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        low, high = (found[percent / 100] for percent in self.quantile_range)
        check_finite(found[0.5], high - low)
        return {
            "centre": found[0.5] if self.with_centering else None,
            "scale": _scale(high - low) if self.with_scaling else None,
        }


@dataclass(frozen=True)
class MinMax(ColumnOp):
    """The least number becomes 0 and the greatest 1, as float32. scikit-learn's MinMaxScaler.

    What is missing counts for nothing and stays NaN. Rows that the recipe was not fitted on may lie outside, unless `clip`.

    Args:
        feature_range: what the least and the greatest number become. Default: (0, 1).
        clip: whether what lies outside becomes the nearest of both. Default: False.

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: by `fit`, for a column without numbers, and for infinite ones.

    Example:
        prices = ps.from_arrays({"price": [10, 20, 30]})
        recipe = ps.table.Recipe(ps.table.MinMax()).fit(prices)
        prices.transform(recipe).head()["price"].tolist() == [0.0, 0.5, 1.0]
    """

    feature_range: tuple[float, float] = (0.0, 1.0)
    clip: bool = False

    def __post_init__(self) -> None:
        """PlanError for a range that is none."""
        object.__setattr__(self, "feature_range", pair("MinMax", "feature_range", self.feature_range))

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return floats()

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        return Moments()

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        check_finite(found.mean, found.greatest - found.least)
        low, high = self.feature_range
        scale = (high - low) / _scale(found.greatest - found.least)
        return {"scale": scale, "shift": low - found.least * scale}

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        low, high = self.feature_range
        made: list[Step] = [
            {"step": "multiply", "value": self.learnt["scale"]},
            {"step": "add", "value": self.learnt["shift"]},
        ]
        return [*made, {"step": "clip", "low": low, "high": high}] if self.clip else made

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        return (values - self.learnt["shift"]) / self.learnt["scale"]


@dataclass(frozen=True)
class Clip(ColumnOp):
    """Numbers beyond bounds become the bounds; the column keeps its type if it is one of floats, and whole numbers become float64.

    The bounds are given, or learnt in one of three ways. What is missing stays.

    Args:
        low: the least number. Default: none.
        high: the greatest. Default: none.
        quantile: two quantiles, in 0 … 1: Clip(quantile=(0.01, 0.99)).
        z: so many standard deviations from the mean.
        iqr: so many times the distance of the quartiles, below the first and above the third: Clip(iqr=1.5).

    Returns:
        The op, for a `Recipe`.

    Raises:
        PlanError: for bounds in several ways, or none.
        DataError: by `fit`, for a column without numbers, and for infinite ones.

    Example:
        prices = ps.from_arrays({"price": [1.0, 2.0, 3.0, 4.0, 500.0]})
        recipe = ps.table.Recipe(ps.table.Clip(iqr=1.5)).fit(prices)
        prices.transform(recipe).head()["price"].tolist() == [1.0, 2.0, 3.0, 4.0, 7.0]
    """

    low: float | None = None
    high: float | None = None
    quantile: tuple[float, float] | None = None
    z: float | None = None
    iqr: float | None = None

    def __post_init__(self) -> None:
        """PlanError for bounds in several ways, or none."""
        ways = [(self.low, self.high) != (None, None), *(one is not None for one in (self.quantile, self.z, self.iqr))]
        if sum(ways) != 1:
            raise PlanError(
                f"{self}: give bounds in one way: Clip(low=0, high=1), Clip(quantile=(0.01, 0.99)), Clip(z=3) or Clip(iqr=1.5)"
            )
        given = {name: getattr(self, name) for name in ("low", "high") if getattr(self, name) is not None}
        check_number("Clip", **given)
        check_number(
            "Clip", 0, **{name: getattr(self, name) for name in ("z", "iqr") if getattr(self, name) is not None}
        )
        if len(given) > 1 and given["low"] > given["high"]:
            raise PlanError(f"{self}: the least number is above the greatest; exchange them")
        if self.quantile is not None:
            object.__setattr__(self, "quantile", pair("Clip", "quantile", self.quantile, 0, 1))

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return floats("float64" if lane.kind == "integer" else lane.dtype)

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        if self.z is not None:
            return Moments()
        if self.iqr is not None:
            return Quantiles([0.25, 0.75])
        return None if self.quantile is None else Quantiles(self.quantile)

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        if self.z is not None:
            check_finite(found.mean, found.variance)
            reach = self.z * math.sqrt(found.variance)
            return {"low": found.mean - reach, "high": found.mean + reach}
        low, high = (found[fraction] for fraction in (self.quantile or (0.25, 0.75)))
        reach = 0.0 if self.iqr is None else self.iqr * (high - low)
        check_finite(low - reach, high + reach)
        return {"low": low - reach, "high": high + reach}

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        given = self.statistic(lane) is None
        low, high = (self.low, self.high) if given else (self.learnt["low"], self.learnt["high"])
        return [{"step": "clip", "low": -math.inf if low is None else low, "high": math.inf if high is None else high}]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        return values


def pair(op: str, name: str, given: Any, least: float | None = None, most: float | None = None) -> tuple[float, float]:
    """Two numbers, of which the first is less; PlanError for others."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:  # a pair
        raise PlanError(f"{op}: {name}={quoted(given)}; pass two numbers")
    low, high = given
    check_number(op, least, most, **{name: low})
    check_number(op, least, most, **{name: high})
    if not low < high:
        raise PlanError(f"{op}: {name}={quoted(given)}; the first number is the lower one")
    return float(low), float(high)
