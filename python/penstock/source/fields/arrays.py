"""Leaves that are arrays with a header of their own: dtype, number of axes, shape, values, as MDS, LitData and PIL write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.core.columns.ragged import edges_of, lists_of
from penstock.core.columns.spec import Column, Field, Ids, Spans
from penstock.core.errors import PlanError, RowError
from penstock.source.fields.codec import NUMBERS, Leaf, ValuesLeaf, convert, copy_into, joined
from penstock.source.protocol import Allocate


@dataclass(frozen=True, eq=False)
class Shapes:
    """The headers of some rows: one dtype, axes (rows × number of axes), and the header's bytes of each row."""

    dtype: str
    axes: Ids
    header_bytes: Ids


class RowHeaders(Protocol):
    """Reads the headers of rows."""

    def shapes(self, spans: Spans) -> Shapes:
        """Of all rows; RowError for the first that is damaged, or has another dtype or number of axes than row 0."""


def peek(spans: Spans, skip: int, dtype: str, count: int) -> npt.NDArray[Any]:
    """`count` numbers of each row, after `skip` bytes; RowError for the first row that is too short."""
    out = np.empty((len(spans), count), dtype)
    needed = skip + out.dtype.itemsize * count
    if (short := np.flatnonzero(spans.length < needed)).size:
        row = int(short[0])
        raise RowError(row, f"{spans.length[row]} bytes where a header takes {needed}", "the record is damaged")
    wanted = np.full(len(spans), out.dtype.itemsize * count, dtype=np.int64)
    copy_into(out, Spans(spans.buffers, spans.which, spans.offset + skip, wanted), b"", 1)
    return out


def same(values: npt.NDArray[Any], what: str, known: Mapping[int, str] | None = None) -> int:
    """The one value of all rows; RowError for the first row that has another, or one that is not known."""
    value = int(values[0])
    if known is not None and value not in known:
        raise RowError(
            0, f"{what} {value} is not known", "the record is damaged, or its writer is newer than this reader"
        )
    if (other := np.flatnonzero(values != value)).size:
        row = int(other[0])
        raise RowError(row, f"{what} {int(values[row])} where others have {value}", "write all arrays alike")
    return value


@dataclass(frozen=True)
class NoHeader:
    """Values alone, of one axis."""

    dtype: str

    def shapes(self, spans: Spans) -> Shapes:
        """As many values as there are bytes for."""
        size = np.dtype(self.dtype).itemsize
        if (odd := np.flatnonzero(spans.length % size)).size:
            row = int(odd[0])
            raise RowError(
                row, f"{spans.length[row]} bytes are no whole number of {self.dtype}", "the record is damaged"
            )
        return Shapes(self.dtype, (spans.length // size)[:, np.newaxis], np.zeros(len(spans), dtype=np.int64))


@dataclass(frozen=True)
class WordHeader:
    """A u32 each for dtype, number of axes and every axis; `order` is "<" or ">"."""

    dtypes: Mapping[int, str]
    order: str

    def shapes(self, spans: Spans) -> Shapes:
        """The axes that the rows state."""
        words = peek(spans, 0, f"{self.order}u4", 2)
        dtype = self.dtypes[same(words[:, 0], "the dtype", self.dtypes)]
        count = same(words[:, 1], "the number of axes")
        axes = peek(spans, 8, f"{self.order}u4", count).astype(np.int64)
        return Shapes(dtype, axes, np.full(len(spans), 8 + 4 * count, dtype=np.int64))


@dataclass(frozen=True)
class RaggedLeaf:
    """Arrays whose first axis varies, each after its header."""

    field: Field
    stored: str
    header: RowHeaders

    def column(self, name: str, spans: Spans, allocate: Allocate, threads: int) -> Column:
        """large_list; RowError for the first row of another dtype or of other inner axes."""
        inner = [axis or 0 for axis in self.field.shape[1:]]
        edges = np.zeros(1, dtype=np.int64)
        values = np.empty(0, np.dtype(self.stored))
        if len(spans):
            found = self.header.shapes(spans)
            check_like(found, self.stored, self.field.shape)
            body = body_of(found, spans)
            edges = edges_of(found.axes[:, 0])
            values = np.frombuffer(joined(body).buffers()[2] or b"", dtype=self.stored)
        if self.stored == "bool" or values.dtype != self.field.numpy_dtype:
            values = _converted(values, edges, self.field)
        return lists_of(values, edges, inner)

    def as_field(self, dtype: str | None, shape: tuple[int | None, ...] | None) -> Leaf:
        """Another dtype of numbers."""
        if dtype not in (None, *NUMBERS) or shape not in (None, self.field.shape):
            raise PlanError(f"{self.field} cannot become {Field(dtype or self.field.dtype, shape or self.field.shape)}")
        return RaggedLeaf(Field(dtype or self.field.dtype, self.field.shape), self.stored, self.header)


@dataclass(frozen=True)
class ArrayLeaf(ValuesLeaf):
    """Arrays of one shape, that of the first records; `shape=(None, …)` takes any first axis."""

    header: RowHeaders | None = None

    def as_field(self, dtype: str | None, shape: tuple[int | None, ...] | None) -> Leaf:
        """Another dtype; or ragged."""
        if shape is not None and self.header is not None and shape[:1] == (None,):
            if tuple(shape[1:]) != self.field.shape[1:]:
                raise PlanError(
                    f"{self.field} cannot have the shape {shape}; (None, …) must come before its other axes"
                )
            return RaggedLeaf(Field(self.stored, tuple(shape)), self.stored, self.header).as_field(dtype, None)
        return super().as_field(dtype, shape)


def _converted(values: npt.NDArray[Any], edges: Ids, field: Field) -> npt.NDArray[Any]:
    step = math.prod(axis or 0 for axis in field.shape[1:])
    out = np.empty(len(values), field.numpy_dtype)
    try:
        convert(values.view(np.uint8) != 0 if values.dtype == np.bool_ else values, out)
    except RowError as error:
        row = int(np.searchsorted(edges, error.row // max(step, 1), side="right")) - 1
        raise RowError(row, error.found, error.do) from None
    return out


def check_like(found: Shapes, dtype: str, shape: tuple[int | None, ...]) -> None:
    """RowError for the first row that is of another dtype, number of axes or inner shape."""
    if found.dtype != dtype or found.axes.shape[1] != len(shape):
        what = f"{found.dtype} of {found.axes.shape[1]} axes where the first records have {dtype} of {len(shape)}"
        raise RowError(0, what, "write all arrays alike")
    other = (found.axes[:, 1:] != np.array(shape[1:], dtype=np.int64)).any(axis=1)
    if other.any():
        row = int(np.argmax(other))
        raise RowError(
            row,
            f"an array of shape {tuple(found.axes[row].tolist())} where {shape} is wanted",
            "write all arrays alike",
        )


def body_of(found: Shapes, spans: Spans) -> Spans:
    """The values behind the headers; RowError for the first row that has more or fewer of them than it states."""
    size = np.dtype(found.dtype).itemsize
    stated = found.axes.astype(np.float64).prod(axis=1) * size
    if (bad := np.flatnonzero(stated != (spans.length - found.header_bytes))).size:
        row = int(bad[0])
        what = f"{spans.length[row] - found.header_bytes[row]} bytes of values in an array of shape {tuple(found.axes[row].tolist())}"
        raise RowError(row, what, "the record is damaged")
    return Spans(spans.buffers, spans.which, spans.offset + found.header_bytes, spans.length - found.header_bytes)


def array_leaf(header: RowHeaders, spans: Spans) -> Leaf:
    """The leaf for arrays like those of the first records, at least one: of a fixed shape if all have one, else ragged.

    Raises PlanError where no column can hold them.
    """
    found = header.shapes(spans)
    body_of(found, spans)
    first = tuple(found.axes[0].tolist())
    same_axes = (found.axes == found.axes[0]).all(axis=0)
    if same_axes.all():
        prefix = spans[0][: int(found.header_bytes[0])]
        return ArrayLeaf(Field(found.dtype, first), found.dtype, prefix, header)
    if not same_axes[1:].all():
        shapes = sorted({tuple(axes) for axes in found.axes.tolist()})[:3]
        raise PlanError(
            f"arrays of several shapes ({', '.join(map(str, shapes))}, …): only the first axis can vary; leave the column out, or write arrays of one shape"
        )
    return RaggedLeaf(Field(found.dtype, (None, *first[1:])), found.dtype, header)


#: dtype and channels (0: no axis of channels) of PIL's modes that hold a whole number of bytes a pixel.
_MODES = {
    "L": ("uint8", 1),
    "LA": ("uint8", 2),
    "RGB": ("uint8", 3),
    "RGBA": ("uint8", 4),
    "CMYK": ("uint8", 4),
    "YCbCr": ("uint8", 3),
    "HSV": ("uint8", 3),
    "I;16": ("uint16", 0),
    "I": ("int32", 0),
    "F": ("float32", 0),
}
_WORDS = 12


class _PictureHeader:
    """Reads the headers; see the module."""

    def shapes(self, spans: Spans) -> Shapes:
        """(height, width, channels) of each row."""
        words = peek(spans, 0, "<u4", 3).astype(np.int64)
        length = same(words[:, 2], "a mode's name of length")
        if length > 8:
            raise RowError(0, f"a mode's name of {length} bytes", "the record is damaged")
        modes = peek(spans, _WORDS, f"S{max(length, 1)}", 1)[:, 0]
        mode = modes[0].decode("ascii", "replace")
        if (other := np.flatnonzero(modes != modes[0])).size:
            raise RowError(
                int(other[0]), f"an image of mode {modes[other[0]]!r} where others have {mode!r}", "write all alike"
            )
        if mode not in _MODES:
            raise PlanError(f"raw images of mode {mode!r} are not read; write them as png")
        dtype, channels = _MODES[mode]
        axes: Ids = words[:, 1::-1]
        if channels:
            axes = np.column_stack([axes, np.full(len(spans), channels, dtype=np.int64)])
        return Shapes(dtype, axes, np.full(len(spans), _WORDS + length, dtype=np.int64))


def image_leaf(spans: Spans) -> Leaf:
    """Arrays of (height, width, channels), of one size; PlanError for images of several sizes."""
    leaf = array_leaf(_PictureHeader(), spans)
    if None in leaf.field.shape:
        raise PlanError("raw images of several heights; leave the column out, or write it as jpeg or png")
    return leaf
