"""Which rows of Parquet files a filter keeps: its own columns are read of every row group that could hold one, and decide.

The only file that imports pyarrow.dataset, and not before there is a filter: it takes most of a second where pandas is installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from penstock.core.errors import PlanError

if TYPE_CHECKING:
    import pyarrow.dataset as pads


def expression(filters: Any, schema: pa.Schema) -> pc.Expression | None:
    """A filter as pyarrow knows it: an expression, or [(name, operator, value), …], or a list of these lists.

    Raises PlanError for what is no filter, and for columns and types that it cannot be about.
    """
    if filters is None:
        return None
    try:
        keep = pq.filters_to_expression(_with_paths(filters, schema))
        made = _scanner(schema.empty_table(), keep).to_table()["kept"].type
    except (ValueError, TypeError, IndexError, pa.ArrowException) as error:
        raise PlanError(
            f"filters={filters!r}: {' '.join(str(error).split())}; pass e.g. [('year', '>=', 2020)] or a pyarrow.compute expression"
        ) from None
    if not pa.types.is_boolean(made):
        raise PlanError(f"filters={filters!r} gives {made} for a row; it must give true or false")
    return keep


def _with_paths(filters: Any, schema: pa.Schema) -> Any:
    """The filter with "box.left" as the path of a struct's field."""
    if isinstance(filters, list) and filters and isinstance(filters[0], tuple):
        filters = [filters]
    if isinstance(filters, list):
        return [[_with_path(part, schema) for part in parts] for parts in filters]
    return filters


def _with_path(part: Any, schema: pa.Schema) -> Any:
    if isinstance(part, tuple) and part and isinstance(part[0], str) and part[0] not in schema.names:
        return (tuple(part[0].split(".")), *part[1:])
    return part


def filter_columns(keep: pc.Expression, schema: pa.Schema, among: Sequence[str] | None = None) -> list[str]:
    """The columns that a filter is about: those without which it cannot be; most are ruled out together."""
    names = schema.names if among is None else list(among)
    if not names or _can_be(keep, pa.schema([field for field in schema if field.name not in names])):
        return []
    if len(names) == 1:
        return names
    half = len(names) // 2
    return filter_columns(keep, schema, names[:half]) + filter_columns(keep, schema, names[half:])


def _can_be(keep: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _scanner(schema.empty_table(), keep)
    except pa.ArrowException:
        return False
    return True


def kept_rows(table: pa.Table, keep: pc.Expression) -> npt.NDArray[np.int32]:
    """The rows of a table that a filter leaves; where it gives null, the row is left out."""
    mask = _scanner(table, keep).to_table()["kept"]
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy()).astype(np.int32)


def may_pass(keep: pc.Expression, schema: pa.Schema, known: Sequence[pc.Expression]) -> list[bool]:
    """Whether a row of which each of these is true could pass a filter."""
    import pyarrow.dataset as pads

    kind, files = pads.IpcFileFormat(), LocalFileSystem()
    try:
        fragments = [
            kind.make_fragment(str(number), files, partition_expression=its) for number, its in enumerate(known)
        ]
        dataset = pads.FileSystemDataset(fragments, schema, kind, files)
        left = {fragment.path for fragment in dataset.get_fragments(filter=keep)}
    except (pa.ArrowException, OverflowError):  # the filter's values do not compare with the bounds
        return [True] * len(known)
    return [str(number) in left for number in range(len(known))]


def _scanner(table: pa.Table, keep: pc.Expression) -> pads.Scanner:
    """What evaluates a filter for the rows of a table."""
    import pyarrow.dataset as pads

    return pads.dataset(table).scanner(columns={"kept": keep})


def choice(keep: pc.Expression, kept: Sequence[npt.NDArray[np.int32]]) -> str:
    """What identifies the rows that a filter kept."""
    state = hashlib.blake2b(digest_size=16)
    for rows in kept:
        state.update(len(rows).to_bytes(8, "little"))
        state.update(rows.data)
    return f"{keep} {state.hexdigest()}"
