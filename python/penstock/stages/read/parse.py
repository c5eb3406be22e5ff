"""Records to columns, and the names of bad rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.core.columns.spec import Columns, Ids, Spans
from penstock.core.errors import DataError, RowError
from penstock.source.protocol import Allocate, Source


def parse(source: Source, samples: Ids, records: Spans | None, allocate: Allocate, *, threads: int = 1) -> Columns:
    """The columns of records, or of samples in memory; DataError, with file and record, for a bad row."""
    if records is None:
        nothing = np.empty(0, dtype=np.int64)
        records = Spans((), nothing, nothing, nothing)
    with NamedRows(source.manifest.place, samples, source.manifest.own_id):
        return source.parse(samples, records, allocate, threads=threads)


class NamedRows:
    """Turns a kernel's complaint about a row into an error that names file and record. own_id: the row's id in its source, by its id here."""

    def __init__(self, place: Callable[[int], str], ids: Ids, own_id: Callable[[int], int] = int) -> None:
        self._place, self._ids, self._own_id = place, ids, own_id

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, RowError):
            sample = int(self._ids[error.row])
            raise DataError.of_row(self._place(sample), self._own_id(sample), error) from None
