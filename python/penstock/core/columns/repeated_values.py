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
from penstock.core.columns.spec import Ids

#: Columns that are written out in less than this are.
SMALL_BYTES = 256 << 20
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
