"""Gathers rows of several tables into one batch: loaded blocks of columns become the columns of an item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.ragged import is_numbers, offsets_of, pick_numbers
from penstock.core.columns.repeated_values import rows_of
from penstock.core.columns.rows import Rows, spans_to_arrow, unpack_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]


def pick(pieces: Sequence[Rows], which: Ids, row: Ids, spec: Spec, allocate: Allocate, *, threads: int = 1) -> Columns:
    """Columns whose row i is row `row[i]` of `pieces[which[i]]`.

    One native call copies all fixed columns into arrays from `allocate`. Bytes stay where they are, as `Spans`. Strings and
    lists become Arrow arrays.
    """
    fixed = {name: allocate(name, field, len(row)) for name, field in spec.items() if field.is_fixed}
    unpack_rows(pieces, which, row, spec, list(fixed.values()), threads=threads)
    picked: Columns = {}
    for name, field in spec.items():
        if field.is_fixed:
            picked[name] = fixed[name]
            continue
        parts = [piece.others[name] for piece in pieces]
        if field.shape == () and not field.nullable:
            spans = _spans(parts, which, row)
            picked[name] = spans if field.dtype == "bytes" else _text(spans)
        else:
            picked[name] = pick_lists(parts, which, row)
    return picked


def _spans(parts: Sequence[pa.Array], which: Ids, row: Ids) -> Spans:
    """The rows of large_binary or large_string arrays as spans over the arrays' memory."""
    parts, row = rows_of(parts, which, row)
    first, end = (offsets_of(parts, which, row + behind) for behind in (0, 1))
    data = tuple(np.frombuffer(part.buffers()[2] or b"", dtype=np.uint8) for part in parts)
    return Spans(data, which, first, end - first)


def _text(spans: Spans) -> pa.Array:
    joined = spans_to_arrow(spans)
    return pa.LargeStringArray.from_buffers(len(joined), joined.buffers()[1], joined.buffers()[2])


def pick_lists(parts: Sequence[pa.Array], which: Ids, row: Ids) -> pa.Array:
    """Rows of arrays of one type: of lists of numbers by one copy, of others piece by piece, and then put in order."""
    if all(map(is_numbers, parts)):
        return pick_numbers(parts, which, row)
    turn = np.argsort(which, kind="stable")
    edges = np.searchsorted(which[turn], np.arange(len(parts) + 1))
    taken = [
        part.take(pa.array(row[turn[low:high]])) for part, low, high in zip(parts, edges[:-1], edges[1:], strict=True)
    ]
    place = np.empty_like(turn)
    place[turn] = np.arange(len(turn))
    return pa.concat_arrays(taken).take(pa.array(place))
