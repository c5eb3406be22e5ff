"""How columns are held row by row: numbers of one shape side by side, all else as the bytes of each row.

| form    | for                                                        | bytes of a row         |
| ------- | ---------------------------------------------------------- | ---------------------- |
| fixed   | arrays of one shape                                        | the values             |
| spans   | bytes of records                                           | themselves             |
| text    | Arrow's text and bytes, in all widths; a null is not held  | themselves             |
| numbers | Arrow's lists of numbers, and of arrays of one shape       | the values             |
| batch   | every other Arrow type                                     | an Arrow batch of one  |
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.ragged import edges_of, texts_of
from penstock.core.columns.rows import bytes_of
from penstock.core.columns.spec import Bytes, Column, Columns, Field, Ids, Spans, Spec, is_text


@dataclass(frozen=True, kw_only=True)
class Held:
    """One column. kind, shape: its field. dtype: of an array. schema: an Arrow column's type, as Arrow writes it."""

    name: str
    form: str
    kind: str
    shape: tuple[int | None, ...]
    dtype: str = ""
    schema: str = ""

    @classmethod
    def of(cls, name: str, column: Column, field: Field) -> Held | None:
        """How a column is held; None for an array of a type that no name stands for."""
        held = cls(name=name, form="spans", kind=field.dtype, shape=field.shape)
        if isinstance(column, Spans):
            return held
        if isinstance(column, np.ndarray):
            dtype = column.dtype
            is_named = dtype.kind in "biufcV" and np.dtype(dtype.str) == dtype and column.shape[1:] == field.shape
            return replace(held, form="fixed", dtype=dtype.str) if is_named else None
        schema = base64.b64encode(pa.schema([pa.field("", column.type)]).serialize()).decode()
        held = replace(held, form=_form_of(column.type), schema=schema)
        is_exact = held.form == "batch" or held.decode(_NONE, edges_of([])).type == column.type
        return held if is_exact else replace(held, form="batch")

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Held:
        """What `as_json` gave, out of JSON."""
        return cls(**{**said, "shape": tuple(said["shape"])})

    @property
    def as_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @cached_property
    def type(self) -> pa.DataType:
        """An Arrow column's type."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema))).field(0).type

    @property
    def field(self) -> Field:
        """The column's field; that of Arrow numbers has nulls."""
        field = Field(self.kind, self.shape)
        return replace(field, nullable=True) if self.form not in ("fixed", "spans") and field.is_fixed else field

    def __str__(self) -> str:
        return str(self.field) if self.form in ("fixed", "spans") else str(self.type)

    def encode(self, column: Any) -> tuple[Bytes, Ids, npt.NDArray[np.bool_] | None]:
        """The bytes of all rows, where each begins and the last ends, and which rows can be held; None for all of them."""
        if self.form == "spans":
            joined = np.empty(int(column.length.sum()), dtype=np.uint8)
            kernels.join_spans(list(column.buffers), column.which, column.offset, column.length, joined)
            return joined, edges_of(column.length), None
        if self.form == "batch":
            pieces = [_batch(column.slice(row, 1)) for row in range(len(column))]
            return np.frombuffer(b"".join(pieces), dtype=np.uint8), edges_of([len(piece) for piece in pieces]), None
        if self.form == "text":
            is_there = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
            column = column.cast(pa.large_string() if is_text(column.type) else pa.large_binary())
            return *_from_zero(column, column.buffers()[2], 1), is_there
        return _numbers(column.cast(_large(column.type)))

    def decode(self, data: Bytes, edges: Ids) -> Any:
        """The column of rows that lie in `data`."""
        if self.form == "spans":
            return Spans((data,), np.zeros(len(edges) - 1, dtype=np.int64), edges[:-1], np.diff(edges))
        if self.form == "batch":
            schema = pa.schema([pa.field("", self.type)])
            rows = [
                _row(data[low:high], schema) for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            ]
            return pa.concat_arrays(rows) if rows else pa.array([], self.type)
        if self.form == "text":
            found = texts_of(data, edges, "string" if is_text(self.type) else "bytes")
        else:
            kind, inner = _number_of(self.type)
            count = inner * kind.bit_width // 8
            values = pa.Array.from_buffers(kind, len(data) // (kind.bit_width // 8), [None, pa.py_buffer(data)])
            found = pa.LargeListArray.from_arrays(pa.array(edges // count), _nested(values, self.type.value_type))
        return found if found.type == self.type else found.cast(self.type)


_NONE = np.empty(0, dtype=np.uint8)


def held_of(columns: Columns, spec: Spec) -> tuple[Held, ...] | str:
    """How columns are held; the name of the first that cannot be."""
    found = []
    for name, column in columns.items():
        held = Held.of(name, column, spec[name])
        if held is None:
            return name
        found.append(held)
    return tuple(found)


def _form_of(kind: pa.DataType) -> str:
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    ):
        return "text"
    is_plain_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return "numbers" if is_plain_list and _number_of(kind) is not None else "batch"


def _number_of(kind: pa.DataType) -> Any:
    """The type of the numbers in lists, and how many make a value; None for lists of other things."""
    inner, count = kind.value_type, 1
    while pa.types.is_fixed_size_list(inner):
        inner, count = inner.value_type, count * inner.list_size
    is_number = pa.types.is_integer(inner) or pa.types.is_floating(inner)
    return (inner, count) if is_number and count else None


def _large(kind: pa.DataType) -> pa.DataType:
    return pa.large_list(kind.value_type)


def _numbers(column: pa.LargeListArray) -> tuple[Bytes, Ids, npt.NDArray[np.bool_] | None]:
    is_there = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
    kind, count = _number_of(column.type)
    edges = column.offsets.to_numpy()
    flat, low, high = column.values, int(edges[0]), int(edges[-1])
    flat = flat.slice(low, high - low)
    has_nulls = bool(flat.null_count)
    while isinstance(flat, pa.FixedSizeListArray):
        flat = flat.flatten()
        has_nulls = has_nulls or bool(flat.null_count)
    width = kind.bit_width // 8
    if has_nulls:
        return _NONE, np.zeros(len(column) + 1, dtype=np.int64), np.zeros(len(column), dtype=bool)
    values = np.frombuffer(flat.buffers()[1] or b"", dtype=np.uint8)[
        flat.offset * width : (flat.offset + len(flat)) * width
    ]
    return values, (edges - low) * (count * width), is_there


def _nested(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_fixed_size_list(kind):
        return values
    return pa.FixedSizeListArray.from_arrays(_nested(values, kind.value_type), type=kind)


def _from_zero(column: pa.Array, data: Any, width: int) -> tuple[Bytes, Ids]:
    edges = np.frombuffer(column.buffers()[1] or bytes(8), dtype=np.int64)[
        column.offset : column.offset + len(column) + 1
    ]
    low, high = int(edges[0]), int(edges[-1])
    return np.frombuffer(data or b"", dtype=np.uint8)[low * width : high * width], edges - low


def _batch(column: pa.Array) -> bytes:
    piece: bytes = pa.record_batch([column], names=[""]).serialize().to_pybytes()
    return piece


def _row(data: Bytes, schema: pa.Schema) -> pa.Array:
    return pa.ipc.read_record_batch(pa.py_buffer(np.ascontiguousarray(data)), schema).column(0)


def fixed_bytes(columns: Columns, held: tuple[Held, ...], rows: int, threads: int) -> Bytes | None:
    """The bytes of all columns of one shape, a row's side by side; None where there are none."""
    fixed = [
        (bytes_of(columns[one.name]), one.field.row_bytes)
        for one in held
        if one.form == "fixed" and one.field.row_bytes
    ]
    if not fixed:
        return None
    if len(fixed) == 1:
        return fixed[0][0]
    out = np.empty(rows * sum(width for _, width in fixed), dtype=np.uint8)
    kernels.pack_columns([data for data, _ in fixed], [width for _, width in fixed], rows, out, threads)
    return out
