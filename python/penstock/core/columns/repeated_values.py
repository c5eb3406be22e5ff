"""Text and bytes of which a few values stand in many rows: each value once, and for every row its number.

Files hold such columns as dictionaries or runs, and 30 KB of them can stand for gigabytes. Rows are gathered out of the values, so the
column itself is never written out.
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
    """A column whose row i is values[indices[i]]: large_string or large_binary, without nulls."""
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int64()), values)


def is_repeated(column: Any) -> bool:
    """Whether a column is one of `repeated`."""
    return bool(isinstance(column, pa.DictionaryArray))


def stays_apart(indices: Ids, values: pa.Array) -> bool:
    """Whether the column would be large written out, and is much smaller as it is."""
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
            row[mine] = part.indices.to_numpy(zero_copy_only=False)[row[mine]]
    return [part.dictionary if is_repeated(part) else part for part in parts], row


def picked_bytes(parts: Sequence[pa.Array], which: Ids, row: Ids) -> int:
    """Bytes of the values of rows row[i] of parts[which[i]], in parts that are repeated."""
    found = 0
    for number, part in enumerate(parts):
        if is_repeated(part):
            numbers = part.indices.to_numpy(zero_copy_only=False)[row[which == number]]
            found += written_bytes(numbers, part.dictionary)
    return found


def joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Columns one after the other; repeated if one of them is."""
    if not any(map(is_repeated, parts)):
        return pa.concat_arrays(parts)
    values = [part.dictionary if is_repeated(part) else part for part in parts]
    before = np.cumsum([0, *map(len, values)])
    numbers = [
        part.indices.to_numpy(zero_copy_only=False) if is_repeated(part) else np.arange(len(part)) for part in parts
    ]
    return repeated(
        np.concatenate([first + one for first, one in zip(before, numbers, strict=False)]), pa.concat_arrays(values)
    )
