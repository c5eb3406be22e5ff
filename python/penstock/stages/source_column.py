"""The stage of `source=…`: a column that says which dataset of a mix or a concat each row came of."""

from __future__ import annotations

import numpy as np

from penstock.core.columns.spec import Field, Ids
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned

SOURCE_FIELD = Field("int32")


class NumberSources:
    """Adds the column. first_ids: of the first row of every dataset, in ascending order."""

    def __init__(self, sources: tuple[int, int], first_ids: Ids, name: str, verb: str, slots: Slots) -> None:
        self._sources, self._first_ids, self._slots = sources, first_ids, slots
        self._name, self._verb = name, verb

    def __call__(self, item: Columned) -> Columned:
        """Rows know their dataset by their ids, whatever was done to their columns."""
        part = item.part(self._sources)
        if part is None:
            return item
        if self._name in part.columns:
            raise PlanError(
                f"{self._verb}: source={quoted(self._name)} names a column that a function returned already; choose another name"
            )
        ids = item.ids_of(part)
        out = self._slots.array(SOURCE_FIELD, len(ids))
        np.subtract(np.searchsorted(self._first_ids, ids, side="right"), 1, out=out, casting="same_kind")
        part.columns = {**part.columns, self._name: out}
        part.spec = {**part.spec, self._name: SOURCE_FIELD}
        return item
