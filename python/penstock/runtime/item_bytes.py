"""How much memory an item's columns take."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.spec import Field


class ColumnBytes:
    """See `budget.ItemBytes`. Columns of other than fixed shape are together as long as the records that hold them.

    widest: the columns at their largest.
    """

    def __init__(self, record_bytes: int, widest: Mapping[str, Field]) -> None:
        self._record_bytes, self._replaced_bytes = record_bytes, 0
        self.update(widest)

    def update(self, widest: Mapping[str, Field], replaced_bytes: int = 0) -> None:
        """Takes note of other columns, and of those that are there meanwhile: so many bytes of a row."""
        self._replaced_bytes += replaced_bytes
        self._fixed_bytes = self._replaced_bytes + sum(field.row_bytes for field in widest.values())
        self._is_fixed = all(field.is_fixed for field in widest.values())

    def __call__(self, rows: int, record_bytes: int | None) -> int:
        """For an item of so many rows."""
        fixed_bytes = rows * self._fixed_bytes
        if self._is_fixed:
            return fixed_bytes
        return fixed_bytes + (rows * self._record_bytes if record_bytes is None else record_bytes)
