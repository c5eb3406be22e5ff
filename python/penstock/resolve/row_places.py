"""Where a row lies, by its id: for errors that name it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.core.columns.row_sources import RowSources
from penstock.core.columns.spec import Ids
from penstock.order.rows.zipped import FollowedRows, followed
from penstock.plan.nodes import Origin


def row_sources(first_ids: Ids, origins: Sequence[Origin]) -> RowSources:
    """What makes rows the same in every plan. Those that a lane stage gives are numbered anew by it."""
    digests = tuple(None if origin.access is None else origin.digest for origin in origins)
    anew = tuple(one.digest for origin in origins if origin.access is None for one in origin.sources)
    return RowSources(tuple(first_ids.tolist()), digests, anew)


class RowPlaces:
    """Names rows by the place that their origin gives them, such as "b.jsonl, record 2".

    links: what follows rows (see `order.rows.zipped`), and is named with them.
    """

    def __init__(self, first_ids: Ids, origins: Sequence[Origin], links: tuple[FollowedRows, ...] = ()) -> None:
        self._first_ids, self._origins, self._links = first_ids, origins, links

    def __call__(self, row_id: int) -> str:
        """The place of a row."""
        ids, _ = followed(self._links, np.array([row_id], dtype=np.int64))
        return " with ".join(map(self._place, ids.tolist()))

    def of(self, row_id: int) -> tuple[Origin, int]:
        """Where a row comes from, and its id there."""
        number = int(np.searchsorted(self._first_ids, row_id, side="right")) - 1
        return self._origins[number], row_id - int(self._first_ids[number])

    def own_id(self, row_id: int) -> int:
        """A row's id in its source."""
        return self.of(row_id)[1]

    def _place(self, row_id: int) -> str:
        origin, sample = self.of(row_id)
        return origin.place(sample)
