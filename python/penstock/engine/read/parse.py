"""The parsing stage: records to columns, and the names of bad rows; what lies in memory is gathered here."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.errors import DataError, RowError
from penstock.core.global_generators import set_draw_key
from penstock.core.spec import Field, Spans
from penstock.engine.read.records import Cursor
from penstock.engine.slots import Slots
from penstock.engine.stage import Item
from penstock.order.cursor import Work
from penstock.order.epoch import SOURCE_KEY
from penstock.source.protocol import AnySource, Source, StepSource


class Parse:
    """Records to columns; a bad row's error names file and record."""

    def __init__(self, source: Source, slots: Slots, threads: int, *, seed: int = 0) -> None:
        self._source, self._slots, self._threads, self._seed = source, slots, threads, seed

    def __call__(self, item: Item) -> Item:
        """Fills `item.columns`, and lets go of the records but for what columns look into."""
        nothing = np.empty(0, dtype=np.int64)
        records = item.records or Spans((), nothing, nothing, nothing)
        set_draw_key(kernels.mix([self._seed, item.epoch, SOURCE_KEY]))
        with NamedRows(self._source, item):
            item.columns = self._source.parse(item.samples, records, self.allocate, threads=self._threads)
        item.spec = dict(self._source.spec)
        item.records = None
        return item

    def allocate(self, _: str, field: Field, rows: int) -> Any:
        """An array for a column of so many rows."""
        return self._slots.array(field, rows)


class GatherSteps:
    """Short rows in memory: the order of full steps is computed and their rows are gathered by one native call."""

    def __init__(self, source: StepSource, cursor: Cursor, parse: Parse) -> None:
        self._source, self._cursor, self._parse = source, cursor, parse

    def __call__(self, work: Work) -> Item:
        """An item with its columns."""
        order, share = self._cursor.order, self._cursor.share
        if work.step + work.steps > order.full_steps:
            return self._parse(self._cursor(work))
        rows = share[1] - share[0]
        together = work.steps * rows
        columns = self._source.gather_steps(order.epoch(work.epoch), share, work.step, together, self._parse.allocate)
        # Writing ids takes as long as gathering rows that are as short, and few plans ask for them.
        ids, spec = partial(self._cursor.ids, work), dict(self._source.spec)
        return Item(work.epoch, work.step, work.steps, ids, rows, columns=columns, spec=spec)


class NamedRows:
    """Turns a kernel's complaint about a row into an error that names file and record."""

    def __init__(self, source: AnySource, item: Item) -> None:
        self._source, self._item = source, item

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, RowError):
            sample = int(self._item.samples[error.row])
            what = f"{self._source.manifest.place(sample)}: {error.found}"
            raise DataError(f"{what}; {error.do}" if error.do else what) from None
