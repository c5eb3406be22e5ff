"""The stage of `zip`: columns of several branches, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.columns.spec import Columns, Field
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.runtime.stage import Columned, ItemPart


class ZipParts:
    """Joins the columns of several branches, which have the same rows."""

    def __init__(self, branches: Sequence[tuple[int, int]]) -> None:
        self._branches = branches
        self._sources = branches[0][0], branches[-1][1]

    def __call__(self, item: Columned) -> Columned:
        """One part instead of those of the branches; PlanError for a column that two of them have."""
        parts = [part for part in map(item.part, self._branches) if part is not None]
        if not parts:
            return item
        columns: Columns = {}
        spec: dict[str, Field] = {}
        for number, part in enumerate(parts):
            if both := [name for name in part.columns if name in columns]:
                raise PlanError(
                    f"zip: dataset {number} and one before it have a column {quoted(both[0])}; let a function return it by another name"
                )
            columns.update(part.columns)
            spec.update(part.spec)
        others = [part for part in item.parts if part.sources not in self._branches]
        item.parts = [*others, ItemPart(self._sources, parts[0].at, columns, spec, parts[0].ids)]
        return item
