"""Parquet files, and how row groups of them are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.columns.categories import Categories, has_categories
from penstock.core.columns.repeated_values import SMALL_BYTES, written_bytes
from penstock.core.columns.spec import is_list
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.format.parquet.layout import Path
from penstock.source.tables.hive import Folders
from penstock.source.tables.ranged_file import open_shard
from penstock.source.tables.table import arrow_errors, check_names, check_unpacked

NO_PARQUET = (
    "it is damaged, encrypted, no Parquet file, or of a layout that Arrow does not read (lists of lists by Spark's writeLegacyFormat): "
    "write it again"
)
DAMAGED = "the file is damaged, write it again"


@dataclass(frozen=True, eq=False)
class ParquetFiles:
    """Parquet files, and how they are read. plain_bytes: text that repeats is left as a dictionary where it may take more."""

    shards: Shards
    read: ByteRanges
    limits: Limits
    verify: bool
    folders: Folders = field(default_factory=Folders)
    plain_bytes: int = SMALL_BYTES

    def place(self, shard: int, group: int) -> str:
        """A row group, for messages."""
        return f"{self.shards.path(shard)}, row group {group}"

    def schema(self, file: pq.ParquetFile) -> pa.Schema:
        """The columns of a file, and those that its folders give."""
        return pa.schema([*_without_views(file.schema_arrow), *self.folders.schema])

    def stored(self, paths: Sequence[Path]) -> list[Path]:
        """Those of these columns that the files hold themselves."""
        return [path for path in paths if path[0] not in self.folders.values]

    def with_folders(self, table: pa.Table, shard: int, paths: Sequence[Path]) -> pa.Table:
        """A table of the stored ones of these columns, with the others."""
        return self.folders.select([path[0] for path in paths]).add_to(table, shard)

    def table(self, shard: int, file: pq.ParquetFile, group: int, paths: Sequence[Path], rows: int) -> pa.Table:
        """These columns of a row group of so many rows, and fields of its structs."""
        file = self._with_dictionaries(shard, file, group, paths)
        table = file.read_row_group(group, columns=[".".join(path) for path in self.stored(paths)])
        self._check_written(shard, group, table)
        table.validate(full=True)
        if table.num_rows != rows:
            raise pa.ArrowInvalid(f"{table.num_rows:,} rows where the footer says {rows:,}")
        plain = _without_views(table.schema)
        return self.with_folders(table if plain.equals(table.schema) else table.cast(plain), shard, paths)

    def categories(self, path: Path) -> Iterator[Categories]:
        """The categories of a column in each row group."""
        if len(path) > 1 or not self.stored([path]):
            return
        kinds = [self.open(shard).schema_arrow.field(path[0]).type for shard in range(len(self.shards))]
        for shard in range(len(self.shards) if has_categories(kinds, self.shards.path) else 0):
            file = self.open(shard)
            for group in range(file.metadata.num_row_groups):
                with arrow_errors(self.place(shard, group), DAMAGED):
                    chunks = file.read_row_group(group, columns=[path[0]])[path[0]].chunks
                for chunk in chunks:
                    yield Categories.of(chunk, self.place(shard, group))

    def _check_written(self, shard: int, group: int, table: pa.Table) -> None:
        """DataError for lists of text whose values would fill the memory, each written out."""
        size = sum(
            written_inside(chunk)
            for column in table.columns
            if pa.types.is_nested(column.type)
            for chunk in column.chunks
        )
        check_unpacked(size, int(self.shards.sizes[shard]), self.limits, self.place(shard, group))

    def _with_dictionaries(self, shard: int, file: pq.ParquetFile, group: int, paths: Sequence[Path]) -> pq.ParquetFile:
        """The same file, whose reader leaves text as dictionaries where it repeats so often that it could fill the memory."""
        stored = {field.name for field in file.schema_arrow if pa.types.is_dictionary(field.type)}
        paths = [path for path in self.stored(paths) if path[0] not in stored]
        names = repeating(file.metadata, group, paths, self.plain_bytes)
        if not names:
            return file
        return pq.ParquetFile(
            self.bytes_of(shard),
            metadata=file.metadata,
            read_dictionary=names,
            pre_buffer=True,
            page_checksum_verification=self.verify,
        )

    def bytes_of(self, shard: int) -> pa.NativeFile:
        """A file as bytes; DataError if there are none."""
        if self.shards.sizes[shard] == 0:
            raise DataError(f"{self.shards.path(shard)}: the file is empty; remove it or write it again")
        return open_shard(self.shards, shard, self.read)

    def open(self, shard: int, opened: pa.NativeFile | None = None) -> pq.ParquetFile:
        """A file's reader; DataError if it is none."""
        opened = opened or self.bytes_of(shard)
        with arrow_errors(self.shards.path(shard), NO_PARQUET):
            file = pq.ParquetFile(opened, pre_buffer=True, page_checksum_verification=self.verify)
            check_names(file.schema_arrow)  # names that are not UTF-8 are reported here
            return file


def repeating(metadata: pq.FileMetaData, group: int, paths: Sequence[Path], plain_bytes: int) -> list[str]:
    """The columns of text, of these, that take fewer bytes than plain values would, and could be larger than so many written out.

    Each plain value takes four bytes for its length alone.
    """
    row_group, wanted = metadata.row_group(group), {path[0] for path in paths}
    found = []
    for number in range(row_group.num_columns):
        column = row_group.column(number)
        if column.path_in_schema.partition(".")[0] not in wanted or column.physical_type != "BYTE_ARRAY":
            continue
        values, size = column.num_values, column.total_uncompressed_size
        if size < 4 * values and values * size > plain_bytes:
            found.append(column.path_in_schema)
    return found


def written_inside(array: pa.Array) -> int:
    """Bytes of the values of dictionaries in lists and structs, each written out."""
    if pa.types.is_dictionary(array.type):
        numbers = array.indices.drop_null().to_numpy(zero_copy_only=False)
        return written_bytes(numbers, array.dictionary)
    if pa.types.is_struct(array.type):
        return sum(written_inside(array.field(number)) for number in range(array.type.num_fields))
    return written_inside(array.flatten()) if is_list(array.type) else 0


def _without_views(schema: pa.Schema) -> pa.Schema:
    """A schema whose text and bytes lie in one piece each, since few functions take views, which arrow-rs asks for."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema], schema.metadata)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_plain(part.type)) for part in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = kind.value_field.with_type(_plain(kind.value_type))
        return pa.list_(inner) if pa.types.is_list(kind) else pa.large_list(inner)
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)
