"""Which rows of Parquet files a filter keeps: statistics rule out row groups, the filter's columns decide on rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from penstock.errors import PlanError
from penstock.format.table import arrow_errors
from penstock.spec import Ids

Kept = list[npt.NDArray[np.int32]]


def expression(filters: Any, schema: pa.Schema) -> pc.Expression | None:
    """A filter as pyarrow knows it: an expression, or [(name, operator, value), …], or a list of these lists.

    Raises PlanError for what is no filter, and for columns and types that it cannot be about.
    """
    if filters is None:
        return None
    try:
        keep = pq.filters_to_expression(_with_paths(filters, schema))
        made = pads.dataset(schema.empty_table()).scanner(columns={"kept": keep}).to_table()["kept"].type
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


def kept_rows(file: pa.NativeFile, numbers: Ids, rows: Ids, keep: pc.Expression, place: str) -> Kept:
    """The rows that a filter leaves of each row group `numbers`, which have `rows[number]` rows."""
    fragment = pads.ParquetFileFormat().make_fragment(file)
    kept: Kept = []
    with arrow_errors(f"{place}: filters={keep}", "the file is damaged, write it again"):
        possible = {group.id for group in fragment.subset(filter=keep).row_groups}
        for number in numbers.tolist():
            if number not in possible:
                kept.append(np.empty(0, dtype=np.int32))
                continue
            group = fragment.subset(row_group_ids=[number])
            mask = group.scanner(columns={"kept": keep}).to_table()["kept"]
            if len(mask) != rows[number]:
                raise pa.ArrowInvalid(f"row group {number} has {len(mask):,} rows where {rows[number]:,} belong")
            kept.append(np.flatnonzero(pc.fill_null(mask, False).to_numpy()).astype(np.int32))  # noqa: FBT003
    return kept


def choice(keep: pc.Expression, kept: Sequence[npt.NDArray[np.int32]]) -> str:
    """What identifies the rows that a filter kept."""
    state = hashlib.blake2b(digest_size=16)
    for rows in kept:
        state.update(len(rows).to_bytes(8, "little"))
        state.update(rows.data)
    return f"{keep} {state.hexdigest()}"
