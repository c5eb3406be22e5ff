"""Gathers rows of several tables into one batch: loaded blocks of columns become the columns of an item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.ragged import is_numbers, offsets_of, pick_numbers
from penstock.core.columns.repeated_values import is_repeated, rows_of
from penstock.core.columns.rows import Rows, spans_to_arrow, unpack_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]
#: Rows that follow each other in their part, on average, from which on whole runs of them are copied.
_RUN_ROWS = 32


def pick(pieces: Sequence[Rows], which: Ids, row: Ids, spec: Spec, allocate: Allocate, *, threads: int = 1) -> Columns:
    """Columns whose row i is row `row[i]` of `pieces[which[i]]`.

    One native call copies all fixed columns into arrays from `allocate`. Bytes stay where they are, as `Spans`. Strings and
    lists become Arrow arrays.
    """
    fixed = {name: allocate(name, field, len(row)) for name, field in spec.items() if field.is_fixed}
    unpack_rows(pieces, which, row, spec, list(fixed.values()), threads=threads)
    picked: Columns = {}
    runs = _runs(list(map(len, pieces)), which, row) if len(fixed) < len(spec) else None
    for name, field in spec.items():
        if field.is_fixed:
            picked[name] = fixed[name]
            continue
        parts = [piece.others[name] for piece in pieces]
        is_single = field.shape == () and not field.nullable
        if runs is not None and not (is_single and field.dtype == "bytes"):
            picked[name] = _neighbours(parts, runs)
        elif is_single:
            spans = _spans(parts, which, row)
            picked[name] = spans if field.dtype == "bytes" else _text(spans)
        else:
            parts, at = rows_of(parts, which, row)
            picked[name] = pick_lists(parts, which, at)
    return picked


def _runs(sizes: Sequence[int], which: Ids, row: Ids) -> list[tuple[int, int, int]] | None:
    """(part, first row, rows) of rows that follow each other, as they do in their natural order; None if they are mixed, or not there."""
    edges = np.flatnonzero((np.diff(row) != 1) | (np.diff(which) != 0)) + 1
    if _RUN_ROWS * (len(edges) + 1) > len(row):
        return None
    firsts = np.concatenate([[0], edges])
    lengths = np.diff(firsts, append=len(row))
    found = [*zip(which[firsts].tolist(), row[firsts].tolist(), lengths.tolist(), strict=True)]
    are_there = all(0 <= part < len(sizes) and 0 <= first <= sizes[part] - rows for part, first, rows in found)
    return found if are_there else None


def _neighbours(parts: Sequence[pa.Array], runs: Sequence[tuple[int, int, int]]) -> pa.Array:
    """Runs of rows, copied as they lie there."""
    slices = [parts[part].slice(first, rows) for part, first, rows in runs]
    return pa.concat_arrays([one.dictionary_decode() if is_repeated(one) else one for one in slices])


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
