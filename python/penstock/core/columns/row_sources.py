"""Which source a row comes from, and which row of that it is, by its id: what makes it the same row in every plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Ids


class RowsOfSource(NamedTuple):
    """Some rows of one source: their places among those asked for, and their numbers in it. digest: of its data. samples: how many rows it has."""

    digest: str
    samples: int
    places: Ids
    numbers: Ids


@dataclass(frozen=True)
class RowSources:
    """The sources of a plan's rows.

    first_ids: the first row id of each, then the end of all. digests: of their data; None of rows that a stage numbers anew. anew: the digests of the data that such rows are made of.
    """

    first_ids: tuple[int, ...]
    digests: tuple[str | None, ...]
    anew: tuple[str, ...] = ()

    def divided(self, ids: Ids) -> Iterator[RowsOfSource]:
        """Rows by their sources."""
        places, numbers, edges = kernels.divide_rows(ids, np.array(self.first_ids, np.int64))
        for number, digest in enumerate(self.digests):
            low, high = int(edges[number]), int(edges[number + 1])
            if digest is not None and low < high:
                samples = self.first_ids[number + 1] - self.first_ids[number]
                yield RowsOfSource(digest, samples, places[low:high], numbers[low:high])
