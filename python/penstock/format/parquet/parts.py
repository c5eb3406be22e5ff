"""Into which parts row groups of Parquet files are cut: large ones where pages begin, if the file lists its pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.format.parquet.layout import Pages

#: Rows of a row group that pass a filter, ascending.
Kept = npt.NDArray[np.int32]

#: Decoded bytes of a part, about, and of each of its columns: each costs some 30 µs, and a request where files lie elsewhere.
_PART_BYTES, _COLUMN_BYTES = 4 << 20, 64 << 10
#: Smaller row groups are parts themselves.
_WHOLE_BYTES = 16 << 20
#: How many bytes may be read for one that is wanted, since pages of several columns seldom end together.
_READ_TWICE = 1.25


class GroupPart(NamedTuple):
    """Rows [first, first + rows) of a row group: whether they are read by pages, and which of them pass the filter, if there is one."""

    shard: int
    group: int
    first: int
    rows: int
    by_pages: bool
    kept: Kept | None


@dataclass(frozen=True, eq=False)
class GroupParts:
    """Parts of row groups: shard, number of the row group in its file, rows of it, whether they are read by pages, and which pass the filter.

    first, rows: the rows [first, first + rows) of the row group. kept: int32, the numbers in the row group of those that a filter leaves; None
    where there is no filter.
    """

    shard: Ids
    group: Ids
    first: Ids
    rows: Ids
    by_pages: npt.NDArray[np.bool_]
    kept: Sequence[Kept] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def counts(self) -> Ids:
        """Samples of each part."""
        return self.rows if self.kept is None else np.array([len(kept) for kept in self.kept], dtype=np.int64)

    def wanted(self, part: int) -> Ids:
        """The rows of the row group that are samples."""
        if self.kept is not None:
            return self.kept[part].astype(np.int64)
        return np.arange(self.first[part], self.first[part] + self.rows[part])


def join_parts(parts: Sequence[GroupPart], *, filtered: bool) -> GroupParts:
    """The parts of all files."""
    where = np.array([part[:4] for part in parts], dtype=np.int64).reshape(-1, 4)
    shard, group, first, rows = np.ascontiguousarray(where.T)
    by_pages = np.array([part.by_pages for part in parts], dtype=np.bool_)
    kept = [part.kept for part in parts if part.kept is not None] if filtered else None
    return GroupParts(shard, group, first, rows, by_pages, kept)


def is_large(size: int) -> bool:
    """Whether a row group of so many decoded bytes is cut, if it can be."""
    return size >= _WHOLE_BYTES


def edges_of(rows: int, size: int, pages: Sequence[Pages]) -> Ids:
    """Where a row group of `size` decoded bytes is cut: the first row of each part, and the number of all rows.

    The cuts are where pages of the largest column begin. Where too much would be read for two parts, parts are larger.
    """
    whole = np.array([0, rows], dtype=np.int64)
    if not is_large(size):
        return whole
    largest = max(pages, key=lambda column: int(column.length.sum()))
    once = sum(int(column.length.sum()) + column.dictionary[1] for column in pages)
    wanted = max(1, rows * max(_PART_BYTES, _COLUMN_BYTES * len(pages)) // size)
    while wanted < rows:
        edges = _cut(largest.first_row, wanted)
        if sum(column.bytes_between(edges) for column in pages) <= _READ_TWICE * once:
            return edges
        wanted *= 2
    return whole


def _cut(first_row: Ids, wanted: int) -> Ids:
    """Some of the pages' first rows, at least `wanted` apart: _cut([0, 3, 6, 9, 10], 5) == [0, 6, 10]."""
    edges, end = [0], int(first_row[-1])
    while edges[-1] + wanted < end:
        edges.append(int(first_row[np.searchsorted(first_row, edges[-1] + wanted)]))
    if edges[-1] != end:
        edges.append(end)
    if len(edges) > 2 and edges[-1] - edges[-2] < wanted // 2:
        del edges[-2]
    return np.array(edges, dtype=np.int64)
