"""XGBoost: batches of a loader for its matrices, also of data that does not fit into memory.

data = penstock.xgboost.DataIter(ps.Loader(ps.read("table-*.parquet").batch(65536)), label="y")
booster = xgboost.train({"tree_method": "hist"}, xgboost.QuantileDMatrix(data))
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.features import features_of, matrix_of, numbers_of
from penstock.loader import Loader

try:
    _xgboost: Any = importlib.import_module("xgboost")
except ImportError as missing:
    raise PlanError(f"penstock.xgboost: XGBoost cannot be imported ({missing}); {pip_install('xgboost')}") from missing

__all__ = ["DataIter"]


class DataIter(_xgboost.DataIter):  # type: ignore[misc]  # its type is not known without the library
    """For xgboost.QuantileDMatrix and ExtMemQuantileDMatrix. They go over the data several times: each time the same epoch, of one loader.

    Args:
        loader: a `penstock.Loader`.
        label: the name of a column. Default: none.
        weight: the name of a column. Default: none.
        features: the names of columns of numbers. Default: all others.
        cache_prefix: as of xgboost.DataIter.
        **options: as of xgboost.DataIter.

    Raises:
        PlanError: for what is no loader, and while XGBoost iterates, for features that are no numbers.

    Example:
        import xgboost

        import penstock.xgboost

        rows = penstock.xgboost.DataIter(ps.Loader(data.select("x", "label").batch(4)), label="label")
        xgboost.QuantileDMatrix(rows).num_row() == 10
    """

    def __init__(
        self,
        loader: Loader[Any],
        *,
        label: str | None = None,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        cache_prefix: str | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(loader, Loader):
            raise PlanError(f"penstock.xgboost.DataIter takes a Loader, and not {type(loader).__name__}")
        self.loader, self._epoch = loader, loader.epoch
        self._label, self._weight, self._features = label, weight, features
        self._batches: Iterator[Any] | None = None
        super().__init__(cache_prefix=cache_prefix, **options)

    def next(self, input_data: Any) -> bool:
        """Gives XGBoost a batch.

        Args:
            input_data: XGBoost's function, which takes data, label and weight.

        Returns:
            Whether there was a batch.
        """
        if self._batches is None:
            self._batches = iter(self.loader)
        batch = next(self._batches, None)
        if batch is None:
            return False
        names = features_of(batch, self._features, (self._label, self._weight))
        given = {
            what: numbers_of(batch, name)
            for what, name in (("label", self._label), ("weight", self._weight))
            if name is not None
        }
        input_data(data=matrix_of(batch, names), **given)
        return True

    def reset(self) -> None:
        """Back to the first batch of the epoch."""
        self._batches = None
        self.loader.set_epoch(self._epoch)
