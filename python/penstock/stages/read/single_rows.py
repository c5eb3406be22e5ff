"""Rows in columns that are read one by one: of an item, those that lie side by side are loaded together, and none stays open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Columns, Ids
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import BlockSource
from penstock.stages.read.blocks import BlockLoader, pick_rows
from penstock.stages.read.reader import Needs, Picks, Reading

#: Rows that are not asked for are loaded as well where they lie between two that are, if they are no more.
_BRIDGED_ROWS = 7


@dataclass(frozen=True, eq=False)
class _Spans:
    """Rows that lie side by side: samples [first[i], end[i]), and the span of each row. counted: stands for them in the budget until their rows were picked."""

    first: Ids
    end: Ids
    which: Ids
    size_bytes: int
    counted: _Counted


@dataclass(frozen=True, eq=False)
class _Loaded:
    picks: Picks
    counted: _Counted


class SingleRows:
    """See `reader.Reader`. Of blocks of one row, in any order."""

    in_order, plans = False, True
    kind = "gather"

    def __init__(self, reading: Reading, source: BlockSource) -> None:
        self._reading, self._source, self.spec = reading, source, source.spec
        self._loader = BlockLoader(reading, source)
        self.threads = max(2, reading.reads_at_once)

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, _Spans]:
        """The spans in which the rows lie."""
        first, end, which = spans_of(rows.samples)
        size_bytes = int((end - first).sum()) * self._loader.row_bytes
        return Needs(size_bytes), _Spans(first, end, which, size_bytes, _Counted())

    def open(self, item: Item, rows: SourceRows, plan: _Spans) -> _Spans:
        """Counts them, until their rows were picked."""
        self._reading.budget.keep(plan.counted, plan.size_bytes)
        return plan

    def read(self, rows: SourceRows, opened: _Spans) -> _Loaded:
        """Loads them."""
        loaded = tuple(self._loader.load(opened.first, opened.end))
        picks = Picks(loaded, opened.which, rows.samples - opened.first[opened.which])
        return _Loaded(picks, opened.counted)

    def columns(self, item: Item, rows: SourceRows, held: _Loaded) -> Columns:
        """Picks the rows out of the spans."""
        return pick_rows(self._reading, self._source, held.picks)


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
