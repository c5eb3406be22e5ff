"""Single pages of Parquet files: only those that hold the rows which are wanted, of every column its own.

No library reads pages alone. So the pages, as they lie in the file, and a footer of their own become a small Parquet file in memory, which pyarrow
decodes. Where pages are listed, they begin with a row, also those of lists:
https://github.com/apache/parquet-format/blob/master/PageIndex.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Bytes, Ids
from penstock.core.lru import Lru
from penstock.format.parquet.files import DAMAGED, ParquetFiles
from penstock.format.parquet.layout import ColumnChunk, Footer, Pages, Path, read_footer
from penstock.format.parquet.small_file import LackingDictionary, LeafColumn, SmallFile, schema_of
from penstock.source.tables.table import arrow_errors, check_unpacked, one_array

#: Pages of a row group are listed in as many bytes at most.
_INDEX_BYTES = 64 << 20
#: Footers, and columns of row groups, of which it is remembered where their pages lie.
_FOOTERS, _CHUNKS = 32, 16_384


class PagedFile:
    """A file whose footer was read: what its columns are in Arrow, and whether they can be read by pages."""

    def __init__(self, footer: Footer, schema: pa.Schema) -> None:
        self.footer, self._schema = footer, schema

    def arrow_schema(self, leaves: Sequence[int]) -> pa.Schema:
        """What these columns are in Arrow."""
        tree: dict[str, Any] = {}
        for leaf in leaves:
            node = tree
            for name in self.footer.paths[leaf]:
                node = node.setdefault(name, {})
        return pa.schema([_narrowed(self._schema.field(name), below) for name, below in tree.items()])

    @cached_property
    def is_plain(self) -> bool:
        """Whether pyarrow gives these columns alone the types that they have in the whole file."""
        leaves = range(len(self.footer.paths))
        try:
            schema = self.arrow_schema(leaves)
            return bool(leaves) and schema_of(self.footer, leaves, schema).types == schema.types
        except (pa.ArrowException, KeyError, ValueError, OSError):
            return False

    def small_files(self, group: int, leaves: Sequence[int], pages: Sequence[Pages], rows: Ids) -> list[SmallFile]:
        """Files of the pages that hold these rows: one for all columns whose pages hold the same rows."""
        alike: dict[bytes, list[LeafColumn]] = {}
        for leaf, its in zip(leaves, pages, strict=True):
            column = LeafColumn(leaf, self.footer.repeated[leaf], its, its.of_rows(rows))
            alike.setdefault(np.concatenate(column.rows).tobytes(), []).append(column)
        return [
            SmallFile(self.footer, group, columns, self.arrow_schema([column.leaf for column in columns]))
            for columns in alike.values()
        ]


class PagedFiles:
    """Files some of whose row groups are read by pages. For any number of threads; copies in other processes begin empty."""

    def __init__(self, files: ParquetFiles, schema: pa.Schema, wanted: Sequence[Path]) -> None:
        self._files, self._schema, self._wanted = files, schema, wanted
        self._known: Lru[int, PagedFile] = Lru(_FOOTERS)
        self._pages: Lru[tuple[int, int, int], Pages] = Lru(_CHUNKS)

    def __reduce__(self) -> tuple[Any, ...]:
        return PagedFiles, (self._files, self._schema, self._wanted)

    def look(self, shard: int, opened: pa.NativeFile | None = None) -> PagedFile | None:
        """A file by its footer; None for one that pyarrow alone can judge."""
        with arrow_errors(self._files.shards.path(shard), DAMAGED):
            footer = read_footer(opened or self._files.bytes_of(shard), self._wanted)
        return None if footer is None else self._known.put(shard, PagedFile(footer, self._schema))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first file."""
        return self._schema

    def file(self, shard: int) -> PagedFile | None:
        """A file that was looked at, or is now."""
        return self._known.get(shard) or self.look(shard)

    def pages(self, shard: int, group: int, wanted: Sequence[Path]) -> list[Pages] | None:
        """The pages of these columns of a row group; None where they are not listed, or not as they should be."""
        file = self.file(shard)
        if file is None or not file.is_plain:
            return None
        leaves = file.footer.leaves(self._files.stored(wanted))
        found = {leaf: self._pages.get((shard, group, leaf)) for leaf in leaves}
        if missing := [leaf for leaf, pages in found.items() if pages is None]:
            read = self._read_pages(file, shard, group, missing)
            if read is None:
                return None
            for leaf, pages in zip(missing, read, strict=True):
                found[leaf] = self._pages.put((shard, group, leaf), pages)
        return [pages for pages in found.values() if pages is not None] or None

    def index_bytes(self, shard: int, offset: Ids, length: Ids) -> list[Bytes] | None:
        """Pieces of the page index; None if these are no places of the file, or too large."""
        size = int(self._files.shards.sizes[shard])
        if (length <= 0).any() or (length > _INDEX_BYTES).any() or length.sum() > _INDEX_BYTES:
            return None
        if (offset < 0).any() or (offset > size).any() or (offset + length > size).any():
            return None
        ends = np.cumsum(length)
        out = np.empty(int(ends[-1]), dtype=np.uint8)
        self._files.read(self._files.shards, np.full_like(offset, shard), offset, length, out, ends - length)
        return np.split(out, ends[:-1])

    def bounds(self, shard: int, group: int, wanted: Sequence[Path]) -> dict[Path, tuple[Ids, list[ColumnChunk]]]:
        """By column: the first rows of its pages with the number of all rows, and what is said of each page. Empty where pages do not differ."""
        pages, file = self.pages(shard, group, wanted), self.file(shard)
        if pages is None or file is None or all(len(column.offset) == 1 for column in pages):
            return {}
        footer, leaves = file.footer, file.footer.leaves(self._files.stored(wanted))
        chunks = footer.chunks(group, leaves)
        listed = ~np.array(footer.repeated)[leaves] & (chunks.bounds_at > 0) & (chunks.bounds_bytes > 0)
        pieces = (
            self.index_bytes(shard, chunks.bounds_at[listed], chunks.bounds_bytes[listed]) if listed.any() else None
        )
        found = {}
        for number, piece in zip(np.flatnonzero(listed).tolist(), pieces or (), strict=pieces is not None):
            said = footer.page_bounds(leaves[number], int(chunks.nulls[number]), pages[number], piece)
            if said is not None:
                found[footer.paths[leaves[number]]] = (pages[number].first_row, said)
        return found

    def _read_pages(self, file: PagedFile, shard: int, group: int, leaves: list[int]) -> list[Pages] | None:
        chunks = file.footer.chunks(group, leaves)
        if (
            (chunks.end < 0).any()
            or (chunks.end > self._files.shards.sizes[shard]).any()
            or not file.footer.rows[group]
        ):
            return None
        pieces = self.index_bytes(shard, chunks.index_at, chunks.index_bytes)
        try:
            return None if pieces is None else file.footer.pages(group, leaves, pieces)
        except ValueError:
            return None

    def table(self, shard: int, group: int, wanted: Sequence[Path], rows: Ids) -> pa.Table:
        """These rows (ascending) of a row group whose pages are listed, and these columns of them.

        Raises ArrowInvalid for pages that are damaged, or are others than the page index says.
        """
        stored = self._files.stored(wanted)
        pages, file = self.pages(shard, group, stored), self.file(shard)
        if pages is None or file is None:
            raise pa.ArrowInvalid("the page index is not what it was when the file was opened")
        leaves = file.footer.leaves(stored)
        try:
            tables = self._tables(shard, file.small_files(group, leaves, pages, rows), rows)
        except LackingDictionary:
            pages = [replace(column, dictionary_pages=len(column.offset)) for column in pages]
            tables = self._tables(shard, file.small_files(group, leaves, pages, rows), rows)
        columns: dict[str, list[pa.ChunkedArray]] = {}
        for table in tables:
            for name in table.column_names:
                columns.setdefault(name, []).append(table[name])
        joined = {field.name: _joined(columns[field.name], field.type) for field in file.arrow_schema(leaves)}
        return self._files.with_folders(pa.table(joined), shard, wanted)

    def _tables(self, shard: int, small: Sequence[SmallFile], rows: Ids) -> list[pa.Table]:
        """Reads all small files at once, and decodes one after the other."""
        ends = np.cumsum([file.size for file in small])
        begins = (ends - [file.size for file in small]).tolist()
        out = np.empty(int(ends[-1]), dtype=np.uint8)
        offset, length = (np.concatenate([getattr(file, name) for file in small]) for name in ("offset", "length"))
        at = [begin + 4 + np.cumsum(file.length) - file.length for begin, file in zip(begins, small, strict=True)]
        shards, limits = self._files.shards, self._files.limits
        self._files.read(shards, np.full_like(offset, shard), offset, length, out, np.concatenate(at))
        finished = [file.finish(out[begin : begin + file.size]) for begin, file in zip(begins, small, strict=True)]
        check_unpacked(sum(size for _, size in finished), int(shards.sizes[shard]), limits, shards.path(shard))
        verify = self._files.verify
        return [file.decode(buffer, rows, verify=verify) for file, (buffer, _) in zip(small, finished, strict=True)]


def _narrowed(field: pa.Field, below: dict[str, Any]) -> pa.Field:
    """A field with only those parts of structs; KeyError for a column of several leaves that is no struct."""
    if not pa.types.is_struct(field.type):
        while below:
            if len(below) > 1:
                raise KeyError(field.name)
            (below,) = below.values()
        return field
    return field.with_type(pa.struct([_narrowed(field.type.field(name), part) for name, part in below.items()]))


def _joined(parts: list[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray:
    """One column of parts of it that were read apart: structs with some of its fields each."""
    return parts[0] if len(parts) == 1 else pa.chunked_array([_merged([one_array(part) for part in parts], kind)])


def _merged(parts: list[pa.Array], kind: pa.DataType) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    found = [
        _merged([part.field(field.name) for part in parts if part.type.get_field_index(field.name) >= 0], field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(found, fields=list(kind), mask=parts[0].is_null())
