"""A small Parquet file in memory: some pages of some columns of a row group, as they lie in their file, and a footer of their own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.columns.spec import Bytes, Ids
from penstock.format.parquet.layout import MAGIC, Footer, Pages, page_headers

_LARGE = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class LeafColumn:
    """A column: its number among the footer's leaves, whether a row may have several values, its pages, and which of them are in the file."""

    leaf: int
    repeated: bool
    pages: Pages
    chosen: Ids

    @cached_property
    def runs(self) -> tuple[Ids, Ids]:
        """The first of each run of neighbouring pages, and the one behind its last."""
        breaks = np.flatnonzero(np.diff(self.chosen) != 1) + 1
        return self.chosen[np.append(0, breaks)], self.chosen[np.append(breaks - 1, -1)] + 1

    @cached_property
    def rows(self) -> tuple[Ids, Ids]:
        """The same of the rows that these pages hold."""
        first, end = self.runs
        return self.pages.first_row[first], self.pages.first_row[end]

    @property
    def has_dictionary(self) -> bool:
        """Whether some of the pages need the dictionary."""
        return self.pages.dictionary[1] > 0 and int(self.chosen[0]) < self.pages.dictionary_pages


class SmallFile:
    """Columns whose pages hold the same rows of a row group."""

    def __init__(self, footer: Footer, group: int, columns: Sequence[LeafColumn], schema: pa.Schema) -> None:
        self._footer, self._group, self.columns = footer, group, columns
        self._arrow = base64.b64encode(schema.serialize())
        self._begin, self._end = columns[0].rows
        self.rows = int((self._end - self._begin).sum())
        self._at: list[tuple[int, int, Ids]] = []  # of each column: its dictionary, its end, its pages
        at, ranges = len(MAGIC), []
        for column in columns:
            begin, pages = at, column.pages
            if column.has_dictionary:
                ranges.append(np.array([pages.dictionary]).T)
                at += pages.dictionary[1]
            lengths = pages.length[column.chosen]
            ends = at + np.cumsum(lengths)
            at = int(ends[-1])
            self._at.append((begin, at, ends - lengths))
            first, end = column.runs
            before = np.append(0, np.cumsum(pages.length))
            ranges.append(np.stack([pages.offset[first], before[end] - before[first]]))
        #: Which ranges of the row group's file come first in this one, behind the magic.
        self.offset, self.length = np.concatenate(ranges, axis=1)
        self._data_end = at
        self.size = at + len(self._end_of([_LARGE] * len(columns), [_LARGE] * len(columns)))

    def decode(self, buffer: pa.Buffer, rows: Ids, *, verify: bool) -> pa.Table:
        """These rows (ascending) of the row group."""
        table = pq.ParquetFile(pa.BufferReader(buffer), page_checksum_verification=verify).read_row_group(0)
        table.validate(full=True)
        if table.num_rows != self.rows:
            raise pa.ArrowInvalid(f"pages of {table.num_rows:,} rows where the page index says {self.rows:,}")
        if len(rows) == rows[-1] - rows[0] + 1:
            return table.slice(int(self._places(rows[:1])[0]), len(rows))
        return table.take(pa.array(self._places(rows)))

    def _places(self, rows: Ids) -> Ids:
        """Where these rows of the row group lie in this file."""
        counts = self._end - self._begin
        moved: Ids = np.cumsum(counts) - counts - self._begin
        return rows + moved[np.searchsorted(self._begin, rows, side="right") - 1]

    def finish(self, out: Bytes) -> tuple[pa.Buffer, int]:
        """Puts magic and footer around the pages that were read to out[4:]: the file, and its bytes unpacked.

        Raises ArrowInvalid for pages that are others than the page index says, LackingDictionary for pages that need one which was not read.
        """
        values, unpacked = [], []
        for column, (begin, _, at) in zip(self.columns, self._at, strict=True):
            count, size = self._check(column, out, begin, at)
            values.append(count)
            unpacked.append(size)
        end = self._end_of(values, unpacked)
        out[: len(MAGIC)] = np.frombuffer(MAGIC, dtype=np.uint8)
        out[self._data_end : self._data_end + len(end)] = np.frombuffer(end, dtype=np.uint8)
        return pa.py_buffer(out[: self._data_end + len(end)]), sum(unpacked)

    def _check(self, column: LeafColumn, out: Bytes, begin: int, at: Ids) -> tuple[int, int]:
        """Values and unpacked bytes of a column's pages."""
        pages, name, has_dictionary = column.pages, list(self._footer.paths[column.leaf]), column.has_dictionary
        length = pages.length[column.chosen]
        if has_dictionary:
            at, length = np.append(begin, at), np.append(pages.dictionary[1], length)
        try:
            is_dictionary, needs_dictionary, values, rows, unpacked = page_headers(out, at, length)
        except ValueError as error:
            raise pa.ArrowInvalid(f"a page of column {name}: {error}") from None
        needs = needs_dictionary.any() and not has_dictionary
        if needs and pages.dictionary[1] > 0:
            raise LackingDictionary
        values, rows = values[has_dictionary:], rows[has_dictionary:]
        said = np.diff(pages.first_row)[column.chosen]
        wrong = (rows >= 0) & (rows != said) | (values != said if not column.repeated else False)
        if needs or wrong.any() or np.flatnonzero(is_dictionary).tolist() != [0] * has_dictionary:
            raise pa.ArrowInvalid(f"pages of column {name} are others than the page index says")
        return int(values.sum()), int(unpacked.sum())

    def _end_of(self, values: Sequence[int], unpacked: Sequence[int]) -> bytes:
        parts = []
        for column, (begin, end, at), count, size in zip(self.columns, self._at, values, unpacked, strict=True):
            dictionary = begin if column.has_dictionary else -1
            parts.append([column.leaf, count, dictionary, int(at[0]), end - begin, size])
        return self._footer.end_of_part(self._group, self.rows, parts, self._arrow)


class LackingDictionary(Exception):
    """Pages need a dictionary, and the footer says that they do not."""


def schema_of(footer: Footer, leaves: Sequence[int], schema: pa.Schema) -> pa.Schema:
    """What pyarrow makes of these columns alone, given that they are of this schema."""
    arrow = base64.b64encode(schema.serialize())
    end = footer.end_of_part(0, 0, [[leaf, 0, -1, len(MAGIC), 0, 0] for leaf in leaves], arrow)
    return pq.ParquetFile(pa.BufferReader(MAGIC + end)).schema_arrow
