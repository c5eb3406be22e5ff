"""The stage that makes ragged columns dense, a step at a time."""

from __future__ import annotations

from typing import Any

from penstock.batch.pad import pad_columns
from penstock.core.columns.spec import Field
from penstock.core.verbs.padding import Padding
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned
from penstock.stages.read.parse import NamedRows


class PadColumns:
    """Pads the rows of an item to one length: an item is one step, unless the padding gives that length."""

    def __init__(
        self, sources: tuple[int, int], padding: Padding, places: RowPlaces, slots: Slots, budget: Budget
    ) -> None:
        self._sources, self._padding, self._places = sources, padding, places
        self._slots, self._budget = slots, budget

    def __call__(self, item: Columned) -> Columned:
        """Replaces ragged columns by dense ones; DataError for a row that is too long."""
        part = item.part(self._sources)
        if part is None:
            return item
        with NamedRows(self._places, item.ids_of(part), self._places.own_id):
            part.columns, part.spec = pad_columns(
                part.columns, part.spec, self._padding, self._allocate, threads=self._budget.cpus
            )
        return item

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)
