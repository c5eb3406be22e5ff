"""CSV and TSV (RFC 4180): every record is a sample; values are parsed by Arrow, a batch at a time, with types fixed beforehand.

Numbers and booleans are what the first records say; everything else, dates included, is text. Whole numbers are int64, or uint64 where
they are larger; those that neither holds are refused, since as floats they would lose digits. Quotes hold delimiters and newlines, two
of them stand for one; lines that are empty are no records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from penstock.core.columns.spec import Columns, Ids, Spans, Spec, is_bytes, is_text
from penstock.core.errors import PlanError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.messages import quoted
from penstock.core.verbs.options import Options
from penstock.format.csv.header import names_of
from penstock.format.csv.table import (
    CsvDialect,
    has_long,
    joined,
    long_columns,
    read_table,
    shortened,
)
from penstock.format.csv.types import types_of, whole_numbers, with_nulls_in
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.records.lines import LineStyle, first_lines, open_lines
from penstock.source.selection import null_rules
from penstock.source.tables.table import TableColumn, choose_columns, columns_of, with_nulls

_REPAIR = "repair the record"
_RETYPE = "repair the record, or give the column its type: penstock.Column(feature=…, dtype='string')"
_RECODE = "convert the file to UTF-8, for example with iconv -f latin1 -t utf-8, or take the bytes: penstock.Column(feature=…, dtype='bytes')"


@dataclass(frozen=True, eq=False)
class CsvRecords:
    """Columns of CSV records: arrays of numbers, Arrow arrays of text."""

    manifest: Manifest
    columns: tuple[TableColumn, ...]
    names: list[str]
    dialect: CsvDialect
    types: dict[str, pa.DataType] = field(repr=False)
    access: Access = Access.RECORDS

    @property
    def spec(self) -> Spec:
        """The selected columns."""
        return {column.name: column.field for column in self.columns}

    def only(self, names: Sequence[str]) -> CsvRecords:
        """The same records, of which only these columns are parsed."""
        known = {column.name: column for column in self.columns}
        return replace(self, columns=tuple(known[name] for name in names))

    def seeing_nulls(self) -> CsvRecords:
        """See `NullSource`."""
        return replace(self, columns=with_nulls(self.columns, self.dialect.may_be_missing))

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`; RowError for the first record with another number of fields or a value of another type."""
        table = self._read(records)
        if table is None:
            raise self._first_failure(records)
        if any(pc.any(pc.is_inf(table[name])).as_py() for name in self._floats):
            self._check_infinite(records, table)
        return columns_of(table, self.columns)

    @property
    def _floats(self) -> list[str]:
        """The columns that are read as floats, by the file's names."""
        chosen = dict.fromkeys(column.path[0] for column in self.columns)
        return [name for name in chosen if pa.types.is_floating(self.types[name])]

    def _check_infinite(self, records: Spans, table: pa.Table) -> None:
        """RowError for the first infinite number that the file does not call so: 1e400."""
        names = self._floats
        texts = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), include_columns=names)
        written = read_table(joined(records), self.names, self.dialect, texts)
        for name in names:
            said = pc.match_substring_regex(written[name], r"(?i)^\s*[+-]?inf")
            lost = pc.fill_null(pc.and_not(pc.is_inf(table[name]), said), False).to_numpy()
            if lost.any():
                row = int(np.argmax(lost))
                found = f"column {name!r} is {written[name][row]}, which is too large for {np.dtype(self.types[name].to_pandas_dtype()).name}"
                raise RowError(row, found, "give the column another type: penstock.Column(feature=…, dtype='string')")

    def _read(self, records: Spans) -> pa.Table | None:
        """The records as a table; None if they are not as many rows of the right types."""
        data = joined(records)
        if has_long(records) and long_columns(data, self.names, self.dialect) & self._numbers:
            return None
        convert = self.dialect.convert_options(
            column_types=self.types,
            include_columns=list(dict.fromkeys(column.path[0] for column in self.columns)),
            strings_can_be_null=False,
        )
        try:
            table = read_table(data, self.names, self.dialect, convert)
        except pa.ArrowInvalid:
            return None
        return self.dialect.with_missing_texts(table) if table.num_rows == len(records) else None

    @property
    def _numbers(self) -> set[str]:
        """The columns in the file that are read and are no text."""
        read = {column.path[0] for column in self.columns}
        return {name for name in read if not is_text(self.types[name]) and not is_bytes(self.types[name])}

    def _first_failure(self, records: Spans) -> RowError:
        """What is wrong with the first bad record: they are tried one by one."""
        for row in range(len(records)):
            one = records.take(np.array([row]))
            if self._read(one) is None:
                if has_long(one) and (long := long_columns(joined(one), self.names, self.dialect) & self._numbers):
                    name = min(long)
                    return RowError(
                        row,
                        f"column {name!r} is {self.types[name]}, and a field of {one.length[0]:,} bytes or less stands there",
                        _RETYPE,
                    )
                convert = self.dialect.convert_options(column_types=self.types)
                try:
                    rows = read_table(joined(one), self.names, self.dialect, convert).num_rows
                    found = f"a record that is {rows} rows: a line ends inside it"
                except pa.ArrowInvalid as error:
                    found = re.sub(r"Row #\d+: ", "", shortened(error))
                return RowError(row, found, _remedy(found))
        return RowError(0, "records that are right one by one, but not together: quotes are not closed", _REPAIR)


def _remedy(found: str) -> str:
    if "invalid UTF8" in found:
        return _RECODE
    return _RETYPE if "conversion error" in found else _REPAIR


def open_csv(shards: Shards, read: ByteRanges, options: Options) -> CsvRecords:
    """Indexes the files, and learns names and types of columns from the first file.

    Raises SourceError if there is no record, DataError for files with other headers, PlanError for columns that cannot be.
    """
    dialect = _dialect(shards, options)
    quoted = ord(dialect.delimiter) if dialect.quotes else None
    style = LineStyle(blank="empty", quoted=quoted, header=dialect.header)
    settings = f"{dialect} {options.own.get('names')}"
    manifest = open_lines(shards, read, options, style, "csv", settings)
    records = first_lines(manifest, read)
    names = names_of(manifest, read, records, options, dialect)
    types = types_of(manifest, records, names, dialect)
    whole = whole_numbers(records, types, dialect)
    types |= {name: pa.uint64() for name, numbers in whole.items() if numbers.are_unsigned}
    columns = choose_columns(pa.schema(list(types.items())), options, shards.path(0))
    for column in columns:
        if column.path[0] in whole and not column.asked:
            whole[column.path[0]].check(column, shards.path(0))
    missing = with_nulls_in(records, types, dialect)
    rules = null_rules([column.name for column in columns], options.nulls, options.columns)
    columns = with_nulls(
        columns,
        lambda column: column.path[0] in missing or (dialect.may_be_missing(column) and rules[column.name] != "error"),
    )
    for column in columns:
        types[column.path[0]] = _arrow_type(column)
    return CsvRecords(manifest, columns, names, dialect, types)


def _dialect(shards: Shards, options: Options) -> CsvDialect:
    own = options.own
    delimiter = own.get("delimiter", "\t" if ".tsv" in shards.path(0).lower() else ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise PlanError(f"read: delimiter={delimiter!r}: it is one ASCII character, and no quote or line end")
    missing, decimal = own.get("na_values", ()), own.get("decimal", ".")
    if (
        isinstance(missing, str)
        or not isinstance(missing, Sequence)
        or not all(isinstance(one, str) for one in missing)
    ):
        raise PlanError(
            f"read: na_values={quoted(missing)}; pass a list of texts that stand for a missing value, as ['-', 'unknown']"
        )
    if decimal not in (".", ","):
        raise PlanError(f"read: decimal={quoted(decimal)}; choose '.' or ','")
    if decimal == delimiter:
        raise PlanError(
            "read: decimal=',' and fields that are parted by commas cannot be told apart; pass delimiter=';', as such files have it"
        )
    return CsvDialect(delimiter, bool(own.get("header", True)), bool(own.get("quotes", True)), tuple(missing), decimal)


def _arrow_type(column: TableColumn) -> pa.DataType:
    if column.field.shape:
        raise PlanError(
            f"columns[{column.name!r}]: a field of a CSV file is one value; shape {column.field.shape} is not"
        )
    texts: dict[str, Any] = {"string": pa.string(), "bytes": pa.binary(), "bool": pa.bool_()}
    if column.field.dtype in texts:
        return texts[column.field.dtype]
    if column.field.dtype in ("float16", "bfloat16"):
        return pa.float32()
    return pa.from_numpy_dtype(column.field.numpy_dtype)
