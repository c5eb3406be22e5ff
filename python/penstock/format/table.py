"""Arrow tables to columns: what Parquet, Arrow, CSV, JSON and SQL have in common.

Structs are taken apart into columns with dotted names ("box.left"). Numbers, booleans and fixed-size lists of them become
arrays; text, bytes and lists stay Arrow arrays (large_string, large_binary, large_list). Dates, times and durations are
int64 in the unit of their type; decimals are float64; dictionaries are taken as their values.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError, PenstockError, PlanError, RowError
from penstock.format.protocol import Column, Options
from penstock.limits import Limits
from penstock.spec import Columns, Field, field_of_type, is_bytes, is_text


@dataclass(frozen=True)
class TableColumn:
    """One column of a batch: its name, the path of struct fields that leads to it, its field, and what nulls become."""

    name: str
    path: tuple[str, ...]
    field: Field
    default: float | int | bytes | str | None = None

    @property
    def feature(self) -> str:
        """The dotted name in the file."""
        return ".".join(self.path)


def choose_columns(schema: pa.Schema, options: Options, where: str) -> tuple[TableColumn, ...]:
    """The columns that a user asked for, or all that can be held.

    Raises PlanError for names that are not there and for types that no batch can hold; without `columns`, such types are
    an error as well, since leaving them out silently would lose data.
    """
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise DataError(
            f"{where}: several columns are named {twice[0]!r}; write the file again with names of their own"
        )
    offered = {".".join(path): (path, kind) for path, kind in _leaves(schema)}
    asked = options.columns
    if asked is None:
        wanted: Mapping[str, str | Column] = {name: name for name in offered}
    else:
        wanted = asked if isinstance(asked, Mapping) else {name: name for name in asked}
    return tuple(_choose(name, wish, offered, where) for name, wish in wanted.items())


def _choose(name: str, wish: str | Column, offered: Mapping[str, Any], where: str) -> TableColumn:
    column = wish if isinstance(wish, Column) else Column(feature=wish)
    if column.feature not in offered:
        close = difflib.get_close_matches(column.feature, offered, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise PlanError(f"{where}: no column {column.feature!r}; there are {', '.join(offered) or 'none'}{meant}")
    path, kind = offered[column.feature]
    try:
        field = field_of_type(kind)
    except PlanError as error:
        raise PlanError(f"{where}: column {column.feature!r}: {error}") from None
    if column.dtype is not None or column.shape is not None:
        field = Field(column.dtype or field.dtype, field.shape if column.shape is None else column.shape)
    return TableColumn(name, path, field, column.default)


def _leaves(schema: pa.Schema) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Every column that is no struct, with the names that lead to it."""
    open_types: list[tuple[tuple[str, ...], pa.DataType]] = [((field.name,), field.type) for field in reversed(schema)]
    while open_types:
        path, kind = open_types.pop()
        if pa.types.is_struct(kind):
            parts = [kind.field(number) for number in range(kind.num_fields)]
            open_types += [((*path, part.name), part.type) for part in reversed(parts)]
        else:
            yield path, kind


def columns_of(table: pa.Table | pa.RecordBatch, chosen: tuple[TableColumn, ...]) -> Columns:
    """The chosen columns of a table.

    Raises RowError for the first null in a column without a default; DataError for a table that lacks a column or has it
    in another type.
    """
    return {column.name: column_of(_descend(table, column), column) for column in chosen}


def _descend(table: pa.Table | pa.RecordBatch, column: TableColumn) -> pa.Array:
    if column.path[0] not in table.schema.names:
        raise DataError(f"no column {column.path[0]!r}, which the first file has; its columns: {table.schema.names}")
    found = table.column(column.path[0])
    array = one_array(found) if isinstance(found, pa.ChunkedArray) else found
    for name in column.path[1:]:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
            raise DataError(
                f"column {column.feature!r} is {array.type} where the first file has a struct with {name!r}"
            )
        array = pc.struct_field(array, name)
    return array


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks; text and bytes with large offsets, since together they may exceed 2 GiB."""
    if is_text(column.type):
        column = column.cast(pa.large_string())
    elif is_bytes(column.type):
        column = column.cast(pa.large_binary())
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def column_of(array: pa.Array, column: TableColumn) -> npt.NDArray[Any] | pa.Array:
    """An Arrow array as the column's field describes it; see `columns_of` for the errors."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        array = _without_nulls(array, column)
    try:
        return _held(array, column.field)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise DataError(
            f"column {column.feature!r} is {array.type}, and {column.field} was expected: {error}"
        ) from None


def _without_nulls(array: pa.Array, column: TableColumn) -> pa.Array:
    if column.default is None:
        row = int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False)))
        raise RowError(
            row,
            f"column {column.feature!r} is null",
            f"give it a value with columns={{{column.name!r}: penstock.Column(feature={column.feature!r}, default=…)}}",
        )
    try:
        return pc.fill_null(array, pa.scalar(column.default, array.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise PlanError(
            f"column {column.name!r}: default {column.default!r} does not fit {array.type}: {error}"
        ) from None


def _held(array: pa.Array, field: Field) -> npt.NDArray[Any] | pa.Array:
    if field.dtype == "string" and field.shape == ():
        return array.cast(pa.large_string())
    if field.dtype == "bytes" and field.shape == ():
        return array.cast(pa.large_binary())
    if field.is_fixed:
        return _fixed(array, field)
    return array.cast(_large_list(array.type))


def _fixed(array: pa.Array, field: Field) -> npt.NDArray[Any]:
    axes = 0
    while pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        _check_lengths(array, field, axes)
        array, axes = array.flatten(), axes + 1
        if array.null_count:
            raise pa.ArrowInvalid("a list holds nulls")
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int64()) if array.type.bit_width == 64 else array.cast(pa.int32())
    elif pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    wanted = field.numpy_dtype
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype != wanted:
        values = array.cast(pa.from_numpy_dtype(wanted)).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values).reshape(-1, *(axis or 0 for axis in field.shape)) if field.shape else values


def _check_lengths(array: pa.Array, field: Field, axis: int) -> None:
    """RowError for the first list that is not as long as the field's axis says."""
    wanted = field.shape[axis] if axis < len(field.shape) else None
    if pa.types.is_fixed_size_list(array.type):
        if array.type.list_size != wanted:
            raise pa.ArrowInvalid(f"lists of {array.type.list_size} values where {field} is wanted")
        return
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    if (bad := np.flatnonzero(lengths != wanted)).size:
        found = f"a list of {lengths[bad[0]]} values where {field} is wanted"
        if axis:
            raise pa.ArrowInvalid(found)
        raise RowError(int(bad[0]), found, "give the column a shape of (None,) to take lists of any length")


def _large_list(kind: pa.DataType) -> pa.DataType:
    """The type of a ragged column: large offsets all the way down; lists of one length inside stay (see `ragged`)."""
    inner = kind.value_type
    if pa.types.is_fixed_size_list(inner) and field_of_type(inner).is_fixed:
        return pa.large_list(inner)
    return pa.large_list(_large(inner))


def _large(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _large_list(kind)
    if is_text(kind):
        return pa.large_string()
    return pa.large_binary() if is_bytes(kind) else kind


#: Tables up to this size need no proof that they are not made to fill the memory.
_UNSUSPICIOUS_BYTES = 1 << 30


def check_unpacked(unpacked_bytes: int, packed_bytes: int, limits: Limits, place: str) -> None:
    """DataError for packed tables that would fill the memory out of all proportion to their size."""
    allowed = max(_UNSUSPICIOUS_BYTES, min(limits.unpacked_bytes, limits.ratio * packed_bytes))
    if unpacked_bytes > allowed:
        raise DataError(
            f"{place}: {packed_bytes:,} bytes would become {unpacked_bytes:,} in memory, where {allowed:,} are allowed; "
            "if that is meant, raise limits=penstock.Limits(unpacked_bytes=…, ratio=…)"
        )


@contextmanager
def arrow_errors(place: str, do: str = "write the file again, or leave it out") -> Iterator[None]:
    """What Arrow's readers say of damaged files, as a DataError with its place."""
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, OverflowError, UnicodeError) as error:
        if isinstance(error, PenstockError):
            raise
        found = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{place}: {found}; {do}") from None


def check_same_columns(
    schema: pa.Schema, first: pa.Schema, chosen: tuple[TableColumn, ...], path: str, first_path: str
) -> None:
    """DataError for a file whose chosen columns are not those of the first file."""
    if schema.equals(first):
        return
    here, there = dict(named_leaves(schema)), dict(named_leaves(first))
    for column in chosen:
        if column.feature not in here:
            raise DataError(
                f"{path}: no column {column.feature!r}, which {first_path} has; there are {', '.join(here) or 'none'}; "
                "read files of different columns apart"
            )
        if here[column.feature] != there[column.feature]:
            raise DataError(
                f"{path}: column {column.feature!r} is {here[column.feature]}, and {there[column.feature]} in {first_path}; "
                "read files of different types apart"
            )


def named_leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The dotted name and the type of every column that is no struct; of a dictionary its values' type."""
    for path, kind in _leaves(schema):
        yield ".".join(path), kind.value_type if pa.types.is_dictionary(kind) else kind
