"""Rows in columns that are read one by one: of an item, those that lie side by side are loaded together, and none stays open."""

from __future__ import annotations

import numpy as np

from penstock.core.distinct import distinct
from penstock.core.spec import Columns, Ids
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import BlockSource
from penstock.stages.read.blocks import Blocks, pick_rows
from penstock.stages.read.reader import Needs, Reading

#: Rows that are not asked for are loaded as well where they lie between two that are, if they are no more.
_BRIDGED_ROWS = 7


class SingleRows(Blocks):
    """See `reader.Reader`. Of blocks of one row, in any order."""

    in_order = False

    def __init__(self, reading: Reading, source: BlockSource) -> None:
        super().__init__(reading, source)
        self.threads = max(2, reading.reads_at_once)

    def plan(self, item: Item, rows: SourceRows) -> Needs:
        """The spans in which the rows lie."""
        first, end, which = spans_of(rows.samples)
        size_bytes = int((end - first).sum()) * self._row_bytes
        rows.held = first, end, which, size_bytes
        return Needs(size_bytes)

    def open(self, rows: SourceRows) -> None:
        """Counts them, until their rows were picked."""
        first, end, which, size_bytes = rows.held
        rows.held = first, end, which, _Counted()
        self._reading.budget.keep(rows.held[-1], size_bytes)

    def read(self, rows: SourceRows) -> None:
        """Loads them."""
        first, end, which, counted = rows.held
        loaded = tuple(self.load(first, end)) if len(first) else ()
        if loaded:
            self._row_bytes = -(-sum(span.nbytes for span in loaded) // int((end - first).sum()))
        rows.held = (loaded, which, rows.samples - first[which]), counted

    def columns(self, item: Item, rows: SourceRows) -> Columns:
        """Picks the rows out of the spans."""
        rows.held, _ = rows.held
        return pick_rows(self._reading, self._source, rows)


class _Counted:
    """Stands for spans that are loaded, or will be."""


def spans_of(samples: Ids) -> tuple[Ids, Ids, Ids]:
    """First samples and ends of spans, and the span of each sample: of [7, 3, 9, 90] they are [3, 90], [10, 91], [0, 0, 0, 1]."""
    if not len(samples):
        return samples, samples, samples
    found, which = distinct(samples)
    begins = np.diff(found, prepend=-2 - _BRIDGED_ROWS) > _BRIDGED_ROWS + 1
    edges = np.flatnonzero(begins)
    ends = np.append(edges[1:], len(found)) - 1
    return found[edges], found[ends] + 1, (np.cumsum(begins) - 1)[which]
