"""Rows of sources whose columns have nulls: the rule about these is applied to what another reader took."""

from __future__ import annotations

from typing import Any, Generic

from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.errors import DataError, RowError
from penstock.runtime.stage import Item, SourceRows
from penstock.source.nulls import stored
from penstock.stages.read.reader import HeldT, Needs, OpenedT, PlanT, Reader


class NullRows(Generic[PlanT, OpenedT, HeldT]):
    """See `reader.Reader`. stored: the reader of what the source has."""

    def __init__(self, stored: Reader[PlanT, OpenedT, HeldT], source: Any) -> None:
        self.stored, self._source = stored, source
        self.in_order, self.plans = stored.in_order, stored.plans
        self.threads, self.kind = stored.threads, stored.kind

    @property
    def spec(self) -> Spec:
        """The columns as batches have them."""
        spec: Spec = self._source.spec
        return spec

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, PlanT]:
        """As of what the source has."""
        return self.stored.plan(item, rows)

    def open(self, item: Item, rows: SourceRows, plan: PlanT) -> OpenedT:
        """As of what the source has."""
        return self.stored.open(item, rows, plan)

    def read(self, rows: SourceRows, opened: OpenedT) -> HeldT:
        """As of what the source has."""
        return self.stored.read(rows, opened)

    def columns(self, item: Item, rows: SourceRows, held: HeldT) -> Columns:
        """The rows' columns; DataError, with file and record, for a null where none may be."""
        return self.applied(self.stored.columns(item, rows, held), rows.samples)

    def applied(self, columns: Columns, samples: Ids) -> Columns:
        """Columns of samples with the rule applied; the error of the first bad row has those of the others."""
        try:
            made: Columns = self._source.applied(columns)
        except RowError as error:
            named = [_named(self._source, samples, one) for one in error.every or (error,)]
            named[0].more = named[1:]
            raise named[0] from None
        return made


def _named(source: Any, samples: Ids, error: RowError) -> DataError:
    manifest, place = source.manifest, getattr(stored(source), "place", source.manifest.place)
    sample = int(samples[error.row])
    found = DataError.of_row(place(sample), manifest.own_id(sample), error)
    found.row = error.row
    return found
