"""Where a row lies, by its id: for errors that name it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.core.spec import Ids
from penstock.plan.nodes import Read


class RowPlaces:
    """Names rows by the place that their source's manifest gives them, such as "b.jsonl, record 2"."""

    def __init__(self, first_ids: Ids, leaves: Sequence[Read]) -> None:
        self._first_ids, self._leaves = first_ids, leaves

    def __call__(self, row_id: int) -> str:
        """The place of a row."""
        source = int(np.searchsorted(self._first_ids, row_id, side="right")) - 1
        return self._leaves[source].opened.source.manifest.place(row_id - int(self._first_ids[source]))
