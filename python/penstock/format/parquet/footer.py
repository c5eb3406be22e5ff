"""What the footer of a Parquet file says of the columns that are asked for: where they lie, how many values and nulls, between which bytes.

pyarrow ends the process where the bounds in a footer are damaged, so it is read natively (rust/src/parquet).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.core.kernels import ParquetFooter

#: Larger footers are not read: nothing is ruled out by them, and their pages are not found.
_FOOTER_BYTES = 64 << 20
_MAGIC = b"PAR1"

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


@dataclass(frozen=True)
class RowGroup:
    """A row group, or neighbouring rows of one: its rows, and what is said of the columns that were asked for, by the path of names."""

    rows: int
    columns: Mapping[Path, ColumnChunk]


def read_footer(file: pa.NativeFile, wanted: Sequence[Path]) -> ParquetFooter | None:
    """The footer of a file, with the columns and fields of these names and what lies inside them.

    None for one that is too large, or is none as far as can be seen here: what to say of that is for pyarrow, which reads it as well.
    """
    footer = _footer(file)
    try:
        return None if footer is None else ParquetFooter(footer, [list(path) for path in wanted])
    except ValueError:
        return None


def row_groups(footer: ParquetFooter, names: Collection[str]) -> list[RowGroup]:
    """What a footer says of the columns of these names, for every row group."""
    leaves = [(number, leaf) for number, leaf in enumerate(footer.leaves) if leaf[0][0] in names]
    found = []
    for group, rows in enumerate(footer.rows.tolist()):
        numbers = footer.chunks(group)
        columns = {}
        for number, (path, kind, _, _) in leaves:
            values, nulls = numbers[number, 4:6].tolist()
            said = None if nulls < 0 else nulls
            columns[tuple(path)] = ColumnChunk(kind, values, said, *footer.bounds(group, number))
        found.append(RowGroup(rows, columns))
    return found


def _footer(file: pa.NativeFile) -> bytes | None:
    size = file.size()
    if size < 12:
        return None
    file.seek(size - 8)
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > min(size - 12, _FOOTER_BYTES):
        return None
    file.seek(size - 8 - length)
    return bytes(file.read(length))
