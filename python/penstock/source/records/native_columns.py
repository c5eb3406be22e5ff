"""What native parsers of records have in common: outputs for fixed columns go in, and what comes back becomes columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.columns.default_values import check_default, held_number
from penstock.core.columns.ragged import lists_of, texts_of
from penstock.core.columns.spec import Bytes, Columns, Field, Ids, Spans, Spec
from penstock.core.columns.spec import Column as Values
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate, Source


class NativeColumn(Protocol):
    """A column that native code fills."""

    @property
    def name(self) -> str:
        """What it is called in a batch."""

    @property
    def field(self) -> Field:
        """What it holds."""

    @property
    def default(self) -> bytes | None:
        """A row of defaults (numbers) or one value (bytes), if there is one."""


#: The columns of one parser.
AnyColumn = TypeVar("AnyColumn", bound=NativeColumn)


class NativeParser(Protocol):
    """Fills columns from records; see `_core.pyi`."""

    def parse(self, buffers: Any, which: Any, offset: Any, length: Any, outs: Any, threads: int, /) -> list[Any]:
        """One part a column: see `finish`."""


def form_of(field: Field) -> str:
    """How native code gives a column back: "fixed", "ragged", "spans", "texts" or "nested"."""
    if field.shape == (None, None):
        return "nested"
    if field.dtype in ("bytes", "string"):
        return "spans" if field == Field("bytes") else "texts"
    return "ragged" if None in field.shape else "fixed"


def parse_records(
    parser: NativeParser,
    columns: Sequence[AnyColumn],
    records: Spans,
    allocate: Allocate,
    threads: int,
    finish: Callable[[AnyColumn, Any, Spans], Values] | None = None,
) -> Columns:
    """One column a field, with one row a record (a span with its frame); RowError for the first row that is damaged.

    finish: makes a column of what native code gave for one that is not fixed.
    """
    arrays: dict[str, Any] = {
        column.name: allocate(column.name, column.field, len(records)) for column in columns if column.field.is_fixed
    }
    outs = [bytes_of(arrays[column.name]) if column.name in arrays else None for column in columns]
    filled = parser.parse(list(records.buffers), records.which, records.offset, records.length, outs, threads)
    return {
        column.name: arrays[column.name] if column.name in arrays else (finish or _finish)(column, part, records)
        for column, part in zip(columns, filled, strict=True)
    }


@dataclass(frozen=True, eq=False)
class ParsedRecords:
    """Records that native code parses into columns: arrays of numbers, `Spans` in the records, Arrow arrays of everything else.

    parsing: what the parser was made of; sources of which it is the same parse records alike. None where that is not known. of_columns: makes a source
    of the same records and some of the columns. optional: makes one whose columns may be missing.
    """

    manifest: Manifest
    columns: Sequence[Any]
    parser: NativeParser = field(repr=False)
    finish: Callable[[Any, Any, Spans], Values] | None = None
    access: Access = Access.RECORDS
    parsing: object = None
    of_columns: Callable[[tuple[Any, ...]], ParsedRecords] | None = field(default=None, repr=False)
    optional: Callable[[Sequence[Any]], Source] | None = field(default=None, repr=False)

    @property
    def spec(self) -> Spec:
        """The columns."""
        return {column.name: column.field for column in self.columns}

    def only(self, names: Sequence[str]) -> ParsedRecords:
        """The same records, of which only these columns are parsed."""
        known = {column.name: column for column in self.columns}
        return self if self.of_columns is None else self.of_columns(tuple(known[name] for name in names))

    def seeing_nulls(self) -> Source:
        """See `NullSource`."""
        return self if self.optional is None else self.optional(self.columns)

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`, with one row a record (a span with its frame).

        Raises RowError for the first row that is damaged, or lacks what the columns need.
        """
        return parse_records(self.parser, self.columns, records, allocate, threads, self.finish)


def bytes_of(array: Any) -> Bytes:
    """The bytes of a contiguous array, without a copy."""
    if not array.flags.c_contiguous:
        raise ValueError("allocate must give contiguous arrays")
    flat: Bytes = array.reshape(-1).view(np.uint8)
    return flat


def _finish(column: NativeColumn, part: Any, records: Spans) -> Values:
    """What native code gave for the column, as a column of a batch."""
    form = form_of(column.field)
    if form == "spans":
        return _finish_spans(part, records, column.default)
    if form == "ragged":
        return _finish_ragged(part, column.field)
    if form == "nested":
        data, ends, steps, offsets = part
        values = pa.LargeListArray.from_arrays(pa.array(steps), _values(column.field, data, ends))
        return pa.LargeListArray.from_arrays(pa.array(offsets), values)
    data, ends, offsets = part
    values = _values(column.field, data, ends)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values) if column.field.shape else values


def _values(field: Field, data: Bytes, ends: Ids) -> pa.Array:
    """Numbers, or the values of bytes that begin at `ends`."""
    if field.dtype not in ("bytes", "string"):
        return pa.array(data.view(field.numpy_dtype))
    return texts_of(data, ends, field.dtype)


def _finish_spans(part: Any, records: Spans, default: bytes | None) -> Spans:
    which, offset, length = part
    buffers = records.buffers
    if default is not None and (absent := which < 0).any():
        which[absent] = len(buffers)
        buffers = (*buffers, np.frombuffer(default or b"\0", dtype=np.uint8))
    return Spans(buffers, which, offset, length)


def _finish_ragged(part: Any, field: Field) -> pa.LargeListArray:
    data, offsets = part
    step = math.prod(axis for axis in field.shape[1:] if axis is not None)
    return lists_of(data.view(field.numpy_dtype), offsets // step if step > 1 else offsets, field.shape[1:])


def default_bytes(name: str, field: Field, default: float | bytes | str) -> bytes:
    """A row of defaults (numbers) or one value (bytes) as native code stores it."""
    check_default(field, default, f"columns[{quoted(name)}]: ")
    if isinstance(default, (bytes, str)):
        return default.encode() if isinstance(default, str) else default
    value = held_number(field, default)
    try:
        row = np.full(tuple(axis or 0 for axis in field.shape), value)
    except ValueError:
        raise PlanError(
            f"columns[{quoted(name)}]: a default of shape {value.shape} for {field}; give one number"
        ) from None
    if field.dtype == "bfloat16":
        words = row.view(np.uint32)
        row = ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)
    return row.tobytes()
