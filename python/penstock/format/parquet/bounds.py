"""What footers and page indexes say of the values of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Field, field_of_type
from penstock.format.parquet.layout import ColumnChunk, RowGroup
from penstock.format.parquet.open import for_each
from penstock.format.parquet.pruning import chunk_bounds, is_certain, value_type
from penstock.source.protocol import Bounds
from penstock.source.tables.table import TableColumn

if TYPE_CHECKING:
    from penstock.format.parquet.source import Stored

#: Numbers and text that a batch has as the file has them.
_PLAIN = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "string", "bytes")  # fmt: skip


def bounds_of(stored: Stored, first_row: Sequence[int], names: Sequence[str]) -> list[Bounds]:
    """Bounds of the samples of parts: of each row group, or of pages of those that are read by pages."""
    schema = stored.paged.schema
    columns = [column for column in stored.columns if column.name in names and _is_plain(column, schema)]
    if not columns or not len(stored.parts):
        return []
    edges = np.searchsorted(stored.parts.shard, np.arange(len(stored.files.shards) + 1))

    def look(shard: int) -> list[Bounds]:
        parts = range(*edges[shard : shard + 2].tolist())
        file = stored.paged.file(shard) if parts else None
        if file is None or not file.is_plain:
            return []
        groups = file.footer.row_groups([column.path[0] for column in columns])
        found = list[Bounds]()
        for part in parts:
            found += _of_part(stored, part, int(first_row[part]), groups, columns)
        return found

    return [one for some in for_each(range(len(stored.files.shards)), look, None) for one in some]


def _of_part(
    stored: Stored, part: int, first: int, groups: Sequence[RowGroup], columns: Sequence[TableColumn]
) -> list[Bounds]:
    parts, schema = stored.parts, stored.paged.schema
    group, rows = int(parts.group[part]), int(parts.counts[part])
    whole = Bounds(first, rows, _bounds(groups[group], columns, schema))
    if not parts.by_pages[part]:
        return [whole]
    pages = stored.paged.bounds(int(parts.shard[part]), group, [column.path for column in columns])
    wanted, found = parts.wanted(part), [whole]
    for column in columns:
        begins, said = pages.get(column.path, (np.zeros(1, dtype=np.int64), []))
        cuts = np.searchsorted(wanted, begins).tolist()
        for chunk, low, high in zip(said, cuts, cuts[1:], strict=False):
            if high > low:
                of = _bounds(RowGroup(chunk.values, {column.path: chunk}), [column], schema)
                found.append(Bounds(first + low, high - low, of))
    return found


def _bounds(group: RowGroup, columns: Sequence[TableColumn], schema: pa.Schema) -> Mapping[str, tuple[Any, Any]]:
    found = {}
    for column in columns:
        chunk: ColumnChunk | None = group.columns.get(column.path)
        if chunk is None or not is_certain(group, chunk):
            continue
        its = chunk_bounds(chunk, value_type(schema.field(column.path[0]).type))
        if its is not None:
            found[column.name] = its[0].as_py(), its[1].as_py()
    return found


def _is_plain(column: TableColumn, schema: pa.Schema) -> bool:
    """Whether a batch has the values of a column as its file has them, and a missing one is a null, which meets no condition."""
    if len(column.path) > 1 or column.lists or column.asked or column.default is not None:
        return False
    kind = value_type(schema.field(column.path[0]).type)
    field = column.field.required
    return field.dtype in _PLAIN and field == Field(field.dtype) == field_of_type(kind) and not pa.types.is_temporal(kind) and not pa.types.is_decimal(kind)  # fmt: skip
