"""CSV and TSV (RFC 4180): every record is a sample; values are parsed by Arrow, a batch at a time, with types fixed beforehand.

Numbers and booleans are what the first records say; everything else, dates included, is text. Whole numbers are int64, or uint64 where
they are larger; those that neither holds are refused, since as floats they would lose digits. Quotes hold delimiters and newlines, two
of them stand for one; lines that are empty are no records.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Ids, Spans, Spec, is_bytes, is_text
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.files.byte_ranges import ByteRanges, read_ranges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.core.warnings import warn
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.records.lines import LineStyle, first_lines, open_lines
from penstock.source.selection import null_rules
from penstock.source.tables.table import TableColumn, choose_columns, columns_of, with_nulls

_NEWLINE = np.frombuffer(b"\n", dtype=np.uint8)
#: What stands for no value; "nan" is a number.
_NULLS = ["", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null"]
#: float64 holds every whole number up to this exactly.
_EXACT = 1 << 53
#: Digits of whole numbers that are looked at.
_DIGITS = 40
#: Excel's note of the delimiter, before the header.
_EXCEL_NOTE = re.compile(r'"?sep=(.?)"?')
#: What a header of one name is looked at for: the delimiters that people use.
_DELIMITERS = ";\t|,"
_REPAIR = "repair the record"
_RETYPE = "repair the record, or give the column its type: penstock.Column(feature=…, dtype='string')"
_RECODE = "convert the file to UTF-8, for example with iconv -f latin1 -t utf-8, or take the bytes: penstock.Column(feature=…, dtype='bytes')"
#: A field of so many bytes is text: Arrow would put all of it into its complaint that it is no number.
_LONGEST_NUMBER = 1 << 16
#: A header of more bytes is none.
_LONGEST_HEADER_BYTES = 16 << 20
#: Bytes of a field that an error shows.
_SHOWN = 80


@dataclass(frozen=True)
class CsvDialect:
    """How fields stand in a record."""

    delimiter: str
    header: bool
    quotes: bool

    @property
    def parse_options(self) -> arrow_csv.ParseOptions:
        """For Arrow."""
        quote = '"' if self.quotes else False
        return arrow_csv.ParseOptions(delimiter=self.delimiter, quote_char=quote, newlines_in_values=self.quotes)


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
        return replace(self, columns=with_nulls(self.columns, _is_number))

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
        convert = arrow_csv.ConvertOptions(
            column_types=self.types,
            include_columns=list(dict.fromkeys(column.path[0] for column in self.columns)),
            null_values=_NULLS,
            strings_can_be_null=False,
        )
        try:
            table = read_table(data, self.names, self.dialect, convert)
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == len(records) else None

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
                convert = arrow_csv.ConvertOptions(column_types=self.types, null_values=_NULLS)
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


def joined(records: Spans) -> pa.Buffer:
    """The bytes of records one behind the other, each with a newline more, since the last of a file may have none."""
    rows = len(records)
    which, offset, length = (np.zeros(2 * rows, dtype=np.int64) for _ in range(3))
    which[::2], offset[::2], length[::2] = records.which, records.offset, records.length
    which[1::2], length[1::2] = len(records.buffers), 1
    out = np.empty(int(length.sum()), dtype=np.uint8)
    kernels.join_spans([*records.buffers, _NEWLINE], which, offset, length, out)
    return pa.py_buffer(out)


def has_long(records: Spans) -> bool:
    """Whether a record is so long that one of its fields may be no number."""
    return len(records) > 0 and int(records.length.max()) > _LONGEST_NUMBER


def long_columns(data: pa.Buffer, names: Sequence[str], dialect: CsvDialect) -> set[str]:
    """The columns that have a field which is too long for a number; none if the records are no table."""
    text = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()), check_utf8=False)
    try:
        table = read_table(data, names, dialect, text)
    except pa.ArrowInvalid:
        return set()
    lengths = {name: pc.max(pc.binary_length(table[name])).as_py() or 0 for name in table.column_names}
    return {name for name, length in lengths.items() if length > _LONGEST_NUMBER}


def shortened(error: Exception) -> str:
    """What Arrow says, without most of the field that it shows."""
    text = str(error)
    return text if len(text) <= 4 * _SHOWN else f"{text[: 2 * _SHOWN]}…{text[-_SHOWN:]}"


def read_table(
    data: pa.Buffer, names: Sequence[str], dialect: CsvDialect, convert: arrow_csv.ConvertOptions | None = None
) -> pa.Table:
    """Records without a header as a table; ArrowInvalid for what is no such table."""
    block = min(len(data) + 1, (1 << 31) - 1)
    read = arrow_csv.ReadOptions(use_threads=False, column_names=list(names), block_size=max(block, 1 << 16))
    return arrow_csv.read_csv(pa.BufferReader(data), read, dialect.parse_options, convert)


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
    names = _names(manifest, read, records, options, dialect)
    types = _types(manifest, records, names, dialect)
    whole = _whole_numbers(records, types, dialect)
    types |= {name: pa.uint64() for name, numbers in whole.items() if numbers.are_unsigned}
    columns = choose_columns(pa.schema(list(types.items())), options, shards.path(0))
    for column in columns:
        if column.path[0] in whole and not column.asked:
            whole[column.path[0]].check(column, shards.path(0))
    missing = _missing(records, types, dialect)
    rules = null_rules([column.name for column in columns], options.nulls, options.columns)
    columns = with_nulls(
        columns, lambda column: column.path[0] in missing or (_is_number(column) and rules[column.name] != "error")
    )
    for column in columns:
        types[column.path[0]] = _arrow_type(column)
    return CsvRecords(manifest, columns, names, dialect, types)


def _missing(records: Spans, types: dict[str, pa.DataType], dialect: CsvDialect) -> set[str]:
    """The columns of numbers that have a null in the first records; text has none."""
    numbers = {name: kind for name, kind in types.items() if not is_text(kind)}
    if not numbers:
        return set()
    convert = arrow_csv.ConvertOptions(column_types=numbers, include_columns=[*numbers], null_values=_NULLS)
    table = read_table(joined(records), list(types), dialect, convert)
    return {name for name in table.column_names if table[name].null_count}


def _is_number(column: TableColumn) -> bool:
    """Whether a field can be missing: text never is."""
    return column.field.dtype not in ("string", "bytes")


def _dialect(shards: Shards, options: Options) -> CsvDialect:
    own = options.own
    delimiter = own.get("delimiter", "\t" if ".tsv" in shards.path(0).lower() else ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise PlanError(f"read: delimiter={delimiter!r}: it is one ASCII character, and no quote or line end")
    return CsvDialect(delimiter, bool(own.get("header", True)), bool(own.get("quotes", True)))


def _names(manifest: Manifest, read: ByteRanges, records: Spans, options: Options, dialect: CsvDialect) -> list[str]:
    """The columns' names, checked against every file's header."""
    first = int(manifest.shard_of(np.zeros(1, dtype=np.int64))[0])
    if not dialect.header:
        names = [f"f{number}" for number in range(len(_fields(records[0], dialect, manifest.place(0))))]
    else:
        headers = _headers(manifest, read)
        names = _fields(headers[first], dialect, manifest.shards.path(first))
        _check_excel_note(headers[first], manifest.shards.path(first))
        if len(names) == 1 and "delimiter" not in options.own and not has_long(records):
            found = _fields(records[0], dialect, manifest.place(0))
            _warn_of_one_name(names[0], found, dialect, manifest.shards.path(first))
        for shard, header in headers.items():
            if header != headers[first] and (other := _fields(header, dialect, manifest.shards.path(shard))) != names:
                raise DataError(
                    f"{manifest.shards.path(shard)}: the header is {other}, that of {manifest.shards.path(first)} is {names}; "
                    "read files of one kind together, or pass header=False where they have none"
                )
    given = options.own.get("names")
    if given is not None:
        if len(given) != len(names):
            raise PlanError(f"read: names has {len(given)} names, {manifest.place(0)} has {len(names)} fields")
        names = [str(name) for name in given]
    if len(set(names)) < len(names):
        raise PlanError(f"{manifest.shards.path(first)}: columns with the same name: {names}; pass names=[…]")
    return names


def _check_excel_note(header: bytes, where: str) -> None:
    """DataError where the first line tells Excel the delimiter, and the header is the next."""
    line = header.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").strip("\r\n")
    if note := _EXCEL_NOTE.fullmatch(line):
        raise DataError(
            f"{where}: the first line is {line!r}, which tells Excel the delimiter, and is no header; "
            f"remove the line (tail -n +2), and pass delimiter={note[1]!r}"
        )


def _warn_of_one_name(name: str, record: list[str], dialect: CsvDialect, where: str) -> None:
    """A warning where header and first record hold another delimiter equally often."""
    for other in _DELIMITERS.replace(dialect.delimiter, ""):
        if 0 < name.count(other) == "".join(record).count(other):
            warn(
                f"{where}: one column, named {name!r}; if its fields end at {other!r}, pass delimiter={other!r}, "
                f"and delimiter={dialect.delimiter!r} if they do not"
            )
            return


def _headers(manifest: Manifest, read: ByteRanges) -> dict[int, bytes]:
    """What stands before the first record of every file that has one."""
    assert manifest.offset is not None
    shards = np.flatnonzero(np.diff(manifest.first_sample) > 0)
    length = manifest.offset[manifest.first_sample[shards]]
    if (length > _LONGEST_HEADER_BYTES).any():
        longest = int(np.argmax(length))
        raise DataError(
            f"{manifest.shards.path(int(shards[longest]))}: a header of {length[longest]:,} bytes; repair the file, or pass header=False"
        )
    found = read_ranges(read, manifest.stored, shards, np.zeros_like(shards), length)
    return {shard: found[number] for number, shard in enumerate(shards.tolist())}


def _fields(record: bytes, dialect: CsvDialect, where: str) -> list[str]:
    text = record.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").strip("\r\n")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quotes else csv.QUOTE_NONE
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    try:
        return next(csv.reader([text], delimiter=dialect.delimiter, quoting=quoting), [""])
    except csv.Error as error:
        raise DataError(f"{where}: {text[:40]!r} is no record of CSV ({error}); repair the file") from None


def _types(manifest: Manifest, records: Spans, names: list[str], dialect: CsvDialect) -> dict[str, pa.DataType]:
    """Numbers and booleans as the first records have them; everything else is text."""
    long = long_columns(joined(records), names, dialect) if has_long(records) else set()
    convert = arrow_csv.ConvertOptions(null_values=_NULLS, column_types=dict.fromkeys(long, pa.string()))
    try:
        schema = read_table(joined(records), names, dialect, convert).schema
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{_first_odd(manifest, records, names, dialect)}: no record of {len(names)} fields as the first "
            f"({re.sub('Row #[0-9]+: ', '', shortened(error))}); repair the file, or pass its delimiter=, header= or quotes="
        ) from None
    return {
        name: kind if _is_numeric(kind) else pa.string() for name, kind in zip(schema.names, schema.types, strict=True)
    }


@dataclass(frozen=True, kw_only=True)
class WholeNumbers:
    """A column of which the first records hold nothing but whole numbers; `marked` is the first that begins with + or 0, which it loses."""

    least: int
    most: int
    is_float: bool
    marked: str | None

    @property
    def are_unsigned(self) -> bool:
        """Whether uint64 holds them where int64 does not."""
        plus = (self.marked or "").startswith("+")
        return self.is_float and not plus and self.least >= 0 and (1 << 63) <= self.most < 1 << 64

    def check(self, column: TableColumn, where: str) -> None:
        """PlanError if the numbers would lose digits; a warning if they lose what stands before them."""
        feature = f"penstock.Column(feature={column.feature!r}, dtype=…)"
        if self.is_float and not self.are_unsigned and max(-self.least, self.most) > _EXACT:
            raise PlanError(
                f"{where}: column {column.feature!r} holds whole numbers from {self.least} to {self.most}, whose digits no number keeps; "
                f"say what they are: columns={{{column.name!r}: {feature}}} with dtype 'string', or 'float64', which rounds"
            )
        if self.marked is not None:
            warn(
                f"{where}: column {column.feature!r} becomes {column.field}, and {self.marked!r} loses what it begins with; keep it with "
                f"columns={{{column.name!r}: {feature}}} and dtype 'string', or name {str(column.field)!r} to say that it is not needed"
            )


def _whole_numbers(records: Spans, types: dict[str, pa.DataType], dialect: CsvDialect) -> dict[str, WholeNumbers]:
    """The columns of nothing but whole numbers, by name."""
    names = [name for name, kind in types.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
    if not names:
        return {}
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names,
        null_values=_NULLS,
        strings_can_be_null=True,
    )
    table = read_table(joined(records), list(types), dialect, convert)
    found = {name: _whole(table[name], types[name]) for name in names}
    return {name: numbers for name, numbers in found.items() if numbers is not None}


def _whole(texts: pa.ChunkedArray, kind: pa.DataType) -> WholeNumbers | None:
    texts = pc.utf8_trim_whitespace(texts.drop_null())
    if not len(texts) or not pc.all(pc.match_substring_regex(texts, r"^([+-]?[0-9]+|-?0[xX][0-9a-fA-F]+)$")).as_py():
        return None
    marked = texts.filter(pc.match_substring_regex(texts, r"^\+|^-?0[0-9xX]"))
    numbers = [0] if pa.types.is_integer(kind) else [int(text) for text in texts.to_pylist() if len(text) <= _DIGITS]
    too_long = len(numbers) < len(texts) and not pa.types.is_integer(kind)
    return WholeNumbers(
        least=min(numbers, default=0),
        most=10**_DIGITS if too_long else max(numbers, default=0),
        is_float=not pa.types.is_integer(kind),
        marked=marked[0].as_py() if len(marked) else None,
    )


def _first_odd(manifest: Manifest, records: Spans, names: list[str], dialect: CsvDialect) -> str:
    """The place of the first record that has another number of fields."""
    for row in range(len(records)):
        try:
            read_table(joined(records.take(np.array([row]))), names, dialect)
        except pa.ArrowInvalid:
            return manifest.place(row)
    return manifest.shards.path(0)


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


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
