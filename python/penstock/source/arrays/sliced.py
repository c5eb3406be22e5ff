"""Arrays that a library reads by slices of rows (HDF5, Zarr): neighbouring rows are loaded together, a column an array.

What rows are in NumPy becomes what rows are in a batch: numbers stay arrays in the machine's byte order, dates are int64 in their
unit, text is large_string, bytes are large_binary, arrays of varying length are large_list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.ragged import edges_of, lists_of, texts_of
from penstock.core.columns.rows import join_columns
from penstock.core.columns.spec import Column, Columns, Field, Spec
from penstock.core.errors import DataError, PenstockError, PlanError, RowError
from penstock.core.verbs.options import Options
from penstock.core.warnings import warn
from penstock.source.arrays.strided import TWO_OF_A_NAME, text_of, without_padding
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access
from penstock.source.selection import Selection

#: Bytes of decoded rows that are worth loading together.
_BLOCK_BYTES = 1 << 20
#: Blocks of whole chunks may take so much memory.
_LARGEST_BLOCK_BYTES = 1 << 30
#: What HDF5 says where chunks went through a filter that is not installed.
_NO_FILTER = ("required filter", "can't open directory", "unable to open plugin")
_INSTALL = "chunks went through a filter that HDF5 does not have: install it (import hdf5plugin before reading), or write the file with gzip"

#: Reads rows [first, first + rows) of the named array of a shard.
ReadRows = Callable[[int, str, int, int], npt.NDArray[Any]]


@dataclass(frozen=True)
class ArrayFacts:
    """An array of a shard. ragged: what its values are if they are of varying length, a NumPy dtype, "bytes" or "string"."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: tuple[int, ...] | None = None
    ragged: str | None = None

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self.shape[1:]


@dataclass(frozen=True)
class ArrayColumn:
    """A column: the array it is of, the fields of records that lead to it, and its description."""

    array: str
    path: tuple[str, ...]
    field: Field


def array_columns(name: str, facts: ArrayFacts, where: str) -> Iterator[tuple[str, ArrayColumn | PlanError]]:
    """The columns of an array, one a field of its records if it has them; the PlanError of each that no batch can hold."""
    if facts.ragged is not None and facts.row_shape == ():
        text = facts.ragged in ("bytes", "string")
        yield name, ArrayColumn(name, (), Field(facts.ragged, () if text else (None,)))
        return
    open_types: list[tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]] = [((), facts.dtype, facts.row_shape)]
    while open_types:
        path, dtype, shape = open_types.pop()
        if dtype.subdtype is not None:
            open_types.append((path, dtype.subdtype[0], (*shape, *dtype.subdtype[1])))
        elif dtype.names is not None and shape == ():
            fields: Any = dtype.fields
            open_types += [((*path, part), fields[part][0], ()) for part in reversed(dtype.names)]
        else:
            full = ".".join((name, *path))
            try:
                yield full, ArrayColumn(name, path, _field(full, dtype, shape, where))
            except PlanError as error:
                yield full, error


def _field(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> Field:
    if dtype.kind in "biufc":
        return Field(dtype.newbyteorder("=").name, shape)
    if dtype.kind in "mM":
        return Field("int64", shape)
    if shape == () and dtype.kind in "SUT":
        return Field("string")
    if shape == () and dtype.kind == "V" and dtype.names is None and dtype.itemsize:
        return Field("bytes")
    raise PlanError(
        f"{where}: {name} holds {dtype} in rows of shape {shape}, which no batch can hold; choose others with columns=[…]"
    )


def choose_arrays(found: Mapping[str, ArrayFacts], options: Options, where: str) -> dict[str, ArrayColumn]:
    """The columns that a user asked for, or all; they must have equally many rows."""
    columns: dict[str, ArrayColumn] = {}
    refused: dict[str, PlanError] = {}
    for name, facts in found.items():
        for full, column in array_columns(name, facts, where):
            if full in columns or full in refused:
                refused[full] = PlanError(
                    f"{where}: {TWO_OF_A_NAME.format(name=full)}, or choose others with columns=[…]"
                )
            elif isinstance(column, PlanError):
                refused[full] = column
            else:
                columns[full] = column
    selection = Selection(options.columns)
    for wish in selection.choose([*columns, *refused], where).values():
        if wish.feature in refused:
            raise refused[wish.feature]
    features = selection.choose_stored({name: column.field for name, column in columns.items()}, where)
    chosen = {name: columns[feature] for name, feature in features.items()}
    if chosen:
        rows_of({column.array: found[column.array].shape for column in chosen.values()}, where)
    return chosen


def rows_of(shapes: Mapping[str, tuple[int, ...]], where: str) -> int:
    """The rows of arrays, by their shapes; DataError if they are not equally long."""
    rows = {name: shape[:1] for name, shape in shapes.items()}
    if len(set(rows.values())) != 1 or () in rows.values():
        shown = ", ".join(f"{name}: {shape[0] if shape else 'a single value'}" for name, shape in rows.items())
        raise DataError(
            f"{where}: the arrays are not equally long ({shown or 'there are none'}); choose some with columns=[…]"
        )
    return next(iter(rows.values()))[0]


def check_alike(first: ArrayFacts, other: ArrayFacts, name: str, where: tuple[str, str]) -> None:
    """DataError if an array of another shard has not the first one's dtype and row shape."""
    if (first.dtype, first.row_shape, first.ragged) != (other.dtype, other.row_shape, other.ragged):
        raise DataError(
            f"{where[1]}: {name} has rows of {other.dtype} and shape {other.row_shape}, in {where[0]} they are {first.dtype} and "
            f"{first.row_shape}; the files of a dataset must agree, read the others apart"
        )


def check_bounded(facts: ArrayFacts, name: str, options: Options, where: str) -> None:
    """DataError for a row or a chunk that is larger than a record may be, and for more rows than can be counted."""
    if facts.shape[0] >= 1 << 62:
        raise DataError(f"{where}: {name} says that it has {facts.shape[0]:,} rows; it is damaged, write it again")
    if any(axis < 1 for axis in facts.chunk or ()):
        raise DataError(
            f"{where}: {name} says that its chunks have the shape {facts.chunk}; it is damaged, write it again"
        )
    for what, shape in (("a row", facts.row_shape), ("a chunk", facts.chunk or ())):
        size = math.prod(shape) * facts.dtype.itemsize
        if size > options.limits.record_bytes:
            raise DataError(
                f"{where}: {what} of {name} takes {size:,} bytes; Limits(record_bytes={options.limits.record_bytes:,}) allows fewer"
            )


def bytes_of_row(arrays: Sequence[ArrayFacts]) -> int:
    """Bytes of a row of all arrays as a library reads it; of values of varying length their places alone."""
    return sum(math.prod(facts.row_shape) * facts.dtype.itemsize for facts in arrays)


def block_rows(arrays: Sequence[ArrayFacts], rows_per_shard: int, where: str) -> int:
    """Rows of a block: whole chunks of about 1 MiB, never more than a shard holds; parts of chunks, with a warning, above 1 GiB."""
    rows, row_bytes = blocks_of(arrays, rows_per_shard), max(1, bytes_of_row(arrays))
    chunk = _chunk_rows(arrays)
    if rows < (whole := min(chunk, rows_per_shard)):
        warn(
            f"{where}: chunks of {chunk:,} rows, of {row_bytes:,} bytes each, would take {chunk * row_bytes:,} bytes; {rows:,} rows are "
            f"read at a time, which decodes every chunk {-(-whole // rows):,} times an epoch; write the arrays with chunks of fewer rows"
        )
    return rows


def blocks_of(arrays: Sequence[ArrayFacts], rows_per_shard: int) -> int:
    """The same without a warning."""
    row_bytes, chunk = max(1, bytes_of_row(arrays)), _chunk_rows(arrays)
    wanted = max(1, _BLOCK_BYTES // row_bytes)
    if min(chunk, rows_per_shard) * row_bytes > _LARGEST_BLOCK_BYTES:
        return min(wanted, rows_per_shard)
    return max(1, min(max(chunk, wanted // chunk * chunk), rows_per_shard))


def _chunk_rows(arrays: Sequence[ArrayFacts]) -> int:
    return max((facts.chunk[0] for facts in arrays if facts.chunk), default=1)


@dataclass(frozen=True, eq=False)
class SlicedArrays:
    """A source of columns: arrays that `read` reads by rows."""

    manifest: Manifest
    columns: Mapping[str, ArrayColumn]
    block_rows: int | None
    read: ReadRows = field(repr=False)
    access: Access = Access.BLOCKS
    unpacked_copies: int = 2
    library_bytes: int = 0
    #: Whether rows lie in so many chunks that a copy would be mapped in their place, if there were room: lanes are dealt as if there was.
    lies_across: bool = False

    @property
    def spec(self) -> Spec:
        """The columns."""
        return {name: column.field for name, column in self.columns.items()}

    @property
    def reads_columns_alone(self) -> bool:
        """Whether no values are read but those of its columns: fields of records are read with the others."""
        return not any(column.path for column in self.columns.values())

    def only(self, names: Sequence[str]) -> SlicedArrays:
        """The same rows with these columns alone."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def load(self, first: int, rows: int) -> Columns:
        """Rows [first, first + rows) of all columns, every array read once."""
        return join_columns([self._part(*part) for part in self.manifest.parts(first, rows)])

    def _part(self, shard: int, first: int, rows: int) -> Columns:
        arrays = {
            name: self._read(shard, name, first, rows) for name in {column.array for column in self.columns.values()}
        }
        held: Columns = {}
        for name, column in self.columns.items():
            values: Any = arrays[column.array]
            for part in column.path:
                values = values[part]
            with self._memory_errors(shard, name, first, rows):
                held[name] = hold(values, column.field)
        return held

    @contextmanager
    def _memory_errors(self, shard: int, name: str, first: int, rows: int) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            raise DataError(
                f"{self.manifest.shards.path(shard)}, {name}, rows {first:,} to {first + rows - 1:,}: they ask for more memory than there is "
                f"({error}); the file is damaged, or written in chunks that are too large for this machine: write it again"
            ) from error

    def _read(self, shard: int, name: str, first: int, rows: int) -> npt.NDArray[Any]:
        path = self.manifest.shards.path(shard)
        try:
            with self._memory_errors(shard, name, first, rows):
                values = self.read(shard, name, first, rows)
        except PenstockError:
            raise
        except Exception as error:  # libraries fail in many ways on damaged data
            raise unreadable(f"{path}, {name}, rows {first:,} to {first + rows - 1:,}", error) from error
        if len(values) != rows:
            raise DataError(
                f"{path}, {name}: {len(values)} rows came where {rows} belong; the file changed, open the dataset again"
            )
        return values


def unreadable(where: str, error: Exception) -> DataError:
    """What to say of values that a library could not read."""
    remedy = _INSTALL if any(word in str(error) for word in _NO_FILTER) else "the file is damaged, write it again"
    return DataError(f"{where}: cannot be read ({error}); {remedy}")


def hold(values: npt.NDArray[Any], wanted: Field) -> Column:
    """Rows as a batch holds them; RowError for the first row that is no text."""
    if wanted.is_fixed:
        if values.dtype.kind in "mM":
            values = values.view(np.dtype("i8").newbyteorder(values.dtype.byteorder))
        return np.ascontiguousarray(values, dtype=wanted.numpy_dtype)
    if wanted.dtype == "string":
        return _text(values)
    if wanted.dtype == "bytes" and values.dtype.kind == "V":
        data = pa.py_buffer(np.ascontiguousarray(values))
        kind = pa.binary(values.dtype.itemsize)
        return pa.Array.from_buffers(kind, len(values), [None, data]).cast(pa.large_binary())
    return _ragged(values, wanted)


def _text(values: npt.NDArray[Any]) -> pa.Array:
    """Text of a fixed width without the zeros at its end, or objects that are text or its bytes."""
    if values.dtype.kind == "U":
        return text_of(values.astype(values.dtype.newbyteorder("=")))
    if values.dtype.kind == "S":
        held = without_padding(np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize))
    else:
        rows = [row if isinstance(row, bytes) else str(row).encode() for row in values.tolist()]
        held = pa.array(rows, pa.large_binary())
    try:
        return held.cast(pa.large_string())
    except pa.ArrowInvalid:
        row = next(row for row, data in enumerate(held.to_pylist()) if not _is_text(data))
        raise RowError(row, "its text is no UTF-8", "write it again") from None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _ragged(values: npt.NDArray[Any], wanted: Field) -> pa.Array:
    """Arrays of varying length, one a row."""
    kind = np.dtype(np.uint8 if wanted.dtype == "bytes" else wanted.dtype)
    rows = [
        np.frombuffer(row, dtype=np.uint8) if isinstance(row, bytes) else np.asarray(row) for row in values.tolist()
    ]
    edges = edges_of([len(row) for row in rows])
    joined = np.concatenate([*rows, np.empty(0, dtype=kind)]).astype(kind, copy=False)
    return texts_of(joined, edges) if wanted.dtype == "bytes" else lists_of(joined, edges)
