"""Arrow tables to columns: what Parquet, Arrow, CSV, JSON and SQL have in common.

Structs are taken apart into columns with dotted names ("box.left"), also those in lists, which become lists of each field. Numbers,
booleans and lists of fixed lengths of them become arrays; text, bytes and lists stay Arrow arrays (large_string, large_binary,
large_list). Dates, times and durations are int64 in the unit of their type, in lists as well; decimals are float64; dictionaries and
runs are taken as their values, UUIDs as text, tensors as arrays of their shape, other extension types as what they are stored as.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.default_values import check_default
from penstock.core.columns.repeated_values import joined
from penstock.core.columns.spec import Columns, Field, field_of_type, is_bytes, is_list, is_text, unwrapped_type
from penstock.core.errors import DataError, PenstockError, PlanError, RowError
from penstock.core.limits import Limits
from penstock.core.verbs.options import Column, Options
from penstock.source.dotted_names import Path, dotted, find
from penstock.source.selection import Selection, no_column
from penstock.source.tables.arrow_values import WantedColumn, held, struct_field

#: Structs and lists inside each other at most.
_DEEPEST = 64


@dataclass(frozen=True)
class TableColumn:
    """One column of a batch: its name, the path of fields that leads to it, its field, and what nulls become.

    lists: how many names of the path lead to the first list of structs, which is stored as a whole; 0 where there is none. asked: whether
    the user chose the dtype.
    """

    name: str
    path: Path
    field: Field
    default: float | int | bytes | str | None = None
    lists: int = 0
    asked: bool = False

    @property
    def feature(self) -> str:
        """The dotted name in the file."""
        return ".".join(self.path)

    @property
    def stored(self) -> Path:
        """The part of the path that names what a file stores."""
        return self.path[: self.lists] if self.lists else self.path


@dataclass(frozen=True)
class _Leaf:
    """A column that is no struct: the path that leads to it, its type, and `TableColumn.lists`."""

    path: Path
    kind: pa.DataType
    lists: int = 0


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
    offered = dotted((leaf.path, leaf) for leaf in _leaves(schema))
    chosen = []
    for name, column in Selection(options.columns).columns(offered).items():
        found = find(column.feature, offered)
        if found is None:
            raise no_column(where, column.feature, offered)
        path, leaf = found
        try:
            field = _field(leaf.kind, column)
            if column.default is not None and not np.ndim(column.default):
                check_default(field, column.default)
        except PlanError as error:
            raise PlanError(f"{where}: column {column.feature!r}: {error}") from None
        chosen.append(TableColumn(name, path, field, column.default, leaf.lists, column.dtype is not None))
    return tuple(chosen)


def with_nulls(columns: tuple[TableColumn, ...], have: Callable[[TableColumn], int | None]) -> tuple[TableColumn, ...]:
    """The columns, nullable where they have nulls or may have some. have: how many, or whether; None where that is not known."""

    def of(column: TableColumn) -> TableColumn:
        if column.default is not None or column.field.nullable:
            return column
        found = have(column)
        is_nullable = found is None or found > 0
        return replace(column, field=replace(column.field, nullable=True)) if is_nullable else column

    return tuple(map(of, columns))


def _field(kind: pa.DataType, column: Column) -> Field:
    """What a column of this type becomes, as far as the user did not say it."""
    if pa.types.is_null(kind) and column.dtype is not None:
        return Field(column.dtype, column.shape or (), nullable=column.is_nullable)
    return column.field(field_of_type(kind))


def _leaves(schema: pa.Schema) -> Iterator[_Leaf]:
    """Every column that is no struct."""
    for field in schema:
        yield from _below((field.name,), field.type)


def _below(path: Path, kind: pa.DataType, deep: int = 0) -> Iterator[_Leaf]:
    """What a type holds: the fields of structs, lists of the fields of structs in lists."""
    if deep > _DEEPEST:
        raise DataError(f"column {path[0]!r}: more than {_DEEPEST} levels of structs and lists; leave the file out")
    inside = unwrapped_type(kind)
    if pa.types.is_struct(inside):
        for part in inside:
            yield from _below((*path, part.name), part.type, deep + 1)
    elif is_list(inside):
        for leaf in _below(path, inside.value_type, deep + 1):
            fixed = pa.types.is_fixed_size_list(inside)
            lists = pa.list_(leaf.kind, inside.list_size) if fixed else pa.large_list(leaf.kind)
            yield _Leaf(path, kind) if leaf.path == path else _Leaf(leaf.path, lists, len(path))
    else:
        yield _Leaf(path, kind)


def columns_of(
    table: pa.Table | pa.RecordBatch, chosen: tuple[TableColumn, ...], *, keeps_repeated: bool = False
) -> Columns:
    """The chosen columns of a table; with `keeps_repeated`, large ones of text that repeats as `core.columns.repeated_values` has them.

    Raises RowError for the first null in a column without a default; DataError for a table that lacks a column or has it
    in another type.
    """
    return {column.name: _column(table, column, keeps_repeated=keeps_repeated) for column in chosen}


def _column(
    table: pa.Table | pa.RecordBatch, column: TableColumn, *, keeps_repeated: bool
) -> npt.NDArray[Any] | pa.Array:
    if column.path[0] not in table.schema.names:
        raise DataError(f"no column {column.path[0]!r}, which the first file has; its columns: {table.schema.names}")
    found = table.column(column.path[0])
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    parts: list[Any] = []
    row = 0
    for chunk in chunks or [pa.array([], found.type)]:
        try:
            parts.append(column_of(_descend(chunk, column), column, keeps_repeated=keeps_repeated))
        except RowError as error:
            raise RowError(row + error.row, error.found, error.do) from None
        row += len(chunk)
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if column.field.is_fixed else joined(parts)


def dictionary_of(table: pa.Table, column: TableColumn) -> pa.DictionaryArray | None:
    """A column of text that is a dictionary in a table, as one with large_string; None for what is none, or must change."""
    if column.field.dtype != "string" or column.field.shape or column.default is not None or len(column.path) > 1:
        return None
    found = table.column(column.path[0]) if column.path[0] in table.schema.names else None
    if found is None or not pa.types.is_dictionary(found.type) or not is_text(found.type.value_type):
        return None
    if found.null_count and not column.field.nullable:
        return None
    whole = found.unify_dictionaries().combine_chunks() if found.num_chunks != 1 else found.chunk(0)
    return pa.DictionaryArray.from_arrays(whole.indices, whole.dictionary.cast(pa.large_string()))


def _descend(array: pa.Array, column: TableColumn) -> pa.Array:
    for name in column.path[1:]:
        try:
            array = struct_field(array, name)
        except KeyError:
            raise DataError(
                f"column {column.feature!r} is {array.type} where the first file has a struct with {name!r}"
            ) from None
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


def column_of(array: pa.Array, column: TableColumn, *, keeps_repeated: bool = False) -> npt.NDArray[Any] | pa.Array:
    """An Arrow array as the column's field describes it; see `columns_of` for the errors."""
    try:
        wanted = WantedColumn(
            field=column.field, default=column.default, asked=column.asked, keeps_repeated=keeps_repeated
        )
        return held(array, wanted)
    except RowError as error:
        do = error.do or (
            f"give it a value with columns={{{column.name!r}: penstock.Column(feature={column.feature!r}, default=…)}}, or with nulls='nan' (or 'mask', "
            f"'arrow') instead of default=, say what its nulls become"
        )
        raise RowError(error.row, f"column {column.feature!r} {error.found}", do) from None
    except PlanError as error:
        raise PlanError(f"column {column.name!r}: {error}") from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise DataError(
            f"column {column.feature!r} is {array.type}, and {column.field} was expected: {error}"
        ) from None


#: Tables up to this size need no proof that they are not made to fill the memory.
_UNSUSPICIOUS_BYTES = 1 << 30


def allowed_bytes(packed_bytes: int, limits: Limits) -> int:
    """What a packed table of so many bytes may take unpacked."""
    return max(_UNSUSPICIOUS_BYTES, min(limits.unpacked_bytes, limits.ratio * packed_bytes))


def check_unpacked(unpacked_bytes: int, packed_bytes: int, limits: Limits, place: str) -> None:
    """DataError for packed tables that would fill the memory out of all proportion to their size."""
    allowed = allowed_bytes(packed_bytes, limits)
    if unpacked_bytes > allowed:
        raise DataError(
            f"{place}: {packed_bytes:,} bytes would become {unpacked_bytes:,} in memory, where {allowed:,} are allowed; "
            "if that is meant, raise limits=penstock.Limits(unpacked_bytes=…, ratio=…)"
        )


@contextmanager
def arrow_errors(place: str, do: str = "write the file again, or leave it out") -> Iterator[None]:
    """What Arrow's readers say of damaged files, as a DataError with its place; so too errors of the Python code of extension types that a library registered."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, MemoryError, OverflowError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, PenstockError):
            raise
        found = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, pa.ArrowNotImplementedError):
            do = "Arrow does not read this: write it with another type or layout"
        raise DataError(f"{place}: {found}; {do}") from None


def check_same_columns(
    schema: pa.Schema, first: pa.Schema, chosen: tuple[TableColumn, ...], path: str, first_path: str
) -> None:
    """DataError for a file whose chosen columns are not those of the first file."""
    if schema.equals(first):
        return
    here, there = ({leaf.path: leaf.kind for leaf in _leaves(one)} for one in (schema, first))
    for column in chosen:
        if column.path not in here:
            listed = ", ".join(map(".".join, here)) or "none"
            raise DataError(
                f"{path}: no column {column.feature!r}, which {first_path} has; there are {listed}; "
                "read files of different columns apart"
            )
        if _layout_free(here[column.path]) != _layout_free(there[column.path]):
            raise DataError(
                f"{path}: column {column.feature!r} is {here[column.path]}, and {there[column.path]} in {first_path}; "
                "read files of different types apart"
            )


def _layout_free(kind: pa.DataType) -> pa.DataType:
    """A type without what it says only of how values lie in memory."""
    kind = unwrapped_type(kind)
    if is_text(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.large_binary()
    if not is_list(kind):
        return kind
    inner = _layout_free(kind.value_type)
    return pa.list_(inner, kind.list_size) if pa.types.is_fixed_size_list(kind) else pa.large_list(inner)


def leaf_paths(schema: pa.Schema) -> list[Path]:
    """The names that lead to every column that is no struct."""
    return [leaf.path for leaf in _leaves(schema)]


def check_names(schema: pa.Schema) -> None:
    """UnicodeDecodeError for names that are no text; DataError for types that are nested too deeply."""
    leaf_paths(schema)
