"""Columns of text as native code takes them, edges, bytes and which rows have none, and as it gives them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import is_bytes, is_text
from penstock.core.cpus import usable_cpus

#: Edges, bytes, and which rows have no text; None for none.
TextParts: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.bool_] | None]

#: A column of more bytes is worked on by all CPUs: a batch has less, and the stages that make batches are threads themselves.
_MANY_BYTES = 4 << 20


def text_parts(column: pa.Array) -> TextParts:
    """The parts of a column of text or bytes; nothing is copied of large ones."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    assert is_text(column.type) or is_bytes(column.type)
    large = pa.large_string() if is_text(column.type) else pa.large_binary()
    column = column if column.type == large else column.cast(large)
    _, edges, data = column.buffers()
    places = np.frombuffer(edges or bytes(8), np.int64)[column.offset : column.offset + len(column) + 1]
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else None
    return places if len(places) else np.zeros(1, np.int64), np.frombuffer(data or b"", np.uint8), missing


def text_array(
    written: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]], missing: npt.NDArray[np.bool_] | None
) -> pa.LargeStringArray:
    """The column of text that native code wrote, with nulls where there were some."""
    edges, data = written
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(edges), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers)


def threads_for(parts: TextParts) -> int:
    """How many threads work on a column, called outside of a stage's own threads or for a batch."""
    edges = parts[0]
    return usable_cpus() if int(edges[-1] - edges[0]) >= _MANY_BYTES else 1


def as_text(column: Any) -> pa.Array:
    """A column of text; TypeError for another one."""
    if not isinstance(column, pa.Array) or not is_text(column.type):
        raise TypeError("it is for text; cast('string') makes some of numbers")
    return column
