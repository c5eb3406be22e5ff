"""The types of CSV's columns, by the first records: numbers and booleans as they have them, everything else is text."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.spec import Spans, is_text
from penstock.core.errors import DataError, PlanError
from penstock.core.warnings import warn
from penstock.format.csv.table import CsvDialect, has_long, joined, long_columns, read_table, shortened
from penstock.source.manifest import Manifest
from penstock.source.tables.table import TableColumn

#: float64 holds every whole number up to this exactly.
_EXACT = 1 << 53
#: Digits of whole numbers that are looked at.
_DIGITS = 40


def types_of(manifest: Manifest, records: Spans, names: list[str], dialect: CsvDialect) -> dict[str, pa.DataType]:
    """Numbers and booleans as the first records have them; everything else is text."""
    long = long_columns(joined(records), names, dialect) if has_long(records) else set()
    convert = dialect.convert_options(column_types=dict.fromkeys(long, pa.string()))
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


def whole_numbers(records: Spans, types: dict[str, pa.DataType], dialect: CsvDialect) -> dict[str, WholeNumbers]:
    """The columns of nothing but whole numbers, by name."""
    names = [name for name, kind in types.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
    if not names:
        return {}
    convert = dialect.convert_options(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names,
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


def with_nulls_in(records: Spans, types: dict[str, pa.DataType], dialect: CsvDialect) -> set[str]:
    """The columns that have a null in the first records; text has none but by `na_values`."""
    some = {name: kind for name, kind in types.items() if dialect.na_values or not is_text(kind)}
    if not some:
        return set()
    convert = dialect.convert_options(column_types=some, include_columns=[*some])
    table = dialect.with_missing_texts(read_table(joined(records), list(types), dialect, convert))
    return {name for name in table.column_names if table[name].null_count}
