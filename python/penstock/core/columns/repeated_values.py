"""Text and bytes of which a few values stand in many rows: each value once, and for every row its number.

Files hold such columns as dictionaries or runs, and 30 KB of them can stand for gigabytes. Rows are gathered out of the values, so the
column itself is never written out. Of a column with nulls the last value is one, so that rows without a value have a number as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns import compute as pc
from penstock.core.columns.spec import Ids, is_bytes, is_text

#: Columns that are written out in less than this are.
SMALL_BYTES = 8 << 20
#: So many times smaller than the column written out, at least, is one whose values stay apart.
_WORTH = 4


def repeated(indices: Ids, values: pa.Array) -> pa.DictionaryArray:
    """A column whose row i is values[indices[i]], or null where that is -1: large_string or large_binary."""
    is_null = indices < 0
    if not is_null.any():
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int64()), values)
    if not len(values) or values[-1].is_valid:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int64(), mask=is_null), values)


def is_repeated(column: Any) -> bool:
    """Whether a column is one of `repeated`."""
    return bool(isinstance(column, pa.DictionaryArray))


def _numbers(column: pa.DictionaryArray) -> Ids:
    """The number of each row's value, of the last one for null."""
    numbers = column.indices
    if numbers.null_count:
        numbers = numbers.fill_null(len(column.dictionary) - 1)
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def stays_apart(indices: Ids, values: pa.Array) -> bool:
    """Whether the column would be large written out, and is much smaller as it is; -1 stands for null."""
    indices = indices[indices >= 0]
    held_bytes = int(values.nbytes) + int(indices.nbytes)
    return written_bytes(indices, values) > max(SMALL_BYTES, _WORTH * held_bytes)


def written_bytes(indices: Ids, values: pa.Array) -> int:
    """Bytes of the rows' values."""
    if not len(values):
        return 0
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return int(lengths[indices].sum())


def written_column_bytes(column: pa.Array) -> int:
    """Bytes of a column with every value written out, of dictionaries and runs of text; of other columns those that they have."""
    if pa.types.is_dictionary(column.type):
        numbers = column.indices.drop_null().to_numpy(zero_copy_only=False)
        values, counts = column.dictionary, np.bincount(numbers, minlength=len(column.dictionary))
    elif pa.types.is_run_end_encoded(column.type):
        ends, values = column.run_ends.to_numpy(zero_copy_only=False), column.values
        counts = np.diff(np.clip(ends - column.offset, 0, len(column)), prepend=0)
    else:
        return int(column.nbytes)
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_string() if is_text(values.type) else pa.large_binary())
    if not _is_text(values.type):
        return int(values.nbytes) // max(1, len(values)) * len(column)
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return int(lengths @ counts) + 8 * len(column)


def _is_text(kind: pa.DataType) -> bool:
    return is_text(kind) or is_bytes(kind)


def rows_of(parts: Sequence[pa.Array], which: Ids, row: Ids) -> tuple[list[pa.Array], Ids]:
    """Row row[i] of parts[which[i]], in parts that are not repeated: their values, and the rows' numbers there."""
    if not any(map(is_repeated, parts)):
        return list(parts), row
    row = row.copy()
    for number, part in enumerate(parts):
        if is_repeated(part):
            mine = which == number
            row[mine] = _numbers(part)[row[mine]]
    return [part.dictionary if is_repeated(part) else part for part in parts], row


def picked_bytes(parts: Sequence[pa.Array], which: Ids, row: Ids) -> int:
    """Bytes of the values of rows row[i] of parts[which[i]], in parts that are repeated."""
    found = 0
    for number, part in enumerate(parts):
        if is_repeated(part):
            found += written_bytes(_numbers(part)[row[which == number]], part.dictionary)
    return found


def joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Columns one after the other; repeated if one of them is."""
    if not any(map(is_repeated, parts)):
        return pa.concat_arrays(parts)
    values = [part.dictionary if is_repeated(part) else part for part in parts]
    before = np.cumsum([0, *map(len, values)])
    numbers = [
        first + _numbers(part) if is_repeated(part) else first + np.arange(len(part))
        for first, part in zip(before, parts, strict=False)
    ]
    for part, number in zip(parts, numbers, strict=True):
        if part.null_count:
            number[part.is_null().to_numpy(zero_copy_only=False)] = -1
    return repeated(np.concatenate(numbers), pa.concat_arrays(values))
