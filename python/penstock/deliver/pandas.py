"""A batch as a DataFrame of pandas."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.deliver.arrow import arrow_of

try:
    import pandas as pd
except ImportError as missing:
    raise PlanError(f"structure='pandas': pandas cannot be imported ({missing}); {pip_install('pandas')}") from missing


def data_frame_of(columns: dict[str, Any]) -> pd.DataFrame:
    """The columns in their order; text as pandas has it, arrays of more axes as one array a row."""
    return pd.DataFrame({name: _series(name, column) for name, column in columns.items()}, copy=False)


def _series(name: str, column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column if column.ndim == 1 else pd.Series([*column], dtype=object)
    return arrow_of(name, column).to_pandas()
