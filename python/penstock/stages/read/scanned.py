"""Sources whose parts can be had as columns, in their natural order, all rows on one rank: each part is decoded once an epoch, and rows are slices of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.pick import pick_others
from penstock.core.columns import compute as pc
from penstock.core.columns.repeated_values import is_repeated
from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Column, Columns, Field, Ids
from penstock.order.rows.natural import Natural
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import ScannedSource
from penstock.stages.read.blocks import named_rows
from penstock.stages.read.reader import Needs, Reading, Repeating


@dataclass(frozen=True, eq=False)
class OpenPart:
    """A part: its columns, of which the first sample is `first`. lengths: bytes of the values of dictionaries."""

    first: int
    columns: Mapping[str, Any]
    lengths: Mapping[str, Ids]

    @property
    def nbytes(self) -> int:
        """What it holds."""
        return sum(int(column.nbytes) for column in self.columns.values())


@dataclass(frozen=True, eq=False)
class OpenRows(Repeating):
    """The parts that rows lie in, and the first of these with the one behind the last."""

    parts: Sequence[OpenPart]
    low: int
    high: int

    def of(self, name: str) -> list[Any]:
        """Slices of a column, a part each."""
        return [part.columns[name][max(self.low - part.first, 0) : self.high - part.first] for part in self.parts]

    @property
    def repeated_bytes(self) -> int:
        """See `Repeating`."""
        found = 0
        for part in self.parts:
            begin, end = max(self.low - part.first, 0), self.high - part.first
            for name, lengths in part.lengths.items():
                numbers = part.columns[name].indices[begin:end]
                found += int(lengths[numbers.drop_null().to_numpy()].sum())
        return found


def is_scanned(reading: Reading, source: Any) -> bool:
    """Whether this rank takes all rows of a source one after the other."""
    cursor, rows = reading.cursor, reading.cursor.order.rows
    return (
        isinstance(source, ScannedSource)
        and not source.keeps_all
        and isinstance(rows, Natural)
        and not rows.shape.is_shuffled
        and rows.segments.is_identity
        and cursor.share == (0, cursor.order.rows_per_step)
    )


class ScanReader:
    """See `reader.Reader`. A part is decoded when its first row is needed, and gone behind its last one."""

    in_order = plans = True
    threads = 1
    kind = "gather"

    def __init__(self, reading: Reading, source: Any) -> None:
        self._reading, self._source, self.spec = reading, source, source.spec
        self._row_bytes = reading.row_bytes
        self._epoch, self._open = -1, dict[int, OpenPart]()

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, list[int]]:
        """The parts of the rows."""
        if item.epoch != self._epoch:
            self._epoch, self._open = item.epoch, {}
        if not len(rows.samples):
            return Needs(), []
        edges, ends = self._source.first_row, [int(rows.samples.min()), int(rows.samples.max())]
        first, last = (np.searchsorted(edges, ends, side="right") - 1).tolist()
        needed = [part for part in range(first, last + 1) if edges[part] < edges[part + 1]]
        new = sum(int(edges[part + 1] - edges[part]) for part in needed if part not in self._open)
        return Needs(new * self._row_bytes), needed

    def open(self, item: Item, rows: SourceRows, plan: list[int]) -> OpenRows:
        """Decodes those that are not open, and lets go of those that are behind."""
        if not plan:
            return OpenRows((), 0, 0)
        found = [self._open.get(part) or self._decoded(part) for part in plan]
        self._open = {plan[-1]: found[-1]}
        return OpenRows(found, int(rows.samples.min()), int(rows.samples.max()) + 1)

    def _decoded(self, number: int) -> OpenPart:
        first, end = self._source.first_row[number : number + 2].tolist()
        with named_rows(self._source, first):
            columns = self._source.part_columns(number, keeps_repeated=True)
        lengths = {
            name: np.asarray(pc.fill_null(pc.binary_length(column.dictionary), 0)).astype(np.int64)
            for name, column in columns.items()
            if is_repeated(column)
        }
        part = OpenPart(first, columns, lengths)
        self._row_bytes = -(-part.nbytes // (end - first))
        self._reading.budget.keep(part, part.nbytes)
        return part

    def read(self, rows: SourceRows, opened: OpenRows) -> OpenRows:
        """All is decoded."""
        return opened

    def columns(self, item: Item, rows: SourceRows, held: OpenRows) -> Columns:
        """Copies of slices, or of single rows where they are no neighbours, so that parts can be let go of."""
        found: Columns = {name: self._between(name, field, held) for name, field in self.spec.items()}
        if held.high - held.low == len(rows.samples) and bool((np.diff(rows.samples) == 1).all()):
            return found
        return {name: take_rows(column, rows.samples - held.low) for name, column in found.items()}

    def _between(self, name: str, field: Field, held: OpenRows) -> Column:
        pieces = held.of(name)
        if field.is_fixed:
            return np.concatenate(pieces, out=self._reading.allocate(name, field, held.high - held.low))
        pieces = [piece.dictionary_decode() if is_repeated(piece) else piece for piece in pieces]
        whole = pa.concat_arrays([*pieces, pieces[0][:0]])
        if field.dtype == "bytes" and not field.shape and not field.nullable:
            rows = np.arange(len(whole))
            return pick_others(field, [whole], np.zeros_like(rows), rows)
        return whole
