"""Rows of a table in memory, with all columns of fixed shape side by side.

A shuffled batch takes every row from another place. With a row's values side by side, 100 columns are one place in memory,
not 100.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.repeated_values import joined
from penstock.core.columns.spec import Bytes, Column, Columns, Field, Ids, Spans, Spec

_NO_TYPE = "a mix of numbers below 0 and from 2**63 on, which no integer type holds; make them floats or text"


@dataclass(frozen=True, eq=False)
class Rows:
    """Neighbouring rows of a table.

    fixed: uint8 of shape (rows, bytes), the columns of fixed shape in the order of the spec, without gaps. others: the
    other columns as large_string, large_binary (or `repeated` ones of these) or large_list. flat: the same bytes as `fixed`, row after row.
    """

    fixed: Bytes
    others: dict[str, pa.Array]
    flat: Bytes = field(init=False, repr=False)

    def __len__(self) -> int:
        return len(self.fixed)

    def __post_init__(self) -> None:
        # At once and no cached_property, for whose lock all threads would wait: rows are picked out of open blocks again and again.
        object.__setattr__(self, "flat", self.fixed.reshape(-1))

    @property
    def nbytes(self) -> int:
        """Size of the rows in bytes."""
        return self.fixed.nbytes + sum(int(column.nbytes) for column in self.others.values())

    def slice(self, first: int, rows: int) -> Rows:
        """Rows [first, first + rows), without a copy."""
        others = {name: column.slice(first, rows) for name, column in self.others.items()}
        return Rows(self.fixed[first : first + rows], others)


def widths_of(spec: Spec) -> list[int]:
    """Bytes of one row of each fixed column: widths_of({"x": Field("int8"), "y": Field("float32", (2,))}) == [1, 8]."""
    return [field.row_bytes for field in spec.values() if field.is_fixed]


def pack_rows(columns: Columns, spec: Spec, rows: int, *, threads: int = 1) -> Rows:
    """The columns of a table as `Rows`. A single fixed column is used as it is, several are copied once."""
    fixed = [bytes_of(columns[name]) for name, field in spec.items() if field.is_fixed]
    others = {name: columns[name] for name, field in spec.items() if not field.is_fixed}
    widths = widths_of(spec)
    if len(fixed) == 1:
        return Rows(fixed[0].reshape(rows, widths[0]), others)
    packed = np.empty((rows, sum(widths)), dtype=np.uint8)
    kernels.pack_columns(fixed, widths, rows, packed.reshape(-1), threads)
    return Rows(packed, others)


def as_rows(found: Columns | Rows, spec: Spec, rows: int) -> Rows:
    """What a source loaded, converted to `Rows`."""
    return found if isinstance(found, Rows) else pack_rows(found, spec, rows)


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Several tables joined, one after the other."""
    if len(parts) == 1:
        return parts[0]
    others = {name: joined([part.others[name] for part in parts]) for name in parts[0].others}
    return Rows(np.concatenate([part.fixed for part in parts]), others)


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Columns of several runs of rows (NumPy and Arrow arrays), one after the other."""
    if len(parts) == 1:
        return parts[0]
    joined: Columns = {}
    for name, column in parts[0].items():
        together: list[Any] = [part[name] for part in parts]
        joined[name] = pa.concat_arrays(together) if isinstance(column, pa.Array) else np.concatenate(together)
    return joined


def take_rows(column: Column, rows: Ids) -> Column:
    """Some rows of a column, by their numbers."""
    if isinstance(column, Spans):
        return column.take(rows)
    return column.take(pa.array(rows)) if isinstance(column, pa.Array) else column[rows]


def unpack_rows(
    pieces: Sequence[Rows], which: Ids, row: Ids, spec: Spec, outs: Sequence[npt.NDArray[Any]], *, threads: int
) -> None:
    """Fill the arrays of the fixed columns: row i of each comes from row `row[i]` of `pieces[which[i]]`."""
    parts = [piece.flat for piece in pieces]
    kernels.unpack_rows(parts, widths_of(spec), which, row, [bytes_of(out) for out in outs], threads)


def exact_array(value: Any) -> npt.NDArray[Any]:
    """`np.asarray` without loss: [1, 2**63], which NumPy turns into floats, becomes uint64. OverflowError if no integer type fits."""
    array: npt.NDArray[Any] = np.asarray(value)
    if array.dtype != np.float64 or not array.size or not isinstance(value, (list, tuple)) or not _are_whole(value):
        return array
    if array.min() < 0:
        raise OverflowError(_NO_TYPE)
    return np.asarray(value, dtype=np.uint64)


def exact_type(arrays: Sequence[npt.NDArray[Any]]) -> np.dtype[Any]:
    """The dtype that holds the numbers of all arrays: `np.result_type`, but uint64 where that makes floats of whole numbers. OverflowError if none fits."""
    kind: np.dtype[Any] = np.result_type(*arrays)
    if kind.kind != "f" or any(array.dtype.kind not in "biu" for array in arrays):
        return kind
    if any(array.size and array.min() < 0 for array in arrays):
        raise OverflowError(_NO_TYPE)
    return np.dtype(np.uint64)


def _are_whole(values: Any) -> bool:
    """Whether nested lists hold only whole numbers."""
    return all(
        _are_whole(one) if isinstance(one, (list, tuple)) else isinstance(one, (int, np.integer)) for one in values
    )


def bytes_of(array: Any) -> Bytes:
    """The bytes of a contiguous array, without a copy."""
    flat: Bytes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat


def new_rows(_: str, field: Field, rows: int) -> npt.NDArray[Any]:
    """Uninitialised memory for a fixed column (see `source.protocol.Allocate`)."""
    return np.empty((rows, *(axis or 0 for axis in field.shape)), field.numpy_dtype)


def new_bytes(size: int) -> Bytes:
    """An uninitialised array."""
    return np.empty(size, dtype=np.uint8)


def copied_spans(spans: Spans) -> Spans:
    """The same bytes in one buffer of their own (one copy)."""
    offsets, joined = _joined(spans, new_bytes)
    return Spans((joined,), np.zeros(len(spans), dtype=np.int64), offsets[:-1], spans.length)


def _joined(spans: Spans, take: Callable[[int], Bytes]) -> tuple[Ids, Bytes]:
    """Where the bytes of each begin and all end, and these bytes."""
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(spans.length, out=offsets[1:])
    joined = take(int(offsets[-1]))
    kernels.join_spans(list(spans.buffers), spans.which, spans.offset, spans.length, joined)
    return offsets, joined


def spans_to_arrow(spans: Spans, take: Callable[[int], Bytes] = new_bytes) -> pa.LargeBinaryArray:
    """The bytes of all spans joined into one large_binary array (one copy), in memory from `take`."""
    offsets, joined = _joined(spans, take)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(spans), [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    )
