"""LightGBM: a dataset of a loader's rows, which is built batch by batch.

data = penstock.lightgbm.dataset(ps.Loader(ps.read("table-*.parquet").batch(65536)), label="y")
booster = lightgbm.train({"objective": "binary"}, data)
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence as Names
from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.features import features_of, matrix_of, numbers_of
from penstock.loader import Loader

try:
    _lightgbm: Any = importlib.import_module("lightgbm")
except ImportError as missing:
    raise PlanError(
        f"penstock.lightgbm: LightGBM cannot be imported ({missing}); {pip_install('lightgbm')}"
    ) from missing

__all__ = ["Sequence", "dataset"]


class Sequence(_lightgbm.Sequence):  # type: ignore[misc]  # its type is not known without the library
    """The rows of a loader's epoch 0, of which LightGBM takes samples first and then all, in order. One batch is held.

    Args:
        loader: a `penstock.Loader`.
        features: the names of columns of numbers.

    Example:
        import penstock.lightgbm

        rows = penstock.lightgbm.Sequence(ps.Loader(data.batch(4)), ["x", "label"])
        rows[3] == [3, 1]
    """

    def __init__(self, loader: Loader[Any], features: Names[str]) -> None:
        self._loader, self._features, self.batch_size = loader, features, loader.batch_size
        self._step, self._rows = -1, np.empty((0, 0))
        self._last = len(self._batch(len(loader) - 1)) if len(loader) else 0

    def __len__(self) -> int:
        return max(0, len(self._loader) - 1) * self.batch_size + self._last

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        if not isinstance(index, (int, np.integer)):
            return np.stack([self[one] for one in index])
        step, row = divmod(int(index) + (len(self) if index < 0 else 0), self.batch_size)
        return self._batch(step)[row]

    def _batch(self, step: int) -> Any:
        if step != self._step:
            self._rows = matrix_of(self._loader.batch_at(0, step), self._features).astype(np.float64)
            self._step = step
        return self._rows


def dataset(
    loader: Loader[Any],
    *,
    label: str,
    weight: str | None = None,
    features: Names[str] | None = None,
    **options: Any,
) -> Any:
    """A lightgbm.Dataset of a loader's epoch 0.

    Args:
        loader: a `penstock.Loader`.
        label: the name of a column, which is read in a pass of its own.
        weight: the name of a column, which is read in a pass of its own. Default: none.
        features: the names of columns of numbers. Default: all others.
        **options: as of lightgbm.Dataset.

    Returns:
        A lightgbm.Dataset, which reads its rows when LightGBM asks for them.

    Raises:
        PlanError: for what is no loader, and for features that are no numbers.

    Example:
        import penstock.lightgbm

        rows = penstock.lightgbm.dataset(ps.Loader(data.select("x", "label").batch(4)), label="label")
    """
    if not isinstance(loader, Loader):
        raise PlanError(f"penstock.lightgbm.dataset takes a Loader, and not {type(loader).__name__}")
    loader.set_epoch(0)
    found: dict[str, list[Any]] = {"label": [], "weight": []}
    names = list[str]()
    for batch in loader:
        names = names or features_of(batch, features, (label, weight))
        for what, name in (("label", label), ("weight", weight)):
            if name is not None:
                found[what].append(np.array(numbers_of(batch, name)))
    beside = {what: np.concatenate(parts) for what, parts in found.items() if parts}
    return _lightgbm.Dataset(Sequence(loader, names), **beside, **options)
