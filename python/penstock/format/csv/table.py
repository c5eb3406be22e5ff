"""Records of CSV as Arrow's tables: the one place that calls Arrow's parser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from penstock.core import kernels
from penstock.core.columns.spec import Spans
from penstock.source.tables.table import TableColumn

_NEWLINE = np.frombuffer(b"\n", dtype=np.uint8)
#: What stands for no value; "nan" is a number.
NULLS = ["", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null"]
#: A field of so many bytes is text: Arrow would put all of it into its complaint that it is no number.
_LONGEST_NUMBER = 1 << 16
#: Bytes of a field that an error shows.
_SHOWN = 80


@dataclass(frozen=True)
class CsvDialect:
    """How fields stand in a record."""

    delimiter: str
    header: bool
    quotes: bool
    na_values: tuple[str, ...] = ()
    decimal: str = "."

    def __repr__(self) -> str:
        """As digests have it, which do not change where nothing else is said."""
        more = "".join(
            f", {name}={value!r}"
            for name, value, usual in (("na_values", self.na_values, ()), ("decimal", self.decimal, "."))
            if value != usual
        )
        return f"CsvDialect(delimiter={self.delimiter!r}, header={self.header!r}, quotes={self.quotes!r}{more})"

    def convert_options(self, **said: Any) -> arrow_csv.ConvertOptions:
        """What values mean, for Arrow."""
        return arrow_csv.ConvertOptions(null_values=[*NULLS, *self.na_values], decimal_point=self.decimal, **said)

    def may_be_missing(self, column: TableColumn) -> bool:
        """Whether a field can be missing: a number by what usually says so, text by what the user named."""
        return column.field.dtype != "bytes" and (column.field.dtype != "string" or bool(self.na_values))

    def with_missing_texts(self, table: pa.Table) -> pa.Table:
        """A table whose texts are null where the user said so; numbers are already."""
        if self.na_values:
            named = pa.array(self.na_values, pa.string())
            for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
                if pa.types.is_string(column.type):
                    kept = pc.if_else(pc.is_in(column, value_set=named), pa.scalar(None, pa.string()), column)
                    table = table.set_column(place, name, kept)
        return table

    @property
    def parse_options(self) -> arrow_csv.ParseOptions:
        """For Arrow."""
        quote = '"' if self.quotes else False
        return arrow_csv.ParseOptions(delimiter=self.delimiter, quote_char=quote, newlines_in_values=self.quotes)


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
