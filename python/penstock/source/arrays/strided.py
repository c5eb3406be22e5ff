"""Values in plain rows on disk (token files, .npy, HDF5 without chunks): every place is arithmetic, there is no index.

Local files are mapped and rows copied straight from the page cache to the batch; elsewhere rows are read as byte ranges.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.ragged import edges_of, texts_of
from penstock.core.columns.spec import Bytes, Columns, Field, Ids, Spans, Spec
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards, joined_shards
from penstock.source.manifest import Manifest, joined_edges, joined_manifest
from penstock.source.protocol import Access, Allocate


@dataclass(frozen=True, eq=False, kw_only=True)
class RegularManifest(Manifest):
    """Records of `record_bytes` bytes, each `stride_bytes` after the one before; windows overlap where the stride is smaller.

    Records lie in runs: run r begins at byte run_start[r] of its shard and holds the sample ids first_of_run[r] …
    first_of_run[r + 1] - 1. Usually a shard is one run.
    """

    first_of_run: Ids
    run_start: Ids
    record_bytes: int
    stride_bytes: int

    def extents(self, samples: Ids) -> tuple[Ids, Ids, Ids]:
        """Shard, offset and length (int64) of each record."""
        run = np.searchsorted(self.first_of_run, samples, side="right") - 1
        offset = self.run_start[run] + (samples - self.first_of_run[run]) * self.stride_bytes
        return self.shard_of(samples), offset, np.full(len(samples), self.record_bytes, dtype=np.int64)

    def place(self, sample: int) -> str:
        """Where a record lies, for messages."""
        shard, offset, _ = self.extents(np.array([sample], dtype=np.int64))
        record = sample - int(self.first_sample[shard[0]])
        return f"{self.shards.path(int(shard[0]))}, record {record:,}, byte {int(offset[0]):,}"

    @cached_property
    def digest(self) -> str:
        """32 hex digits: what identifies the files, and how records are cut out of them."""
        state = hashlib.blake2b(super().digest.encode(), digest_size=16)
        state.update(f"{self.record_bytes} {self.stride_bytes}".encode())
        state.update(np.ascontiguousarray(self.run_start).data)
        state.update(np.ascontiguousarray(self.first_of_run).data)
        return state.hexdigest()


@dataclass(frozen=True)
class StoredColumn:
    """A column of plain values: its field, the dtype in the file (any byte order), and the bytes of a row.

    at: the byte of the row in its record, where columns lie side by side in records.
    """

    field: Field
    stored: np.dtype[Any]
    row_bytes: int
    at: int = 0

    @property
    def row_dtype(self) -> np.dtype[Any]:
        """What is allocated for the values: the field's dtype, or text and bytes of a fixed width."""
        if self.field.dtype in ("bytes", "string"):
            return self.stored.newbyteorder("=")
        return self.field.numpy_dtype

    def allocated(self) -> Field:
        """The field of the array that is filled; of raw bytes for text and bytes of a fixed width."""
        return self.field if self.field.is_fixed else Field("uint8", (self.row_bytes,))


def stored_column(
    dtype: np.dtype[Any], shape: tuple[int, ...], at: int = 0, to_dtype: str | None = None
) -> StoredColumn:
    """The column of rows of `shape` values of a dtype without fields and objects.

    Dates and durations become int64 in their unit, text (U) and bytes (S) of a fixed width strings and bytes without the
    zeros at their end.
    """
    row_bytes = dtype.itemsize * math.prod(shape)
    if dtype.kind in "SU" and shape == ():
        return StoredColumn(Field("bytes" if dtype.kind == "S" else "string"), dtype, row_bytes, at)
    if dtype.kind in "mM":
        dtype = np.dtype("i8").newbyteorder(dtype.byteorder)
    name = to_dtype or dtype.newbyteorder("=").name
    return StoredColumn(Field(name, shape), dtype, row_bytes, at)


def leaves(
    dtype: np.dtype[Any], shape: tuple[int, ...], where: str, name: str, at: int = 0
) -> Iterator[tuple[str, StoredColumn]]:
    """The columns of rows of `shape` values: one for numbers and text, one a field (name "box.left") for records.

    PlanError for what no batch can hold.
    """
    if dtype.subdtype is not None:
        base, inner = dtype.subdtype
        yield from leaves(base, (*shape, *inner), where, name, at)
    elif dtype.names is not None and shape == ():
        for part in dtype.names:
            kind, offset = dtype.fields[part][:2]  # type: ignore[index]
            yield from leaves(kind, (), where, f"{name}.{part}" if name else part, at + offset)
    elif dtype.kind in "biufcmM" or (dtype.kind in "SU" and shape == () and dtype.itemsize):
        yield name, stored_column(dtype, shape, at)
    else:
        raise PlanError(
            f"{where}: {name or 'the array'} holds {dtype} in rows of shape {shape}, which no batch can hold; choose others with columns=[…]"
        )


NamedT = TypeVar("NamedT")

#: Where nobody could say which one is meant.
TWO_OF_A_NAME = (
    "two values would be the column {name!r}, as a field b of a record a and a value that is called a.b; rename one"
)


def distinct_columns(columns: Iterable[tuple[str, NamedT]], where: str) -> dict[str, NamedT]:
    """Columns by their names; PlanError where two have one."""
    found: dict[str, NamedT] = {}
    for name, column in columns:
        if name in found:
            raise PlanError(f"{where}: {TWO_OF_A_NAME.format(name=name)}")
        found[name] = column
    return found


def finish(column: StoredColumn, out: npt.NDArray[Any]) -> npt.NDArray[Any] | pa.Array:
    """What the filled array is to the user; RowError for text that is none."""
    if column.field.dtype == "bool":
        raw = out.view(np.uint8)
        np.not_equal(raw, 0, out=raw, casting="unsafe")  # a damaged True stays a bool
    if column.field.is_fixed:
        return out
    if column.field.dtype == "bytes":
        return without_padding(out)
    return text_of(out.view(column.row_dtype).reshape(-1))


def without_padding(raw: Bytes) -> pa.LargeBinaryArray:
    """Rows of a fixed width (rows, bytes) without the zeros at their end."""
    width = raw.shape[1]
    filled = raw[:, ::-1] != 0
    length = (
        np.where(filled.any(axis=1), width - filled.argmax(axis=1), 0) if width else np.zeros(len(raw), dtype=np.int64)
    )
    return texts_of(raw[np.arange(width) < length[:, None]], edges_of(length))


def text_of(values: npt.NDArray[Any]) -> pa.LargeStringArray:
    """Text of a fixed width (U) as Arrow has it; RowError for characters that are none."""
    codes = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    bad = ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any(axis=1)
    if bad.any():
        raise RowError(int(bad.argmax()), "its text holds what is no character", "the file is damaged, write it again")
    encoded = np.char.encode(values, "utf-8")
    raw = np.ascontiguousarray(encoded).view(np.uint8).reshape(len(values), encoded.dtype.itemsize)
    return without_padding(raw).cast(pa.large_string())


class Mapped:
    """Local files in the address space; see `kernels.MappedFiles`."""

    def __init__(self, files: Shards, read: ByteRanges) -> None:
        self.files, self.read = files, read
        made_of = None if files.made_of is None else _listed(files.made_of)
        self._mapped = kernels.MappedFiles(*_listed(files), made_of)

    def __reduce__(self) -> tuple[type[Mapped], tuple[Shards, ByteRanges]]:
        return Mapped, (self.files, self.read)  # on another machine the files may have other stamps

    def copy(self, column: StoredColumn, shard: Ids, start: Ids, out: npt.NDArray[Any], threads: int) -> None:
        """Fills `out` with the rows that begin at bytes `start`; DataError for a file that is gone or was changed."""
        stored, wanted = _kinds(column)
        self.read.check(self.files, shard, start, np.int64(column.row_bytes))
        try:
            self._mapped.copy_windows(shard, start, column.row_bytes, stored, wanted, _flat(out), threads)
        except OSError as error:
            path, found = error.args
            raise DataError(f"{path}: {found}; if the data was changed on purpose, open the dataset again") from None


def _listed(files: Shards) -> tuple[list[str], Ids, Ids | None]:
    return files.paths.to_pylist(), files.sizes, None if files.stamps is None else files.stamps.reshape(-1)


def _mapped_together(several: Sequence[Mapped | None]) -> Mapped | None:
    """All files of several; None where one is not mapped, or has checksums."""
    some = [one for one in several if one is not None and not one.read.has_checksums(one.files)]
    return Mapped(joined_shards([one.files for one in some]), ByteRanges()) if len(some) == len(several) else None


def copy_spans(column: StoredColumn, records: Spans, out: npt.NDArray[Any], threads: int) -> None:
    """Fills `out` with a column's part of records that were read."""
    stored, wanted = _kinds(column)
    start = records.offset + column.at
    kernels.copy_windows(
        list(records.buffers), records.which, start, column.row_bytes, stored, wanted, _flat(out), threads
    )


def _kinds(column: StoredColumn) -> tuple[str, str]:
    """The stored and the wanted type as kernels know them; text is four bytes a character."""
    if column.stored.kind == "U":
        return column.stored.str[0] + "u4", "<u4"
    if column.stored.kind == "S":
        return "|u1", "|u1"
    return column.stored.str, column.row_dtype.str


def _flat(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


@dataclass(frozen=True, eq=False)
class Records:
    """Records of one size, with columns side by side in them. mapped: the files, if they are local; else records are read."""

    manifest: RegularManifest
    columns: Mapping[str, StoredColumn]
    mapped: Mapped | None = field(repr=False)

    @property
    def spec(self) -> Spec:
        """The columns."""
        return {name: column.field for name, column in self.columns.items()}

    @property
    def access(self) -> Access:
        """MEMORY where the files are mapped, else RECORDS."""
        return Access.RECORDS if self.mapped is None else Access.MEMORY

    def only(self, names: Sequence[str]) -> Records:
        """The same records with these columns alone."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """Every column's part of the records."""
        columns: Columns = {}
        shard, offset, _ = self.manifest.extents(samples)
        for name, column in self.columns.items():
            out = allocate(name, column.allocated(), len(samples))
            if self.mapped is None:
                copy_spans(column, records, out, threads)
            else:
                self.mapped.copy(column, shard, offset + column.at, out, threads)
            columns[name] = finish(column, out)
        return columns

    def joined(self, others: Sequence[Any]) -> Records | None:
        """See `Joinable`: mapped records of the same columns and strides."""
        several = [self, *(other for other in others if isinstance(other, Records) and _lies(other) == _lies(self))]
        mapped = _mapped_together([one.mapped for one in several])
        if mapped is None or len(several) <= len(others):
            return None
        runs = np.concatenate([one.manifest.run_start for one in several])
        first_of_run = joined_edges([one.manifest.first_of_run for one in several])
        manifest = joined_manifest([one.manifest for one in several])
        return Records(replace(manifest, run_start=runs, first_of_run=first_of_run), self.columns, mapped)


@dataclass(frozen=True, eq=False)
class PlacedColumn:
    """Where a column's rows lie: row r of shard s begins at byte start[s] + r · stride of the file number file[s]."""

    column: StoredColumn
    file: Ids
    start: Ids
    stride: int


@dataclass(frozen=True, eq=False)
class PlacedColumns:
    """Columns that lie one after the other in local files, mapped; every column has its own place in every shard."""

    manifest: Manifest
    columns: Mapping[str, PlacedColumn]
    mapped: Mapped = field(repr=False)
    access: Access = Access.MEMORY

    @property
    def spec(self) -> Spec:
        """The columns."""
        return {name: placed.column.field for name, placed in self.columns.items()}

    def only(self, names: Sequence[str]) -> PlacedColumns:
        """The same rows with these columns alone."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """The samples' rows of every column."""
        columns: Columns = {}
        shard = self.manifest.shard_of(samples)
        row = samples - self.manifest.first_sample[shard]
        for name, placed in self.columns.items():
            out = allocate(name, placed.column.allocated(), len(samples))
            start = placed.start[shard] + row * placed.stride
            self.mapped.copy(placed.column, placed.file[shard], start, out, threads)
            columns[name] = finish(placed.column, out)
        return columns

    def joined(self, others: Sequence[Any]) -> PlacedColumns | None:
        """See `Joinable`: the same columns and strides."""
        several = [
            self,
            *(other for other in others if isinstance(other, PlacedColumns) and _lies(other) == _lies(self)),
        ]
        mapped = _mapped_together([one.mapped for one in several])
        if mapped is None or len(several) <= len(others):
            return None
        first_file = np.cumsum([0, *(len(one.mapped.files) for one in several)])
        columns = {}
        for name, placed in self.columns.items():
            each = [one.columns[name] for one in several]
            file = np.concatenate([one.file + first for one, first in zip(each, first_file, strict=False)])
            columns[name] = replace(placed, file=file, start=np.concatenate([one.start for one in each]))
        return PlacedColumns(joined_manifest([one.manifest for one in several]), columns, mapped)


def _lies(source: Records | PlacedColumns) -> list[object]:
    """How rows lie in their files; those of sources of which it is the same can be copied together."""
    if isinstance(source, PlacedColumns):
        return [(name, placed.column, placed.stride) for name, placed in source.columns.items()]
    return [*source.columns.items(), source.manifest.record_bytes, source.manifest.stride_bytes]
