"""A small Parquet file in memory: some pages of some columns of a row group, as they lie in their file, and a footer of their own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core import kernels
from penstock.core.spec import Bytes, Ids
from penstock.format.parquet.parts import Pages

_MAGIC = b"PAR1"
_LARGE = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class Column:
    """A column: its number among the footer's leaves, whether a row may have several values, its pages, and which of them are in the file."""

    leaf: int
    repeated: bool
    pages: Pages
    chosen: Ids

    @property
    def runs(self) -> tuple[Ids, Ids]:
        """The first of each run of neighbouring pages, and the one behind its last."""
        breaks = np.flatnonzero(np.diff(self.chosen) != 1) + 1
        return self.chosen[np.append(0, breaks)], self.chosen[np.append(breaks - 1, -1)] + 1

    @property
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

    def __init__(self, footer: kernels.ParquetFooter, group: int, columns: Sequence[Column], schema: pa.Schema) -> None:
        self._footer, self._group, self.columns = footer, group, columns
        self._arrow = base64.b64encode(schema.serialize())
        self._begin, self._end = columns[0].rows
        self.rows = int((self._end - self._begin).sum())
        self._at: list[tuple[int, int, Ids]] = []  # of each column: its dictionary, its end, its pages
        at = len(_MAGIC)
        offset: list[Ids] = []
        length: list[Ids] = []
        for column in columns:
            begin, pages = at, column.pages
            if column.has_dictionary:
                offset.append(np.array(pages.dictionary[:1]))
                length.append(np.array(pages.dictionary[1:]))
                at += pages.dictionary[1]
            lengths = pages.length[column.chosen]
            ends = at + np.cumsum(lengths)
            self._at.append((begin, int(ends[-1]), ends - lengths))
            at = int(ends[-1])
            first, end = column.runs
            before = np.append(0, np.cumsum(pages.length))
            offset.append(pages.offset[first])
            length.append(before[end] - before[first])
        #: Which ranges of the row group's file come first in this one, behind the magic.
        self.offset, self.length = np.concatenate(offset).astype(np.int64), np.concatenate(length).astype(np.int64)
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
        run = np.searchsorted(self._begin, rows, side="right") - 1
        before = np.cumsum(self._end - self._begin) - (self._end - self._begin)
        places: Ids = rows - self._begin[run] + before[run]
        return places

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
        out[: len(_MAGIC)] = np.frombuffer(_MAGIC, dtype=np.uint8)
        out[self._data_end : self._data_end + len(end)] = np.frombuffer(end, dtype=np.uint8)
        return pa.py_buffer(out[: self._data_end + len(end)]), sum(unpacked)

    def _check(self, column: Column, out: Bytes, begin: int, at: Ids) -> tuple[int, int]:
        """Values and unpacked bytes of a column's pages."""
        length = column.pages.length[column.chosen]
        if column.has_dictionary:
            at, length = np.append(begin, at), np.append(column.pages.dictionary[1], length)
        try:
            found = kernels.parquet_page_headers(out, at, length)
        except ValueError as error:
            raise pa.ArrowInvalid(f"a page of column {self._footer.leaves[column.leaf][0]}: {error}") from None
        is_dictionary, needs, values, rows, unpacked = found.T
        if column.has_dictionary:
            values, rows = values[1:], rows[1:]
        elif needs.any() and column.pages.dictionary[1] > 0:
            raise LackingDictionary
        said = np.diff(column.pages.first_row)[column.chosen]
        wrong = (rows != said) & (rows >= 0) if column.repeated else (values != said) | ((rows != said) & (rows >= 0))
        lost = needs.any() and not column.has_dictionary
        dictionaries = np.flatnonzero(is_dictionary).tolist()
        if lost or wrong.any() or dictionaries != [0] * column.has_dictionary:
            raise pa.ArrowInvalid(
                f"pages of column {self._footer.leaves[column.leaf][0]} are others than the page index says"
            )
        return int(values.sum()), int(unpacked.sum())

    def _end_of(self, values: Sequence[int], unpacked: Sequence[int]) -> bytes:
        parts = []
        for column, (begin, end, at), count, size in zip(self.columns, self._at, values, unpacked, strict=True):
            dictionary = begin if column.has_dictionary else -1
            parts.append([column.leaf, count, dictionary, int(at[0]), end - begin, size])
        footer = self._footer.part(self._group, self.rows, parts, self._arrow)
        return footer + len(footer).to_bytes(4, "little") + _MAGIC


class LackingDictionary(Exception):
    """Pages need a dictionary, and the footer says that they do not."""


def schema_of(footer: kernels.ParquetFooter, leaves: Sequence[int], schema: pa.Schema) -> pa.Schema:
    """What pyarrow makes of these columns alone, given that they are of this schema."""
    end = footer.part(0, 0, [[leaf, 0, -1, 4, 0, 0] for leaf in leaves], base64.b64encode(schema.serialize()))
    file = _MAGIC + end + len(end).to_bytes(4, "little") + _MAGIC
    return pq.ParquetFile(pa.BufferReader(file)).schema_arrow
