"""MDS encodings: what the bytes of a column are (mosaicml-streaming, streaming/base/format/mds/encodings.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Field, Ids, Spans
from penstock.core.errors import RowError
from penstock.source.fields.arrays import Shapes, array_leaf, image_leaf, peek, same
from penstock.source.fields.codec import BytesLeaf, DigitsLeaf, ListLeaf, TextLeaf, ValuesLeaf
from penstock.source.fields.records import MakeLeaf

#: The dtypes of an ndarray by their byte.
_DTYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
_SCALARS = {"int": "int64", **{dtype: dtype for dtype in _DTYPES.values()}}
_MAKERS: dict[str, MakeLeaf] = {
    **dict.fromkeys(("bytes", "jpeg", "png"), lambda _: BytesLeaf()),
    **dict.fromkeys(("str", "json"), lambda _: TextLeaf()),
    **dict.fromkeys(("jpeg_array", "jpegarray"), lambda _: ListLeaf()),
    **dict.fromkeys(("list[jpeg]", "list[png]", "list[pil]"), lambda _: ListLeaf(4)),
    **dict.fromkeys(("str_float", "str_decimal"), lambda _: DigitsLeaf(Field("float64"))),
    "str_int": lambda _: DigitsLeaf(Field("int64")),
    "pil": image_leaf,
}
#: Values of one array at most; more cannot lie in a shard.
_MOST = 1 << 32


@dataclass(frozen=True)
class Encoding:
    """One encoding: its name, bytes of a value (None if they vary), how a column is made, and why it cannot be.

    looks: whether the column is made by what its first values are.
    """

    name: str
    size: int | None = None
    make: MakeLeaf = lambda _: BytesLeaf()
    refused: str = ""
    looks: bool = False


def encoding_of(name: str) -> Encoding:
    """The encoding of a name like "str" or "ndarray:float32:3,4"; one that is refused if it cannot be read."""
    kind, _, arguments = name.partition(":")
    if kind == "ndarray":
        return _array(name, arguments)
    if name in _SCALARS:
        dtype = _SCALARS[name]
        return Encoding(name, np.dtype(dtype).itemsize, lambda _: ValuesLeaf(Field(dtype), dtype))
    if name in _MAKERS:
        return Encoding(name, make=_MAKERS[name], looks=name == "pil")
    if name == "pkl":
        return Encoding(
            name, refused="it is pickled, and unpickling runs whatever the file says; write it in another encoding"
        )
    return Encoding(name, refused=f"its encoding {name!r} is not known")


def _array(name: str, arguments: str) -> Encoding:
    dtype, _, axes = arguments.partition(":")
    if dtype and dtype not in _DTYPES.values():
        return Encoding(name, refused=f"{dtype!r} is no dtype of an ndarray")
    if not axes:
        return Encoding(name, make=lambda spans: array_leaf(ArrayHeader(dtype or None), spans), looks=True)
    parts = axes.split(",")
    shape = tuple(int(axis) for axis in parts if axis.isascii() and axis.isdigit() and len(axis) < 12)
    if len(shape) != len(parts) or 0 in shape or math.prod(shape) > _MOST:
        return Encoding(name, refused=f"{axes!r} is no shape of an ndarray")
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return Encoding(name, size, lambda _: ValuesLeaf(Field(dtype, shape), dtype))


@dataclass(frozen=True)
class ArrayHeader:
    """Of an ndarray: a byte for the dtype unless it is given, a byte for number of axes and width of an axis, the axes."""

    dtype: str | None

    def shapes(self, spans: Spans) -> Shapes:
        """The axes that the rows state, each in its own width."""
        skip = 0 if self.dtype else 1
        dtype = self.dtype or _DTYPES[same(peek(spans, 0, "u1", 1)[:, 0], "the dtype", _DTYPES)]
        kinds = peek(spans, skip, "u1", 1)[:, 0].astype(np.int64)
        count = same(kinds >> 2, "the number of axes")
        widths = 1 << (kinds & 3)
        axes = np.empty((len(spans), count), dtype=np.int64)
        for width in np.unique(widths).tolist():
            rows = np.flatnonzero(widths == width)
            axes[rows] = _axes(spans, rows, skip + 1, width, count)
        return Shapes(dtype, axes, skip + 1 + widths * count)


def _axes(spans: Spans, rows: Ids, skip: int, width: int, count: int) -> Ids:
    try:
        found = peek(spans.take(rows), skip, f"<u{width}", count)
    except RowError as error:
        raise RowError(int(rows[error.row]), error.found, error.do) from None
    if (large := (found > _MOST).any(axis=1)).any():
        row = int(np.argmax(large))
        raise RowError(int(rows[row]), f"an array of shape {tuple(found[row].tolist())}", "the record is damaged")
    return found.astype(np.int64)
