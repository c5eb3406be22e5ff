"""How much memory an item's columns take."""

from __future__ import annotations

from penstock.core.columns.spec import Spec


class ColumnBytes:
    """See `budget.ItemBytes`. Columns of other than fixed shape are together as long as the records that hold them.

    widest: the columns at their largest. beside_bytes: of a row, what is there beside them while they change.
    """

    def __init__(self, record_bytes: int, widest: Spec, beside_bytes: int = 0) -> None:
        self._record_bytes = record_bytes
        self._fixed_bytes = beside_bytes + sum(field.row_bytes for field in widest.values())
        self._is_fixed = all(field.is_fixed for field in widest.values())

    def __call__(self, rows: int, record_bytes: int | None) -> int:
        """For an item of so many rows."""
        fixed_bytes = rows * self._fixed_bytes
        if self._is_fixed:
            return fixed_bytes
        return fixed_bytes + (rows * self._record_bytes if record_bytes is None else record_bytes)
