"""Records of which native code fills columns that may be missing: they are parsed with two defaults, and where these differ, nothing is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.rows import new_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.core.errors import RowError
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.records.native_columns import ParsedRecords, default_bytes

#: Makes a source of columns.
OfColumns = Callable[[tuple[Any, ...]], ParsedRecords]


@dataclass(frozen=True, eq=False)
class OptionalRecords:
    """Records with columns that may be missing. first, second: the same with one default and, of these columns alone, with another.

    plain: the same where nothing is missing, with which records are tried before; None where some were seen that lack a column.
    """

    columns: tuple[Any, ...]
    of_columns: OfColumns
    first: ParsedRecords
    second: ParsedRecords
    plain: ParsedRecords | None
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

    def seeing_nulls(self) -> ParsedRecords | OptionalRecords:
        """See `NullSource`."""
        return seeing_nulls(self.columns, self.of_columns)

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """See `Source`."""
        if self.plain is not None:
            try:
                columns = self.plain.parse(samples, records, allocate, threads=threads)
            except RowError:
                pass  # something is missing, or a record is bad
            else:
                optional = {column.name for column in self.columns if column.field.nullable}
                return {name: _as_arrow(one) if name in optional else one for name, one in columns.items()}
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
    is_sparse = any(column.is_sparse for column in some)
    plain = None if is_sparse else tuple(replace(column, field=column.field.required) for column in columns)
    return OptionalRecords(
        columns, of_columns, of_columns(first), of_columns(second), None if plain is None else of_columns(plain)
    )


def seeing_nulls(columns: tuple[Any, ...], of_columns: OfColumns) -> ParsedRecords | OptionalRecords:
    """The source of columns, of which all may be missing that can be."""
    return with_optional(
        tuple(
            replace(column, field=replace(column.field, nullable=True)) if column.can_be_null else column
            for column in columns
        ),
        of_columns,
    )


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
    return _as_arrow(one, differs.reshape(len(one), -1, one.itemsize).any(axis=2).reshape(-1))


def _as_arrow(column: Any, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """A column as an Arrow array, without the values that are missing."""
    if isinstance(column, pa.Array):
        return column
    made = pa.array(column.reshape(-1), mask=missing)
    for axis in reversed(column.shape[1:]):
        made = pa.FixedSizeListArray.from_arrays(made, axis)
    return made


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
