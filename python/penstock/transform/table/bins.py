"""Numbers become codes of intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.arguments import check_whole
from penstock.core.errors import PlanError
from penstock.transform.table.categories import whole_codes
from penstock.transform.table.lane import Lane, whole
from penstock.transform.table.op import ColumnOp, Step, check_choice
from penstock.transform.table.scaling import check_finite
from penstock.transform.table.statistics.moments import Moments
from penstock.transform.table.statistics.protocol import Statistic
from penstock.transform.table.statistics.quantiles import Quantiles

#: Bins that are not wider than this are joined to their neighbours, as scikit-learn does.
_NARROW = 1e-8


@dataclass(frozen=True)
class Bins(ColumnOp):
    """The number of the interval that a number lies in, from 0 on, as int64. scikit-learn's KBinsDiscretizer(encode="ordinal").

    Numbers beyond what was fitted on are in the first or last bin. Of bins not wider than 1e-8 no more than one is kept, so that there may be fewer than asked for.
    Put FillMissing before it; OneHot behind it makes vectors.

    Args:
        n_bins: how many. Default: 5.
        strategy: "quantile", the default: as many rows in each, by exact quantiles (quantile_method="linear", without a sample of the rows); "uniform": equally wide.

    Returns:
        The op, for a `Recipe`.

    Raises:
        DataError: by `fit`, for a column without numbers, and for infinite ones; from a Loader, for a number that is missing.

    Example:
        prices = ps.from_arrays({"price": [1.0, 2.0, 3.0, 500.0]})
        recipe = ps.table.Recipe(ps.table.Bins(2)).fit(prices)
        prices.transform(recipe).head()["price"].tolist() == [0, 0, 1, 1]
    """

    n_bins: int = 5
    strategy: str = "quantile"

    def __post_init__(self) -> None:
        """PlanError for what is no number of bins."""
        check_whole("Bins", 1 << 20, n_bins=self.n_bins)
        check_choice("Bins", strategy=(self.strategy, ("quantile", "uniform")))

    def after(self, lane: Lane) -> Lane:
        """See `ColumnOp`."""
        return whole(None if self.fitted is None else len(self.learnt["edges"]) - 1)

    def statistic(self, lane: Lane) -> Statistic | None:
        """See `ColumnOp`."""
        return Moments() if self.strategy == "uniform" else Quantiles([n / self.n_bins for n in range(self.n_bins + 1)])

    def learn(self, found: Any, lane: Lane) -> Mapping[str, Any]:
        """See `ColumnOp`."""
        if isinstance(found, Moments):
            check_finite(found.mean, found.greatest - found.least)
            edges = np.linspace(found.least, found.greatest, self.n_bins + 1)
        else:
            edges = np.array([found[n / self.n_bins] for n in range(self.n_bins + 1)])
            check_finite(*edges.tolist())
            edges = edges[np.diff(edges, prepend=-np.inf) > _NARROW]
        if edges[0] == edges[-1]:
            edges = edges[[0, 0]]  # a constant is one bin
        return {"edges": edges.tolist()}

    def steps(self, lane: Lane) -> Sequence[Step]:
        """See `ColumnOp`."""
        return [{"step": "cut", "edges": self.learnt["edges"][1:-1]}]

    def undo(self, values: Any, lane: Lane) -> Any:
        """See `ColumnOp`: the middles of bins, NaN for what is in none."""
        edges = np.array(self.learnt["edges"])
        codes, middles = whole_codes(values), (edges[1:] + edges[:-1]) / 2
        wrong = codes[(codes < -1) | (codes >= len(middles))]
        if len(wrong):
            raise PlanError(f"inverse: {wrong[0]} is no bin; there are 0 … {len(middles) - 1}")
        return np.where(codes == -1, np.nan, middles[codes])
