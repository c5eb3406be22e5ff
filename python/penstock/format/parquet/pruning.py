"""Which row groups of Parquet files a filter rules out by what their footers say; nothing else is read of these.

What is known of a row group is a guarantee ("id is at least 0 and at most 99"), and Arrow decides whether any row under it could meet the filter. So
whatever is not known, or not for certain, is left out of the guarantee, and the row group is read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.spec import Ids, is_bytes, is_text
from penstock.core.errors import PlanError
from penstock.format.parquet.filter import expression, filter_columns, kept_rows, may_pass
from penstock.format.parquet.layout import ColumnChunk, Path, RowGroup

#: Parquet's numbers of the types that are compared, and how their bounds are packed.
_PACKED = {0: "?", 1: "i", 2: "q", 4: "f", 5: "d"}
_BYTE_ARRAY = 6
#: Neighbouring row groups, or pieces of one, about which is asked together: asking costs about 50 µs.
_TOGETHER = 16


@dataclass(frozen=True, eq=False)
class Pruning:
    """What is asked of row groups.

    must: what every kept row meets, the filter or a part of it; names: the files' columns that it is about. never_null:
    whether a null and a NaN do not meet any of its conditions, so that bounds can be used of columns that hold some.
    """

    must: pc.Expression
    schema: pa.Schema
    names: Sequence[str]
    never_null: bool

    def possible(self, schema: pa.Schema, said: Sequence[RowGroup], known: pc.Expression) -> list[bool]:
        """Whether each row group of a file, or each piece of one, could hold a row that passes.

        schema: the file's own; said: what its footer says of each; known: what is true of all of its rows.
        """
        if not self._same_types(schema):
            said = [RowGroup(group.rows, {}) for group in said]
        return self._possible(said, known)

    def _possible(self, said: Sequence[RowGroup], known: pc.Expression) -> list[bool]:
        """The same; neighbours are asked about together first."""
        if len(said) <= _TOGETHER:
            return may_pass(self.must, self.schema, [known & self._known(group) for group in said])
        pieces = [said[at : at + _TOGETHER] for at in range(0, len(said), _TOGETHER)]
        some = self._possible([self._together(piece) for piece in pieces], known)
        left = [group for piece, may in zip(pieces, some, strict=True) if may for group in piece]
        found = iter(may_pass(self.must, self.schema, [known & self._known(group) for group in left]))
        return [may and next(found) for piece, may in zip(pieces, some, strict=True) for _ in piece]

    def possible_rows(
        self, schema: pa.Schema, pages: Mapping[Path, tuple[Ids, list[ColumnChunk]]], known: pc.Expression
    ) -> Ids | None:
        """The rows of a row group, ascending, that could pass; None if that may be all of them. pages: the first row and what is said of each."""
        if not pages:
            return None
        edges = np.unique(np.concatenate([first for first, _ in pages.values()]))
        which = {path: np.searchsorted(first, edges[:-1], side="right") - 1 for path, (first, _) in pages.items()}
        segments = [
            RowGroup(rows, {path: pages[path][1][page[segment]].part(rows) for path, page in which.items()})
            for segment, rows in enumerate(np.diff(edges).tolist())
        ]
        possible = self.possible(schema, segments, known)
        if all(possible):
            return None
        return np.concatenate([np.arange(0), *(np.arange(*edges[at : at + 2]) for at in np.flatnonzero(possible))])

    def _together(self, groups: Sequence[RowGroup]) -> RowGroup:
        """What is true of all rows of several row groups; columns of which that is not certain are left out."""
        columns = {}
        for path, first in groups[0].columns.items():
            chunks = [group.columns[path] for group in groups if path in group.columns]
            alike = all((chunk.type, chunk.ordered) == (first.type, first.ordered) or chunk.is_null for chunk in chunks)
            if alike and len(chunks) == len(groups) and all(map(is_certain, groups, chunks)):
                columns[path] = _together(chunks, _type_at(self.schema, path))
        return RowGroup(sum(group.rows for group in groups), columns)

    def _same_types(self, schema: pa.Schema) -> bool:
        """Whether a file's columns have the types by which bounds are understood."""
        return all(
            schema.names.count(name) == 1 and value_type(schema.field(name).type) == self.schema.field(name).type
            for name in self.names
        )

    def _known(self, group: RowGroup) -> pc.Expression:
        known = pc.scalar(True)
        for path, chunk in group.columns.items():
            kind = _type_at(self.schema, path)
            if kind is None or not is_certain(group, chunk):
                continue
            column = pc.field(*path)
            if chunk.nulls == group.rows:
                known &= column.is_null()
            elif (self.never_null or (chunk.nulls == 0 and not pa.types.is_floating(kind))) and (
                bounds := chunk_bounds(chunk, kind)
            ):
                known &= (column >= bounds[0]) & (column <= bounds[1])
        return known


def is_certain(group: RowGroup, chunk: ColumnChunk) -> bool:
    """Whether every row has one value, and the nulls are no more than that."""
    return chunk.values == group.rows and 0 <= (chunk.nulls or 0) <= group.rows


def pruning_of(filters: Any, schema: pa.Schema, folders: pa.Schema) -> Pruning | None:
    """What a filter asks of row groups, where the columns of `folders` are known; None if it can rule out nothing."""
    values = pa.schema([field.with_type(value_type(field.type)) for field in schema])
    try:
        if isinstance(filters, list):
            filters = _conditions(filters, values, folders)
        must = expression(filters, values)
    except PlanError:  # it is about dictionaries themselves
        return None
    if must is None:
        return None
    names = [name for name in filter_columns(must, values) if name not in folders.names]
    return Pruning(must, values, names, never_null=isinstance(filters, list))


def _conditions(filters: list[Any], schema: pa.Schema, folders: pa.Schema) -> list[Any] | None:
    """The filter without those conditions that a null or a NaN could meet; None if nothing is left that rules a row out."""
    alternatives = [filters] if isinstance(filters[0], tuple) else filters
    left = [
        [part for part in parts if part[0] in folders.names or _rules_out_nulls(part, schema)] for parts in alternatives
    ]
    return left if all(left) else None


def _rules_out_nulls(part: Any, schema: pa.Schema) -> bool:
    """Whether neither a null nor a NaN meets a condition; `not in` is one that they do."""
    if not isinstance(part[0], str):
        return False
    field = schema.field(part[0] if part[0] in schema.names else part[0].split(".")[0]).with_nullable(True)
    try:
        table = pa.table([pa.array([None, _not_a_number(field.type)], field.type)], schema=pa.schema([field]))
        keep = expression([part], table.schema)
        return keep is not None and not len(kept_rows(table, keep))
    except pa.ArrowException:
        return False


def _not_a_number(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {part.name: _not_a_number(part.type) for part in kind}
    return math.nan if pa.types.is_floating(kind) else None


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, also of one that is a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _type_at(schema: pa.Schema, path: Sequence[str]) -> pa.DataType | None:
    """The type of the column, or of the struct's field, that a path leads to; None if it leads into lists."""
    kind = schema.field(path[0]).type
    for name in path[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind


def chunk_bounds(chunk: ColumnChunk, kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
    """The least and the greatest value that a column can have; None if that is not known for certain."""
    if chunk.low is None or chunk.high is None:
        return None
    try:
        low, high = _value(chunk, chunk.low, kind), _value(chunk, chunk.high, kind)
        if low is None or high is None or not low <= high:  # a NaN is neither
            return None
        if pa.types.is_floating(kind):  # either zero may be the other
            low, high = low or -0.0, high or 0.0
        return pa.scalar(low, kind), pa.scalar(high, kind)
    except (struct.error, UnicodeError, pa.ArrowException, OverflowError, ValueError):
        return None


def _together(chunks: Sequence[ColumnChunk], kind: pa.DataType | None) -> ColumnChunk:
    """One chunk of several: its bounds are the least and the greatest of theirs, if all are known."""
    rows, first = sum(chunk.values for chunk in chunks), chunks[0]
    some = [chunk for chunk in chunks if not chunk.is_null]
    if not some:
        return ColumnChunk(first.type, rows, rows)
    nulls = 0 if all(chunk.nulls == 0 for chunk in chunks) else None
    if kind is None or any(chunk_bounds(chunk, kind) is None for chunk in some):
        return ColumnChunk(first.type, rows, nulls)
    low = min(some, key=lambda chunk: _value(chunk, chunk.low or b"", kind)).low
    high = max(some, key=lambda chunk: _value(chunk, chunk.high or b"", kind)).high
    return ColumnChunk(first.type, rows, nulls, low, high, some[0].ordered)


def _value(chunk: ColumnChunk, packed: bytes, kind: pa.DataType) -> Any:
    """A bound as a number, text or bytes; None for types without one, or with one in an order that is not theirs."""
    if is_text(kind) or is_bytes(kind):
        if chunk.type != _BYTE_ARRAY or not chunk.ordered:
            return None
        return packed.decode() if is_text(kind) else packed
    if chunk.type not in _stored_as(kind, ordered=chunk.ordered):
        return None
    code = _PACKED[chunk.type]
    return struct.unpack("<" + (code.upper() if pa.types.is_unsigned_integer(kind) else code), packed)[0]


def _stored_as(kind: pa.DataType, *, ordered: bool) -> tuple[int, ...]:
    """Parquet's types that hold an Arrow type, where their bounds are what they seem; bounds of the old kind are only of plain numbers."""
    if pa.types.is_signed_integer(kind):
        return (1,) if kind.bit_width <= 32 else (2,)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return (4,) if kind.bit_width == 32 else (5,)
    if not ordered:
        return ()
    if pa.types.is_unsigned_integer(kind):
        return (1, 2) if kind.bit_width <= 32 else (2,)
    if pa.types.is_date32(kind):
        return (1,)
    if pa.types.is_timestamp(kind):
        return (2,)
    return (0,) if pa.types.is_boolean(kind) else ()
