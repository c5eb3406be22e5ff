"""Categories of a column, and how often each comes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.repeated_values import is_repeated
from penstock.core.errors import DataError
from penstock.transform.table.statistics.protocol import Block

#: Bytes of categories that are held of a column, and those of single blocks before they are added up, unless half of the others are more.
_MOST_BYTES, _PENDING = 128 << 20, 32 << 20


class Counts:
    """Of the values of a column: text, whole numbers, or floats of which 0.0 and -0.0 are one. limit: more categories are an error; None: all are taken."""

    takes_floats = False

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self.missing = limit, 0
        self._parts, self._pending = list[tuple[pa.Array, npt.NDArray[np.int64]]](), 0

    def add(self, block: Block) -> None:
        """See `Statistic`."""
        values = block.values
        self.missing += values.null_count
        given = values.drop_null() if values.null_count else values
        if is_repeated(given):
            counts = np.bincount(given.indices.to_numpy(zero_copy_only=False), minlength=len(given.dictionary))
            there = np.flatnonzero(counts)
            self._take(given.dictionary.take(pa.array(there)), counts[there])
        else:
            found = pc.value_counts(given)
            self._take(found.field(0), found.field(1).to_numpy())

    def merge(self, other: Self) -> None:
        """See `Statistic`."""
        self.missing += other.missing
        for values, counts in other._parts:
            self._take(values, counts)

    def next(self) -> Self | None:
        """See `Statistic`."""
        return None

    def _take(self, values: pa.Array, counts: npt.NDArray[Any]) -> None:
        part = values, counts.astype(np.int64)
        self._parts.append(part)
        self._pending += _bytes_of(part)
        if self._pending > max(_PENDING, _bytes_of(self._parts[0]) // 2):
            self._add_up()
        if self.limit is not None and len(values) > self.limit:
            self._refuse(len(values))

    def _add_up(self) -> None:
        if self._pending:
            values = pa.chunked_array([part for part, _ in self._parts])
            counts = np.concatenate([part for _, part in self._parts])
            table = (
                pa.table({"value": values, "count": counts})
                .group_by("value", use_threads=False)
                .aggregate([("count", "sum")])
            )
            summed = table.column("count_sum").combine_chunks().to_numpy()
            self._parts = [(_one(table.column("value")), summed)]
        self._pending = 0
        if self._parts and _bytes_of(self._parts[0]) > _MOST_BYTES:
            raise DataError(
                f"has {len(self._parts[0][0]):,} categories or more, which take more than the {_MOST_BYTES >> 20} MiB that are held of a column; take Hash, "
                "which needs not know them, or leave the column out"
            )
        if self.limit is not None and self._parts and len(self._parts[0][0]) > self.limit:
            self._refuse(len(self._parts[0][0]))

    def _refuse(self, found: int) -> None:
        raise DataError(
            f"has {found:,} categories or more, and {self.limit:,} are allowed; take Hash, Frequency or Vocabulary(max_size=…), or allow more with limit=…"
        )

    @property
    def sorted(self) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """The categories in ascending order, text by its code points, with their counts."""
        self._add_up()
        if not self._parts:
            return pa.array([], pa.large_string()), np.zeros(0, np.int64)
        values, counts = self._parts[0]
        order = pc.array_sort_indices(values)
        return values.take(order), counts[order.to_numpy()]

    @property
    def most_frequent(self) -> Any:
        """The category that comes most often, of several the least; None of nothing."""
        values, counts = self.sorted
        return values[int(np.argmax(counts))].as_py() if len(counts) else None


def _bytes_of(part: tuple[pa.Array, npt.NDArray[np.int64]]) -> int:
    values, counts = part
    return int(values.nbytes) + int(counts.nbytes)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found: Any = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
