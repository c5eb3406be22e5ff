"""Ragged columns of a batch as dense arrays, with how long each row was and what is no padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.batch.fill import SequencePieces, fill
from penstock.core.columns.ragged import Ragged, ragged_of
from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.errors import RowError
from penstock.core.verbs.padding import Padding, columns_to_pad, lengths_name, mask_name, value_bytes

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]


def padded_spec(padding: Padding, spec: Spec) -> dict[str, Field]:
    """The columns that come out; where rows are padded to the longest, their length is None. PlanError where they cannot be padded."""
    return _with_padded(spec, dict.fromkeys(columns_to_pad(padding, spec), padding.length))


def pad_columns(
    columns: Columns, spec: Spec, padding: Padding, allocate: Allocate, *, threads: int = 1
) -> tuple[Columns, dict[str, Field]]:
    """The columns with ragged ones dense: ids of 3 and 5 numbers become "ids" (2, 5), "ids_lengths" [3, 5] (int32) and "ids_mask" (2, 5), True at numbers.

    Returns their fields besides. Raises RowError for a row longer than the padding's length.
    """
    made: Columns = {}
    ragged = {name: ragged_of(name, columns[name]) for name in columns_to_pad(padding, spec)}
    fields = _with_padded(spec, {name: _length_of(name, rows, padding) for name, rows in ragged.items()})
    for name, column in columns.items():
        if name not in ragged:
            made[name] = column
            continue
        names = (name, lengths_name(name), mask_name(name))
        out, lengths, mask = arrays = [allocate(one, fields[one], len(column)) for one in names]
        made.update(zip(names, arrays, strict=True))
        lengths[:] = np.minimum(ragged[name].lengths, out.shape[1])
        value = ragged[name].repeated(value_bytes("batch_padded", name, spec[name], padding.padding_value))
        dense = [(ragged[name], value, out)]
        fill(_whole_rows(lengths), dense, length=out.shape[1], mask=mask, threads=threads)
    return made, fields


def _with_padded(spec: Spec, lengths: dict[str, int | None]) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for name, field in spec.items():
        if name not in lengths:
            fields[name] = field
            continue
        fields[name] = Field(field.dtype, (lengths[name], *field.shape[1:]))
        fields[lengths_name(name)] = Field("int32")
        fields[mask_name(name)] = Field("bool", (lengths[name],))
    return fields


def _length_of(name: str, rows: Ragged, padding: Padding) -> int:
    """What a column's rows are padded to."""
    longest = int(rows.lengths.max(initial=0))
    length = padding.length_of(longest)
    if longest > length and not padding.truncate:
        row = int(np.flatnonzero(rows.lengths > length)[0])
        raise RowError(
            row,
            f"column {name!r} has {rows.lengths[row]:,} values, and rows are padded to {length:,}",
            "pass batch_padded a larger length=, or truncate=True",
        )
    return length


def _whole_rows(lengths: npt.NDArray[np.int32]) -> SequencePieces:
    """Every row is a sequence of one segment."""
    rows = np.arange(len(lengths) + 1, dtype=np.int64)
    return SequencePieces(rows[:-1], np.zeros(len(lengths), dtype=np.int64), lengths.astype(np.int64), rows)
