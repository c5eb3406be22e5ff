"""Columns that are not selected are dropped."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.runtime.stage import Columned


class SelectColumns:
    """Leaves some columns of a part, in their order."""

    def __init__(self, sources: tuple[int, int], names: Sequence[str]) -> None:
        self._sources, self._names = sources, names

    def __call__(self, item: Columned) -> Columned:
        """PlanError for a column that is not there."""
        part = item.part(self._sources)
        if part is None:
            return item
        for name in self._names:
            if name not in part.columns:
                raise PlanError(
                    f"select: no column {quoted(name)}; the function before it returned {', '.join(part.columns)}{did_you_mean(name, part.columns)}"
                )
        part.columns = {name: part.columns[name] for name in self._names}
        part.spec = {name: part.spec[name] for name in self._names}
        return item
