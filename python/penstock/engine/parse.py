"""The parsing stage: records to columns, and the names of bad rows; what lies in memory is gathered here."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.engine.slots import Slots
from penstock.engine.stage import Item
from penstock.errors import DataError, RowError
from penstock.format.protocol import AnySource, Source, StepSource
from penstock.order.cursor import Work
from penstock.order.epoch import Order
from penstock.spec import Field, Spans


class Parse:
    """Records to columns; a bad row's error names file and record."""

    def __init__(self, source: Source, slots: Slots, threads: int) -> None:
        self._source, self._slots, self._threads = source, slots, threads

    def __call__(self, item: Item) -> Item:
        """Fills `item.columns`, and lets go of the records but for what columns look into."""
        nothing = np.empty(0, dtype=np.int64)
        records = item.records or Spans((), nothing, nothing, nothing)
        with NamedRows(self._source, item):
            item.columns = self._source.parse(item.samples, records, self._allocate, threads=self._threads)
        item.spec = dict(self._source.spec)
        item.records = None
        return item

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)


class GatherSteps:
    """Whole steps of short rows in memory: their order is computed and their rows are gathered by one native call."""

    def __init__(self, source: StepSource, order: Order, lanes: tuple[int, int], slots: Slots) -> None:
        self._source, self._order, self._lanes, self._slots = source, order, lanes, slots

    def __call__(self, work: Work) -> Item:
        """An item with its columns; its steps are full."""
        rows = (self._lanes[1] - self._lanes[0]) * self._order.hand
        samples = self._slots.array(Field("int64"), work.steps * rows)
        order = self._order.epoch(work.epoch)
        columns = self._source.gather_steps(order, self._lanes, work.step, samples, self._allocate)
        return Item(work.epoch, work.step, work.steps, samples, rows, columns=columns, spec=dict(self._source.spec))

    def _allocate(self, _: str, field: Field, rows: int) -> Any:
        return self._slots.array(field, rows)


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
