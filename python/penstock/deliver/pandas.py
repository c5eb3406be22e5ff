"""A batch as a DataFrame of pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.deliver.arrow import arrow_of

try:
    import pandas as pd
except ImportError as missing:
    raise PlanError(f"structure='pandas': pandas cannot be imported ({missing}); {pip_install('pandas')}") from missing


#: Whole numbers and truth values that may be null, as pandas has them: of one dtype whether a batch has a null or not. Floats have NaN.
_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def data_frame_of(columns: dict[str, Any]) -> pd.DataFrame:
    """The columns in their order; text as pandas has it, arrays of more axes as one array a row."""
    return pd.DataFrame({name: _series(name, column) for name, column in columns.items()}, copy=False)


def _series(name: str, column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column if column.ndim == 1 else pd.Series([*column], dtype=object)
    return arrow_of(name, column).to_pandas(types_mapper=_NULLABLE.get)
