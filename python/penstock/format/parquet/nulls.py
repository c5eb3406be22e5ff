"""Whether columns have nulls, by what footers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow.parquet as pq

from penstock.format.parquet.pages import PagedFile
from penstock.source.dotted_names import Path
from penstock.source.tables.table import TableColumn

#: By the path of a column, whether it has nulls; None where nothing says so. Columns that are not in a file have none there.
HasNulls = Mapping[Path, bool | None]


def any_of(said: Iterable[bool | None]) -> bool | None:
    """Whether one of them is true; None if none is, and one is not known: any_of([False, None]) is None."""
    found = {*said}
    return True if True in found else None if None in found else False


def has_nulls(
    file: pq.ParquetFile, paged: PagedFile | None, groups: Sequence[int], columns: Sequence[TableColumn]
) -> HasNulls:
    """What is said of columns in these row groups."""
    schema = file.metadata.schema
    leaves = [(tuple(schema.column(number).path.split(".")), number) for number in range(len(schema))]
    optional = {number for _, number in leaves if schema.column(number).max_definition_level}
    found: dict[Path, bool | None] = {}
    for column in columns:
        mine = [(path, number) for path, number in leaves if _lies_in(path, column.path) and number in optional]
        found[column.path] = any_of(_in_group(file, paged, group, mine) for group in groups) if mine else False
    return found


def _lies_in(path: Sequence[str], column: Path) -> bool:
    """Whether a leaf is of a column: lists have steps of their own in its path."""
    steps = iter(path)
    return path[0] == column[0] and all(name in steps for name in column)


def _in_group(
    file: pq.ParquetFile, paged: PagedFile | None, group: int, leaves: Sequence[tuple[Sequence[str], int]]
) -> bool | None:
    if paged is not None:
        counts = paged.footer.chunks(group, paged.footer.leaves([tuple(path) for path, _ in leaves])).nulls.tolist()
        if len(counts) == len(leaves):
            return any_of(None if count < 0 else count > 0 for count in counts)
    said = [file.metadata.row_group(group).column(number).statistics for _, number in leaves]
    return any_of(one.null_count > 0 if one is not None and one.has_null_count else None for one in said)
