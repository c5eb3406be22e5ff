"""Batches as NumPy arrays, without a copy; text and ragged columns as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.deliver import Take


class ToNumpy:
    """Delivers columns as they are. bfloat16 needs the package ml_dtypes."""

    new_memory = None
    on_device = None
    on_host: frozenset[str] = frozenset()
    kernel = ""
    copies = False

    def thread_setup(self) -> None:
        """Threads need none."""

    def ranks(self) -> None:
        """NumPy knows of none."""

    def convert(self, column: Any, field: Field) -> Any:
        """One column of an item, in a worker thread."""
        if field.dtype != "bfloat16" or isinstance(column, pa.Array):
            return column
        return column.view(_bfloat16())

    def finish(self, columns: dict[str, Any], rows: int, take: Take | None = None) -> dict[str, Any]:
        """All converted columns of an item, in a worker thread."""
        return columns

    def wait(self) -> None:
        """Nothing is under way."""

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, in the consumer's thread, before its first batch."""
        return columns

    def parts(self, column: Any, rows: int) -> Callable[[], Any]:
        """A function that returns the column's next `rows` rows at each call; see `parts_of`."""
        return parts_of(column, rows)


def parts_of(column: Any, rows: int) -> Callable[[], Any]:
    """A function that returns the array's next `rows` rows at each call. The parts alone keep its memory alive."""
    if isinstance(column, np.ndarray):
        parts = list(column.reshape(len(column) // rows, rows, *column.shape[1:]))
    else:
        parts = [column[first : first + rows] for first in range(0, len(column), rows)]
    parts.reverse()
    return parts.pop


def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise PlanError(
            f"to='numpy': NumPy has no bfloat16; install ml_dtypes ({pip_install('ml_dtypes')}) or use to='torch'"
        ) from None
    return ml_dtypes.bfloat16
