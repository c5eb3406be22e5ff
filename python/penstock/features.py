"""What libraries of trees take of a batch: a matrix of features, and columns of numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PlanError
from penstock.core.messages import quoted


def matrix_of(batch: Mapping[str, Any], features: Sequence[str]) -> Any:
    """The columns side by side, (rows, numbers): one column of two axes as it is, numbers as the dtype that holds all."""
    parts = [numbers_of(batch, name) for name in features]
    if len(parts) == 1 and parts[0].ndim == 2:
        return parts[0]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def numbers_of(batch: Mapping[str, Any], name: str) -> Any:
    """One column, NaN for nulls; PlanError unless it is an array of numbers."""
    if name not in batch:
        raise PlanError(f"column {quoted(name)}: a batch has the columns {', '.join(map(repr, batch))}")
    column = batch[name]
    if isinstance(column, pa.Array) and (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
    ):
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "biuf":
        kind = getattr(column, "type", getattr(column, "dtype", type(column).__name__))
        raise PlanError(
            f"column {quoted(name)} is of {kind}; features, labels and weights are numbers: encode it in a map, or leave it out of features="
        )
    return column


def features_of(batch: Mapping[str, Any], wanted: Sequence[str] | None, others: Sequence[str | None]) -> list[str]:
    """The names of the features: as asked, or every column that is none of the others."""
    if wanted is not None:
        return [wanted] if isinstance(wanted, str) else [*wanted]
    found = [name for name in batch if name not in others]
    if not found:
        raise PlanError(f"no features: a batch has the columns {', '.join(map(repr, batch))}")
    return found
