"""Sources that keep parts of themselves in memory: single rows are picked out of these, block by block where blocks are larger."""

from __future__ import annotations

from penstock.core.spec import Columns
from penstock.engine.read.blocks import pick_rows
from penstock.engine.read.reader import Needs, Reading
from penstock.engine.stage import Item, SourceRows
from penstock.source.protocol import PartSource


class Parts:
    """See `reader.Reader`."""

    in_order = plans = False
    kind = "gather"

    def __init__(self, reading: Reading, source: PartSource) -> None:
        self._reading, self._source, self.spec = reading, source, source.spec
        self.threads = min(2, reading.budget.cpus)

    def plan(self, item: Item, rows: SourceRows) -> Needs:
        """Nothing is needed besides what the source keeps."""
        return Needs()

    def open(self, rows: SourceRows) -> None:
        """Nothing is opened."""

    def read(self, rows: SourceRows) -> None:
        """Finds the rows."""
        rows.held = self._source.pick(rows.samples)

    def columns(self, item: Item, rows: SourceRows) -> Columns:
        """Picks the rows."""
        return pick_rows(self._reading, self._source, rows)
