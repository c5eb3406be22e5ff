"""Columns of several sources to one batch: each row into its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.pick import pick_lists
from penstock.core import kernels
from penstock.core.columns.rows import bytes_of, copied_spans, new_rows, spans_to_arrow
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]


def gather(
    parts: Sequence[Any], which: Ids, row: Ids, name: str, field: Field, allocate: Allocate, *, threads: int
) -> Any:
    """A column whose row i is row `row[i]` of `parts[which[i]]`."""
    rows = len(row)
    if all(isinstance(part, Spans) for part in parts):
        return _merge_spans(parts, which, row)
    if all(isinstance(part, np.ndarray) for part in parts):
        out = allocate(name, field, rows)
        kernels.unpack_rows([bytes_of(part) for part in parts], [field.row_bytes], which, row, [bytes_of(out)], threads)
        return out
    arrays = [spans_to_arrow(part) if isinstance(part, Spans) else part for part in parts]
    kinds = sorted({str(array.type) for array in arrays})
    if len(kinds) > 1:
        arrays = [array.cast(_largest(arrays)) for array in arrays]
    return pick_lists(arrays, which, row)


def gather_columns(
    tables: Sequence[Columns], which: Ids, row: Ids, spec: Spec, allocate: Allocate, *, threads: int
) -> Columns:
    """Columns whose row i is row `row[i]` of `tables[which[i]]`."""
    used, which = np.unique(which, return_inverse=True)
    tables = [tables[number] for number in used.tolist()]
    return {
        name: gather([table[name] for table in tables], which, row, name, field, allocate, threads=threads)
        for name, field in spec.items()
    }


def copied_rows(columns: Columns, row: Ids, spec: Spec, *, threads: int) -> Columns:
    """Some rows of columns, by their numbers, which keep nothing else in memory."""
    which = np.zeros(len(row), dtype=np.int64)
    found = gather_columns([columns], which, row, spec, new_rows, threads=threads) if len(row) else {}
    return {name: copied_spans(one) if isinstance(one, Spans) else one for name, one in found.items()}


def _largest(arrays: Sequence[pa.Array]) -> pa.DataType:
    return next((array.type for array in arrays if "large" in str(array.type)), arrays[0].type)


def _merge_spans(parts: Sequence[Spans], which: Ids, row: Ids) -> Spans:
    """Nothing is copied: the places in all buffers."""
    shift = np.cumsum([0, *(len(part.buffers) for part in parts)])
    first = np.cumsum([0, *(len(part) for part in parts)])
    place = first[which] + row
    buffers = tuple(buffer for part in parts for buffer in part.buffers)
    in_buffer = np.concatenate([part.which + begin for part, begin in zip(parts, shift[:-1], strict=True)])
    offset, length = (np.concatenate([getattr(part, name) for part in parts]) for name in ("offset", "length"))
    return Spans(buffers, in_buffer[place], offset[place], length[place])
