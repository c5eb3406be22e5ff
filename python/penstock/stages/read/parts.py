"""Sources that keep parts of themselves in memory: rows are picked out of these, block by block where blocks are larger."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.pick import pick
from penstock.core.cancel import carried
from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.rows import Rows
from penstock.core.columns.spec import Columns, Ids
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import PartSource
from penstock.stages.read.reader import Needs, Picks, Reading

#: Parts that are made at once, as many as blocks are loaded at once.
_TOGETHER = 8


class PartReader:
    """See `reader.Reader`. Of neighbouring sources with the same columns: their sample ids count on from one to the next."""

    in_order = plans = False
    kind = "gather"

    def __init__(self, reading: Reading, *sources: PartSource) -> None:
        self._reading, self.spec = reading, sources[0].spec
        self._parts = [(source, number) for source in sources for number in range(len(source.first_row) - 1)]
        begins = np.cumsum([0, *(source.manifest.samples for source in sources)])
        firsts = [source.first_row[:-1] + begin for source, begin in zip(sources, begins[:-1], strict=True)]
        self._first_row = np.concatenate([*firsts, begins[-1:]])
        self.threads = min(2, reading.budget.cpus)

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, None]:
        """Nothing is needed besides what the sources keep."""
        return Needs(), None

    def open(self, item: Item, rows: SourceRows, plan: None) -> None:
        """Nothing is opened."""

    def read(self, rows: SourceRows, opened: None) -> Picks:
        """Finds the rows: of parts that do not stay where they are, only these are held."""
        number = np.searchsorted(self._first_row, rows.samples, side="right") - 1
        row = rows.samples - self._first_row[number]
        needed, which = distinct(number)
        pieces = []
        for place, (part, stays) in enumerate(self._found(needed)):
            if stays:
                pieces.append(part)
                continue
            mine = np.flatnonzero(which == place)
            pieces.append(taken(part, row[mine]))
            row[mine] = np.arange(len(mine))
        return Picks(tuple(pieces), which, row)

    def _found(self, needed: Ids) -> list[tuple[Rows, bool]]:
        """Parts, several at once of those that are not available, and whether each stays where it is."""
        parts = [self._parts[number] for number in needed.tolist()]
        missing = [(source, number) for source, number in parts if not source.has_part(number)]
        if len(missing) > 1:
            with ThreadPoolExecutor(min(_TOGETHER, len(missing)), thread_name_prefix="penstock-load") as threads:
                list(threads.map(carried(_part), *zip(*missing, strict=True)))
        return [source.part(number) for source, number in parts]

    def columns(self, item: Item, rows: SourceRows, held: Picks) -> Columns:
        """Picks the rows."""
        return pick(
            held.pieces, held.which, held.row, self.spec, self._reading.allocate, threads=self._reading.budget.cpus
        )


def taken(part: Rows, rows: Ids) -> Rows:
    """Some rows of a table."""
    others = {name: column.take(pa.array(rows)) for name, column in part.others.items()}
    return Rows(part.fixed[rows], others)


def _part(source: Any, number: int) -> Any:
    return source.part(number)
