"""Rows that lie in memory, or are mapped into it."""

from __future__ import annotations

from functools import partial

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Spans, Spec
from penstock.core.functions.global_generators import set_draw_key
from penstock.order.keys import SOURCE_KEY
from penstock.order.steps.cursor import Cursor, Work
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, Item, ItemPart, SourceRows
from penstock.source.protocol import Source, StepSource
from penstock.stages.read.parse import parse
from penstock.stages.read.reader import Needs, Reading


class MemoryReader:
    """See `reader.Reader`."""

    in_order = plans = False
    kind = "gather"

    def __init__(self, reading: Reading, source: Source) -> None:
        self._reading, self._source = reading, source
        self.threads = min(2, reading.budget.cpus)

    @property
    def spec(self) -> Spec:
        """The source's columns."""
        return self._source.spec

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, None]:
        """Nothing is needed."""
        return Needs(), None

    def open(self, item: Item, rows: SourceRows, plan: None) -> None:
        """Nothing is opened."""

    def read(self, rows: SourceRows, opened: None) -> None:
        """Nothing is read."""

    def columns(self, item: Item, rows: SourceRows, held: None) -> Columns:
        """The source's columns."""
        return self.parsed(item, rows, None)

    def parsed(self, item: Item, rows: SourceRows, records: Spans | None) -> Columns:
        """The columns of records; None where the rows lie in memory."""
        reading = self._reading
        words = [reading.seed, item.epoch, SOURCE_KEY]
        set_draw_key(kernels.mix([*words, reading.number] if reading.number else words))
        return parse(self._source, rows.samples, records, reading.allocate, threads=reading.budget.cpus)


class GatherSteps:
    """Short rows of one source in memory: the order of full steps is computed and their rows are gathered by one native call."""

    def __init__(self, source: StepSource, cursor: Cursor, slots: Slots, budget: Budget) -> None:
        self._source, self._cursor, self._slots, self._budget = source, cursor, slots, budget

    def __call__(self, work: Work) -> Columned | None:
        """An item with its columns; None where the steps are not full, or ids are not samples."""
        order, share = self._cursor.order, self._cursor.share
        native = order.rows.native(work.epoch)
        if native is None or work.asked is not None or work.step + work.steps > order.even_steps:
            return None
        rows = share[1] - share[0]
        columns = self._source.gather_steps(
            native, share, work.step, work.steps * rows, lambda _, field, rows: self._slots.array(field, rows)
        )
        # Writing ids takes as long as gathering rows that are as short, and few plans ask for them.
        part = ItemPart((0, 1), None, columns, dict(self._source.spec))
        return Columned(
            work=work, rows_per_step=rows, find_ids=partial(self._cursor.ids, work, self._budget.cpus), parts=[part]
        )
