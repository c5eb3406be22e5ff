"""Columns of tokens as native code takes them: numbers, and where each row begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.spec import Field, Ids, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


class RowsOfTokens(NamedTuple):
    """Tokens of rows. values: in memory of their own. length: of each row, where all have the same."""

    values: npt.NDArray[np.int64]
    edges: Ids
    length: int | None


def check_tokens(op: str, name: str, given: Spec) -> Field:
    """The field of a column of rows of tokens; PlanError for another one. Of a column that is not known yet, any."""
    field = given.get(name, Field("int64", (None,)))
    if field.dtype not in _INTEGERS or len(field.shape) != 1 or field.nullable:
        raise PlanError(
            f"transform: {op} on column {quoted(name)}, which is {field}; give it rows of tokens, whole numbers as Tokenize makes them, without nulls"
        )
    return field


def token_rows(op: str, name: str, column: Any) -> RowsOfTokens:
    """A column's tokens. RowError for a row that is null, PlanError for what are no tokens."""
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.dtype.kind in "iu":
        rows, length = column.shape
        return RowsOfTokens(column.astype(np.int64).reshape(-1), np.arange(rows + 1, dtype=np.int64) * length, length)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    lists = isinstance(column, pa.Array) and (pa.types.is_list(column.type) or pa.types.is_large_list(column.type))
    if not lists or not pa.types.is_integer(column.type.value_type):
        kind = getattr(column, "type", None) or getattr(column, "dtype", type(column).__name__)
        raise PlanError(f"transform: {op} on column {quoted(name)}, which is {kind}; give it rows of tokens")
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise RowError(row, f"column {quoted(name)}: it has no tokens, but a null", "fill it or leave the row out")
    values = column.flatten()
    if values.null_count:
        places = np.cumsum([0, *column.value_lengths().to_pylist()])
        first = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]
        row = int(np.searchsorted(places, first, side="right")) - 1
        raise RowError(row, f"column {quoted(name)}: a null among its tokens", "fill it or leave the row out")
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    edges = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return RowsOfTokens(values.to_numpy(zero_copy_only=False).astype(np.int64), edges, None)


def row_keys(keys: DrawKeys) -> npt.NDArray[np.uint64]:
    """What each row draws by."""
    out = np.empty(len(keys), np.uint64)
    kernels.row_keys(np.ascontiguousarray(keys.rows, np.int64), keys.stage, out)
    return out
