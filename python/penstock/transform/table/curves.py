"""Numbers bent: logarithms and powers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.transform.table.lane import Lane, floats
from penstock.transform.table.op import ColumnOp, Step, check_choice, check_number
from penstock.transform.table.statistics.likelihood import Likelihood
from penstock.transform.table.statistics.protocol import Statistic


@dataclass(frozen=True)
class Log(ColumnOp):
    """ln(x + plus), as float32; plus=1, the default, is NumPy's log1p. The same bits on every machine, within one rounding of NumPy's float64.

    Args:
        plus: what is added before. Default: 1.

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: from a Loader and from `apply`, for a row that has no logarithm.

    Example:
        prices = ps.from_arrays({"price": [0.0, 1.0]})
        recipe = ps.table.Recipe(ps.table.Log()).fit(prices)
        prices.transform(recipe).head()["price"].astype(float).round(4).tolist() == [0.0, 0.6931]
    """

    plus: float = 1.0

    def __post_init__(self) -> None:
        """PlanError for what is no number."""
        check_number("Log", plus=self.plus)

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return floats()

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return [{"step": "log", "value": float(self.plus)}]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        return np.expm1(values) if self.plus == 1 else np.exp(values) - self.plus


@dataclass(frozen=True)
class Power(ColumnOp):
    """The power that makes a column most like a normal distribution, as float32. scikit-learn's PowerTransformer.

    The exponent is the one of greatest likelihood, to 1e-4 of it: a parabola through the likelihoods of sums that are exact. scikit-learn's, which searches to 1e-8, is as near.
    Then (x - mean) / standard deviation of what comes out, if `standardize`.

    Args:
        method: "yeo-johnson", the default, or "box-cox", for numbers above 0.
        standardize: whether the result is standardised. Default: True.

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: for numbers that "box-cox" is not defined for, and by `fit` for a column without numbers.

    Example:
        prices = ps.from_arrays({"price": np.exp(np.linspace(-2, 2, 101))})
        recipe = ps.table.Recipe(ps.table.Power("box-cox")).fit(prices)  # the exponent is 0: a logarithm
        prices.transform(recipe).head(1)["price"].astype(float).round(2).tolist() == [-1.71]
    """

    method: str = "yeo-johnson"
    standardize: bool = True

    def __post_init__(self) -> None:
        """PlanError for a method that there is not."""
        check_choice("Power", method=(self.method, ("yeo-johnson", "box-cox")))

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return floats()

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        return Likelihood(self._step)

    @property
    def _step(self) -> str:
        return self.method.replace("-", "_")

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        return dict(found.best)

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        made: list[Step] = [{"step": self._step, "value": self.learnt["power"]}]
        if not self.standardize:
            return made
        centre, scale = self.learnt["centre"], self.learnt["scale"]
        return [*made, {"step": "subtract", "value": centre}, {"step": "divide", "value": scale}]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`."""
        if self.standardize:
            values = values * self.learnt["scale"] + self.learnt["centre"]
        power = self.learnt["power"]
        if self.method == "box-cox":
            return np.exp(_log_of(values, power))
        up, down = np.maximum(values, 0.0), np.minimum(values, 0.0)
        return np.expm1(_log_of(up, power)) - np.expm1(_log_of(-down, 2 - power))


def _log_of(values: Any, power: float) -> Any:
    """The logarithm whose power a number is."""
    return values if abs(power) < np.finfo(np.float64).eps else np.log1p(values * power) / power
