"""Finished batches as NumPy arrays, without a copy; text and ragged columns as Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PlanError
from penstock.spec import Field


class ToNumpy:
    """Hands out columns as they are. bfloat16 needs the package ml_dtypes."""

    new_memory = None

    def convert(self, column: Any, field: Field) -> Any:
        """One column of an item, in a worker thread."""
        if field.dtype != "bfloat16" or isinstance(column, pa.Array):
            return column
        return column.view(_bfloat16())

    def finish(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, once converted; in a worker thread."""
        return columns

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, in the consumer's thread, before its first batch."""
        return columns

    def split(self, column: Any, rows: int) -> Iterable[Any]:
        """A column in parts of so many rows, which share its memory."""
        return split_rows(column, rows)


def split_rows(column: Any, rows: int) -> Iterable[Any]:
    """An array in parts of so many rows, which share its memory."""
    if isinstance(column, np.ndarray):
        return column.reshape(len(column) // rows, rows, *column.shape[1:])
    return (column[first : first + rows] for first in range(0, len(column), rows))


def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise PlanError(
            "NumPy has no bfloat16 of its own; install ml_dtypes (pip install 'penstock[bfloat16]') or use to='torch'"
        ) from None
    return ml_dtypes.bfloat16
