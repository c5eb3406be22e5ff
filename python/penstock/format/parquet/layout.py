"""What Parquet files say of themselves: footers, page indexes, page headers.

The only file that calls the native reader of these (rust/src/records/parquet; docs/decisions/2026-11-23-parquet-pages.md says why there is one): pyarrow ends
the process where the bounds in a footer are damaged, and shows no page index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, Ids

MAGIC = b"PAR1"
#: Larger footers are not read: nothing is ruled out by them, and their pages are not found.
_FOOTER_BYTES = 64 << 20

#: The names that lead to a column, or to a field of a struct.
Path = tuple[str, ...]


@dataclass(frozen=True)
class ColumnChunk:
    """A column of a row group, or of a piece of one: Parquet's number of its type, its values with nulls, and what is said of them.

    nulls: None where it is not said. low, high: as the column stores a value; None where it is not said. ordered: whether they are bounds in the order
    of the column's type; otherwise old ones, which compare bytes as signed numbers.
    """

    type: int
    values: int
    nulls: int | None = None
    low: bytes | None = None
    high: bytes | None = None
    ordered: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it has no values but nulls."""
        return self.nulls == self.values

    def part(self, rows: int) -> ColumnChunk:
        """What is true of some rows, where each row has one value."""
        nulls = rows if self.is_null else 0 if self.nulls == 0 else None
        return replace(self, values=rows, nulls=nulls)


@dataclass(frozen=True)
class RowGroup:
    """A row group, or neighbouring rows of one: its rows, and what is said of the columns that were asked for, by the path of names."""

    rows: int
    columns: Mapping[Path, ColumnChunk]


@dataclass(frozen=True, eq=False)
class Pages:
    """The pages of a column of a row group.

    offset, length: where each lies in the file. first_row: the row of the row group that each begins with, and the number of all rows. dictionary:
    offset and length of the dictionary, needed by the first `dictionary_pages` pages; a length of 0 if there is none.
    """

    offset: Ids
    length: Ids
    first_row: Ids
    dictionary: tuple[int, int]
    dictionary_pages: int

    def of_rows(self, rows: Ids) -> Ids:
        """The pages that hold these rows (ascending)."""
        return np.flatnonzero(np.diff(np.searchsorted(rows, self.first_row)))

    def bytes_between(self, edges: Ids) -> int:
        """Bytes of the pages that are read, if rows edges[i] … edges[i + 1] - 1 are read apart for every i."""
        first = np.searchsorted(self.first_row, edges[:-1], side="right") - 1
        end = np.searchsorted(self.first_row, edges[1:], side="left")
        ends = np.append(0, np.cumsum(self.length))
        dictionaries = int(np.count_nonzero(first < self.dictionary_pages)) * self.dictionary[1]
        return int((ends[end] - ends[first]).sum()) + dictionaries


class Chunks(NamedTuple):
    """Columns of a row group; in each array a number for every column, -1 where it is not said.

    data, dictionary: where the pages of values begin, and the dictionary. end: where the pages end; -1 where they cannot be read apart. unpacked: bytes.
    index_at, index_bytes: where its pages are listed. bounds_at, bounds_bytes: where their bounds are.
    """

    data: Ids
    dictionary: Ids
    end: Ids
    unpacked: Ids
    values: Ids
    nulls: Ids
    dictionary_pages: Ids
    index_at: Ids
    index_bytes: Ids
    bounds_at: Ids
    bounds_bytes: Ids


class Footer:
    """A footer, with the columns and fields of the wanted names and what lies inside them: its leaves. Raises ValueError for bytes that are none."""

    def __init__(self, data: bytes, wanted: Sequence[Path]) -> None:
        self._native = kernels.ParquetFooter(data, [list(path) for path in wanted])
        leaves = self._native.leaves
        self.rows = self._native.rows
        self.paths: list[Path] = [tuple(path) for path, *_ in leaves]
        #: Whether a row may have several values.
        self.repeated = [repeated for _, _, repeated, _ in leaves]
        self._kinds, self._ordered = [kind for _, kind, _, _ in leaves], [ordered for *_, ordered in leaves]

    def leaves(self, wanted: Collection[Path]) -> list[int]:
        """The leaves that these names lead to."""
        names = set(wanted)
        return [
            leaf
            for leaf, path in enumerate(self.paths)
            if any(path[:length] in names for length in range(1, len(path) + 1))
        ]

    def chunks(self, group: int, leaves: Sequence[int]) -> Chunks:
        """These leaves of a row group."""
        return Chunks(*np.ascontiguousarray(self._native.chunks(group)[leaves].T))

    def row_groups(self, names: Collection[str]) -> list[RowGroup]:
        """What is said of the columns of these names, for every row group."""
        leaves = self.leaves([(name,) for name in names])
        found = []
        for group, rows in enumerate(self.rows.tolist()):
            chunks = self.chunks(group, leaves)
            columns = {}
            for leaf, values, nulls in zip(leaves, chunks.values.tolist(), chunks.nulls.tolist(), strict=True):
                said, bounds = None if nulls < 0 else nulls, self._native.bounds(group, leaf)
                columns[self.paths[leaf]] = ColumnChunk(self._kinds[leaf], values, said, *bounds)
            found.append(RowGroup(rows, columns))
        return found

    def pages(self, group: int, leaves: Sequence[int], listed: Sequence[Bytes]) -> list[Pages]:
        """The pages of leaves, out of the pieces of the file that list them. ValueError for pieces that do not."""
        chunks, rows, found = self.chunks(group, leaves), int(self.rows[group]), []
        numbers = zip(chunks.data.tolist(), chunks.dictionary.tolist(), chunks.end.tolist(), strict=True)
        for piece, (data, dictionary, end), needing in zip(listed, numbers, chunks.dictionary_pages, strict=True):
            offset, length, first = kernels.parquet_pages(piece, rows, data, end)
            its = (0, 0) if dictionary < 0 else (dictionary, data - dictionary)
            count = len(offset) if needing < 0 else int(needing)
            found.append(Pages(offset, length, np.append(first, rows), its, count))
        return found

    def page_bounds(self, leaf: int, nulls: int, pages: Pages, listed: Bytes) -> list[ColumnChunk] | None:
        """What is said of each page of a leaf of so many nulls (-1: not said) in a piece of the file; None if it contradicts the footer."""
        rows, kind, ordered = np.diff(pages.first_row), self._kinds[leaf], self._ordered[leaf]
        try:
            null, low, high, counts = kernels.parquet_page_bounds(listed, len(rows))
        except ValueError:
            return None
        if counts is not None and ((nulls >= 0 and counts.sum() != nulls) or (null & (counts != rows)).any()):
            return None
        found = []
        for page, values in enumerate(rows.tolist()):
            count = values if null[page] else None if counts is None else int(counts[page])
            least, greatest = (low[page], high[page]) if ordered and not null[page] else (None, None)
            found.append(ColumnChunk(kind, values, count, least, greatest, ordered))
        return found

    def end_of_part(self, group: int, rows: int, columns: Sequence[Sequence[int]], schema: bytes) -> bytes:
        """The end of a file of some leaves of so many rows of a row group.

        columns: for each its leaf, its values, where its dictionary (-1: none) and its pages begin, its bytes, its bytes unpacked. schema: Arrow's, in
        base64.
        """
        footer = self._native.part(group, rows, columns, schema)
        return footer + len(footer).to_bytes(4, "little") + MAGIC


def read_footer(file: pa.NativeFile, wanted: Sequence[Path]) -> Footer | None:
    """The footer of a file.

    None for one that is too large, or is none as far as can be seen here: what to say of that is for pyarrow, which reads it as well.
    """
    size = file.size()
    if size < 12:
        return None
    file.seek(size - 8)
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or length > min(size - 12, _FOOTER_BYTES):
        return None
    file.seek(size - 8 - length)
    try:
        return Footer(bytes(file.read(length)), wanted)
    except ValueError:
        return None


def page_headers(buffer: Bytes, at: Ids, length: Ids) -> tuple[Ids, Ids, Ids, Ids, Ids]:
    """Of pages that lie at these places: whether each is a dictionary, whether it needs one, its values, its rows (-1: not said), its bytes unpacked.

    ValueError for what is no page of this length.
    """
    is_dictionary, needs_dictionary, values, rows, unpacked = kernels.parquet_page_headers(buffer, at, length).T
    return is_dictionary, needs_dictionary, values, rows, unpacked
