"""Records of which native code fills columns that may be missing: they are parsed with two defaults, and where these differ, nothing is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.rows import new_rows
from penstock.core.spec import Columns, Field, Ids, Spans, Spec
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.records.native_columns import ParsedRecords, default_bytes

#: Makes a source of columns.
OfColumns = Callable[[tuple[Any, ...]], ParsedRecords]


@dataclass(frozen=True, eq=False)
class OptionalRecords:
    """Records with columns that may be missing. first, second: the same with one default and, of these columns alone, with another."""

    columns: tuple[Any, ...]
    of_columns: OfColumns
    first: ParsedRecords
    second: ParsedRecords
    access: Access = Access.RECORDS

    @property
    def manifest(self) -> Manifest:
        """The records."""
        return self.first.manifest

    @property
    def spec(self) -> Spec:
        """The columns."""
        return {column.name: column.field for column in self.columns}

    def only(self, names: Sequence[str]) -> ParsedRecords | OptionalRecords:
        """The same records, of which only these columns are parsed."""
        known = {column.name: column for column in self.columns}
        return with_optional(tuple(known[name] for name in names), self.of_columns)

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """See `Source`."""
        columns = self.first.parse(samples, records, allocate, threads=threads)
        others = self.second.parse(samples, records, new_rows, threads=threads)
        return columns | {name: _with_nulls(columns[name], other) for name, other in others.items()}


def with_optional(columns: tuple[Any, ...], of_columns: OfColumns) -> ParsedRecords | OptionalRecords:
    """The source of columns, of which some are nullable."""
    some = [column for column in columns if column.field.nullable]
    if not some:
        return of_columns(columns)
    first = tuple(_with_default(column, 0) if column.field.nullable else column for column in columns)
    second = tuple(_with_default(column, 1) for column in some)
    return OptionalRecords(columns, of_columns, of_columns(first), of_columns(second))


def _with_default(column: Any, number: int) -> Any:
    field: Field = column.field.required
    if field.dtype in ("string", "bytes"):
        default = default_bytes(column.name, field, "0" * number)
    else:
        default = default_bytes(column.name, field, bool(number) if field.dtype == "bool" else number)
    return replace(column, field=field, default=default)


def _with_nulls(one: Any, other: Any) -> pa.Array:
    if isinstance(one, pa.Array):
        return pc.if_else(pc.equal(one, other), one, pa.scalar(None, one.type))
    differs: npt.NDArray[np.bool_] = _bytes(one) != _bytes(other)  # as bytes, since a NaN differs from itself
    made = pa.array(one.reshape(-1), mask=differs.reshape(len(one), -1, one.itemsize).any(axis=2).reshape(-1))
    for axis in reversed(one.shape[1:]):
        made = pa.FixedSizeListArray.from_arrays(made, axis)
    return made


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
