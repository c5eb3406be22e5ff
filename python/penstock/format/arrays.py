"""What is in memory already: NumPy arrays, torch tensors and Arrow arrays as a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock import kernels
from penstock.errors import PlanError, SourceError
from penstock.format.manifest import Manifest
from penstock.format.protocol import Allocate
from penstock.shards import Shards
from penstock.spec import Columns, Field, Ids, Spans, Spec, field_of_type, is_bytes, is_text

#: Bytes of each column that its digest looks at, in 64 evenly spread pieces.
_DIGEST_BYTES = 1 << 20
#: Rows that are gathered while their order is computed: of a cache line at most, in few columns.
_SHORT_BYTES, _FEW_COLUMNS = 64, 4


@dataclass(frozen=True, eq=False)
class MemoryManifest(Manifest):
    """A manifest without files; the digest reads 1 MiB of each column, spread evenly, besides dtypes and shapes."""

    columns: Mapping[str, npt.NDArray[Any] | pa.Array] = None  # type: ignore[assignment]

    @cached_property
    def digest(self) -> str:
        """32 hex digits that identify the data."""
        state = hashlib.blake2b(digest_size=16)
        for name, column in self.columns.items():
            state.update(f"{name} {_field(column)} {len(column)}".encode())
            for part in _buffers(column):
                step = max(1, len(part) // 64)
                for start in range(0, len(part), step):
                    state.update(part[start : start + min(step, _DIGEST_BYTES // 64)])
        return state.hexdigest()

    @property
    def size_bytes(self) -> int:
        """Bytes of all columns together."""
        return sum(len(part) for column in self.columns.values() for part in _buffers(column))


@dataclass(frozen=True, eq=False)
class Arrays:
    """Columns in memory, gathered by native code."""

    manifest: Manifest
    spec: Spec
    columns: Mapping[str, npt.NDArray[Any] | pa.Array]
    random_access: bool = True

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """Row `samples[i]` of every column at place i."""
        taken: Columns = {}
        for name, column in self.columns.items():
            if isinstance(column, pa.Array):
                taken[name] = column.take(pa.array(samples))
                continue
            field = self.spec[name]
            out = allocate(name, field, len(samples))
            kernels.gather_rows(_flat(column), field.row_bytes, samples, _flat(out), threads)
            taken[name] = out
        return taken

    @property
    def gathers_steps(self) -> bool:
        """Whether rows are so short that finding them takes longer than copying them."""
        fields = self.spec.values()
        return all(0 < field.row_bytes <= _SHORT_BYTES for field in fields) and len(self.spec) <= _FEW_COLUMNS

    def gather_steps(
        self,
        order: kernels.EpochOrder,
        share: tuple[int, int],
        step: int,
        rows: int,
        allocate: Allocate,
    ) -> Columns:
        """Whole steps of an epoch, `rows` in all: gathers them while their order is computed."""
        outs = {name: allocate(name, field, rows) for name, field in self.spec.items()}
        sources = [_flat(self.columns[name]) for name in outs]
        widths = [field.row_bytes for field in self.spec.values()]
        order.gather_steps(share, step, rows, sources, widths, [_flat(out) for out in outs.values()])
        return dict(outs)


def from_arrays(columns: Mapping[str, Any]) -> Arrays:
    """Opens arrays of equal length; PlanError for what has no rows, is of another length, or cannot be held natively."""
    held = {name: _hold(name, column) for name, column in columns.items()}
    if not held:
        raise SourceError("from_arrays: no columns; pass e.g. {'x': np.arange(10)}")
    lengths = {name: len(column) for name, column in held.items()}
    if len(set(lengths.values())) > 1:
        raise PlanError(f"from_arrays: the columns differ in length: {lengths}")
    rows = next(iter(lengths.values()))
    if rows == 0:
        raise SourceError("from_arrays: the columns have no rows")
    none = np.empty(0, dtype=np.int64)
    shards = Shards(pa.array([], pa.large_string()), none, none)
    manifest = MemoryManifest("arrays", shards, np.array([0, rows]), columns=held)
    return Arrays(manifest, {name: _field(column) for name, column in held.items()}, held)


def _hold(name: str, column: Any) -> npt.NDArray[Any] | pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = _joined(column)
    if isinstance(column, pa.Array):
        return _hold_arrow(name, column)
    if np.ma.is_masked(column):
        raise PlanError(f"from_arrays: column {name!r} has masked values; fill or drop them first")
    try:
        # Through NumPy, numbers beside texts would become texts, and bytes lose the zeros at their end.
        texts = isinstance(column, (list, tuple)) and any(isinstance(value, (str, bytes)) for value in column)
        array: Any = pa.array(column) if texts else np.asarray(column)
        if not texts and array.dtype.kind in "OUS" and array.ndim == 1:
            array = pa.array(array.tolist())
    except (
        ValueError,
        TypeError,
        RuntimeError,
        pa.ArrowInvalid,
    ) as error:  # ragged lists, tensors elsewhere or with gradients, mixed types
        raise PlanError(f"from_arrays: column {name!r} cannot be held as an array: {error}; convert it first") from None
    if isinstance(array, pa.Array):
        return _hold_arrow(name, array)
    if array.ndim == 0:
        raise PlanError(f"from_arrays: column {name!r} is a single value; every column needs one entry a row")
    if array.dtype.kind not in "biufc":
        raise PlanError(f"from_arrays: column {name!r} has dtype {array.dtype}; convert it to numbers first")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _joined(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks; text with large offsets, since together the chunks may be larger than 2 GiB."""
    if is_text(column.type):
        column = column.cast(pa.large_string())
    if is_bytes(column.type):
        column = column.cast(pa.large_binary())
    return column.combine_chunks()


def _hold_arrow(name: str, column: pa.Array) -> npt.NDArray[Any] | pa.Array:
    _refuse_nulls(name, column)
    kind = column.type
    if is_text(kind):
        return _own(column.cast(pa.large_string()))
    if is_bytes(kind):
        return _own(column.cast(pa.large_binary()))
    inner = kind.value_type if pa.types.is_nested(kind) and hasattr(kind, "value_type") else kind
    if pa.types.is_boolean(inner) or pa.types.is_integer(inner) or pa.types.is_floating(inner):
        if pa.types.is_fixed_size_list(kind):
            _refuse_nulls(name, column.flatten())
            flat = column.flatten().to_numpy(zero_copy_only=False)
            return np.ascontiguousarray(flat.reshape(len(column), kind.list_size))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            _refuse_nulls(name, column.flatten())
            return _own(column.cast(pa.large_list(inner)))
        if inner is kind:
            return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))
    raise PlanError(f"from_arrays: column {name!r} has Arrow type {kind}, which no batch can hold; cast it first")


def _refuse_nulls(name: str, column: pa.Array) -> None:
    if column.null_count:
        raise PlanError(f"from_arrays: column {name!r} has {column.null_count:,} nulls; fill or drop them first")


def _own(column: pa.Array) -> pa.Array:
    """The same values in buffers that hold nothing else, so that a part of a longer array has a digest of its own."""
    if column.nbytes == column.get_total_buffer_size():
        return column
    return pa.concat_arrays([column, column.slice(0, 0)])


def _field(column: npt.NDArray[Any] | pa.Array) -> Field:
    if isinstance(column, pa.Array):
        return field_of_type(column.type)
    return Field(column.dtype.name, column.shape[1:])


def _flat(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _buffers(column: npt.NDArray[Any] | pa.Array) -> list[memoryview]:
    if isinstance(column, pa.Array):
        return [memoryview(buffer) for buffer in column.buffers() if buffer is not None]
    return [memoryview(_flat(column).data)]
