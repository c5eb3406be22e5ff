"""A batch as a DataFrame of Polars."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.deliver.arrow import arrow_of

try:
    import polars as pl
except ImportError as missing:
    raise PlanError(f"structure='polars': Polars cannot be imported ({missing}); {pip_install('polars')}") from missing


def data_frame_of(columns: dict[str, Any]) -> pl.DataFrame:
    """The columns in their order; arrays of more axes as Polars' `Array`."""
    return pl.DataFrame([_series(name, column) for name, column in columns.items()])


def _series(name: str, column: Any) -> pl.Series:
    if isinstance(column, np.ndarray) and column.ndim > 1:
        try:
            return pl.Series(name, column)
        except Exception as error:
            raise PlanError(
                f"structure='polars': column {quoted(name)}, {column.dtype} of shape {column.shape}, is nothing that Polars has ({error})"
            ) from None
    found: Any = pl.from_arrow(arrow_of(name, column))
    return pl.Series(name, found)
