"""How the bytes of one field of each record become a column: what RecordIO, MDS and LitData have in common.

A leaf gets the places of its field, one span a row, and gives the column that its `field` describes. Raises RowError for the first
row whose bytes are no such value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.ragged import edges_of, texts_of
from penstock.core.columns.spec import Bytes, Column, Field, Spans
from penstock.core.errors import PlanError, RowError
from penstock.source.protocol import Allocate

BYTES, TEXT, LISTS = Field("bytes"), Field("string"), Field("bytes", (None,))

#: What numbers can become.
NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


class Leaf(Protocol):
    """How one field of each record becomes a column."""

    @property
    def field(self) -> Field:
        """The column that is made."""

    def column(self, name: str, spans: Spans, allocate: Allocate, threads: int) -> Column:
        """The column; RowError for the first row that is damaged, or other than those before."""

    def as_field(self, dtype: str | None, shape: tuple[int | None, ...] | None) -> Leaf:
        """The leaf that gives another dtype or shape; PlanError if there is none."""


class _TextOrBytes:
    """What bytes and text become."""

    def as_field(self, dtype: str | None, shape: tuple[int | None, ...] | None) -> Leaf:
        """The leaf of bytes or of text."""
        field = TEXT if isinstance(self, TextLeaf) else BYTES
        dtype = dtype or field.dtype
        if dtype not in ("bytes", "string") or shape not in (None, ()):
            raise PlanError(f"{field} cannot become {dtype} of shape {shape}; it is bytes or string")
        return TextLeaf() if dtype == "string" else BytesLeaf()


@dataclass(frozen=True)
class BytesLeaf(_TextOrBytes):
    """Bytes as they are, without a copy."""

    field: Field = BYTES

    def column(self, name: str, spans: Spans, allocate: Allocate, threads: int) -> Column:
        """The places themselves."""
        return spans


@dataclass(frozen=True)
class TextLeaf(_TextOrBytes):
    """UTF-8."""

    field: Field = TEXT

    def column(self, name: str, spans: Spans, allocate: Allocate, threads: int) -> Column:
        """large_string; RowError for the first row that is not UTF-8."""
        return text_of(spans)


@dataclass(frozen=True)
class DigitsLeaf:
    """Numbers that are written as text."""

    field: Field

    def column(self, name: str, spans: Spans, allocate: Allocate, threads: int) -> Column:
        """The numbers; RowError for the first row that is none, or too large for the dtype."""
        out = allocate(name, self.field, len(spans))
        text, kind = text_of(spans), pa.from_numpy_dtype(self.field.numpy_dtype)
        try:
            out[:] = text.cast(kind).to_numpy()
        except pa.ArrowInvalid:
            row = first_bad(len(spans), lambda row: text.slice(row, 1).cast(kind), pa.ArrowInvalid)
            found = f"{str(text[row])[:80]!r} is no {self.field.dtype}"
            raise RowError(row, found, "give the column another dtype; 'string' takes any") from None
        return out

    def as_field(self, dtype: str | None, shape: tuple[int | None, ...] | None) -> Leaf:
        """Another number, or the text itself."""
        if dtype == "string":
            return TextLeaf().as_field(None, shape)
        if dtype not in (None, *NUMBERS[1:]) or shape not in (None, ()):
            raise PlanError(f"numbers written as text cannot become {dtype or self.field.dtype} of shape {shape}")
        return DigitsLeaf(Field(dtype or self.field.dtype))


@dataclass(frozen=True)
class ListLeaf:
    """Lists of bytes: after `skip` bytes their number, the size of each, and the elements."""

    skip: int = 0
    field: Field = LISTS

    def column(self, name: str, spans: Spans, allocate: Allocate, threads: int) -> Column:
        """large_list of large_binary."""
        counts, *places = kernels.list_elements(list(spans.buffers), spans.which, spans.offset, spans.length, self.skip)
        return pa.LargeListArray.from_arrays(pa.array(edges_of(counts)), joined(Spans(spans.buffers, *places)))

    def as_field(self, dtype: str | None, shape: tuple[int | None, ...] | None) -> Leaf:
        """The same leaf: lists of bytes become nothing else."""
        if dtype not in (None, "bytes") or shape not in (None, (None,)):
            raise PlanError(f"lists of bytes cannot become {dtype or 'bytes'} of shape {shape}; leave both away")
        return self


@dataclass(frozen=True)
class ValuesLeaf:
    """Numbers of one shape: `prefix`, the same in every row, and the values as `stored` holds them."""

    field: Field
    stored: str
    prefix: bytes = b""

    def column(self, name: str, spans: Spans, allocate: Allocate, threads: int) -> Column:
        """The numbers; RowError for the first row of another length or header, or that the dtype cannot hold."""
        out = allocate(name, self.field, len(spans))
        stored = np.dtype(self.stored)
        same = stored == self.field.numpy_dtype and stored != np.bool_
        values = out if same else np.empty(out.shape, np.uint8 if stored == np.bool_ else stored)
        copy_into(values, spans, self.prefix, threads)
        if not same:
            convert(values != 0 if stored == np.bool_ else values, out)
        return out

    def as_field(self, dtype: str | None, shape: tuple[int | None, ...] | None) -> Leaf:
        """Another dtype; or another shape of as many values."""
        wanted = self.field.shape if shape is None else tuple(shape)
        sizes = [math.prod(axis or 0 for axis in axes) for axes in (wanted, self.field.shape)]
        if dtype not in (None, *NUMBERS) or None in wanted or sizes[0] != sizes[1]:
            field = Field(dtype or self.field.dtype, wanted)
            raise PlanError(f"{self.field} cannot become {field}; dtypes of numbers are {', '.join(NUMBERS)}")
        return replace(self, field=Field(dtype or self.field.dtype, wanted))


def copy_into(values: npt.NDArray[Any], spans: Spans, prefix: bytes, threads: int) -> None:
    """Fills an array with what follows the prefix of each row; RowError for rows of another length or prefix."""
    flat: Bytes = values.reshape(-1).view(np.uint8)
    row_bytes = flat.size // len(spans) if len(spans) else 0
    kernels.copy_fields(list(spans.buffers), spans.which, spans.offset, spans.length, prefix, row_bytes, flat, threads)


def convert(values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Fills `out` with values of another dtype: whole numbers exactly, floats rounded; RowError where that cannot be."""
    with np.errstate(all="ignore"):
        out[...] = values.reshape(out.shape)
        if out.dtype.kind == "f":
            bad = np.isinf(out) & np.isfinite(values.reshape(out.shape))
        else:
            bad = out != values.reshape(out.shape)
    if bad.any():
        row = int(np.argmax(bad.reshape(len(out), -1).any(axis=1)))
        value = values.reshape(len(out), -1)[row][np.argmax(bad.reshape(len(out), -1)[row])]
        raise RowError(row, f"the value {value} does not fit {out.dtype.name}", "give the column a dtype that holds it")


def joined(spans: Spans) -> pa.LargeBinaryArray:
    """The bytes of all spans in one large_binary array (one copy); RowError for one that does not lie in its buffer."""
    sizes = np.array([buffer.size for buffer in spans.buffers] or [0], dtype=np.int64)
    outside = spans.offset + spans.length > (sizes[spans.which] if len(spans) else 0)
    if outside.any():
        raise RowError(int(np.argmax(outside)), "the value does not lie in its record", "the file is damaged here")
    edges = edges_of(spans.length)
    out = np.empty(int(edges[-1]), dtype=np.uint8)
    kernels.join_spans(list(spans.buffers), spans.which, spans.offset, spans.length, out)
    return texts_of(out, edges)


def text_of(spans: Spans) -> pa.LargeStringArray:
    """The spans as text; RowError for the first that is not UTF-8."""
    data = joined(spans)
    text = pa.LargeStringArray.from_buffers(len(data), data.buffers()[1], data.buffers()[2])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        row = first_bad(len(spans), lambda row: spans[row].decode(), UnicodeDecodeError)
        found = f"{spans[row][:20]!r} is not UTF-8"
        raise RowError(row, found, "write the record again, or take the column as bytes with dtype='bytes'") from None
    return text


def first_bad(rows: int, look: Callable[[int], object], error: type[Exception]) -> int:
    """The first row that cannot be looked at."""
    for row in range(rows):
        try:
            look(row)
        except error:
            return row
    return 0
