"""How many nulls columns have, by what footers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow.parquet as pq

from penstock.format.parquet.pages import PagedFile
from penstock.source.dotted_names import Path
from penstock.source.tables.table import TableColumn

#: By the path of a column, how many nulls it has, those in lists and empty lists among them; None where nothing says so.
Nulls = Mapping[Path, int | None]


def total(said: Iterable[int | None]) -> int | None:
    """All of them together; None if one is not known: total([1, None]) is None."""
    found = [*said]
    return None if None in found else sum(one or 0 for one in found)


def nulls_in(
    file: pq.ParquetFile, paged: PagedFile | None, groups: Sequence[int], columns: Sequence[TableColumn]
) -> Nulls:
    """What is said of columns in these row groups."""
    schema = file.metadata.schema
    leaves = [(tuple(schema.column(number).path.split(".")), number) for number in range(len(schema))]
    optional = {number for _, number in leaves if schema.column(number).max_definition_level}
    found: dict[Path, int | None] = {}
    for column in columns:
        mine = [(path, number) for path, number in leaves if _lies_in(path, column.path) and number in optional]
        found[column.path] = total(_in_group(file, paged, group, mine) for group in groups) if mine else 0
    return found


def _lies_in(path: Sequence[str], column: Path) -> bool:
    """Whether a leaf is of a column: lists have steps of their own in its path."""
    steps = iter(path)
    return path[0] == column[0] and all(name in steps for name in column)


def _in_group(
    file: pq.ParquetFile, paged: PagedFile | None, group: int, leaves: Sequence[tuple[Sequence[str], int]]
) -> int | None:
    if paged is not None:
        counts = paged.footer.chunks(group, paged.footer.leaves([tuple(path) for path, _ in leaves])).nulls.tolist()
        if len(counts) == len(leaves):
            return total(None if count < 0 else count for count in counts)
    said = [file.metadata.row_group(group).column(number).statistics for _, number in leaves]
    return total(one.null_count if one is not None and one.has_null_count else None for one in said)
