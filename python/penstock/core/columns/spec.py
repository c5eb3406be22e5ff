"""What a column is: its description (`Field`) and its three forms in memory.

| form          | for                                             | rows                                     |
| ------------- | ----------------------------------------------- | ---------------------------------------- |
| NumPy array   | fixed shapes: (rows, *shape)                    | first axis                               |
| `Spans`       | bytes of each row, in buffers read before       | offsets, no copy                         |
| Arrow array   | strings, bytes, values of variable length       | large_string, large_binary, large_list   |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import PlanError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ids: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Field:
    """The description of one column.

    Args:
        dtype: a NumPy name ("uint8", "float32", "int64", …), "bfloat16", "bytes" or "string".
        shape: of one row; () is a scalar; None marks an axis whose length varies from row to row. Default: ().
        nullable: whether rows, or values in lists, may be missing; such a column is an Arrow array, also of numbers. Default: False.

    Example:
        from penstock.source import Field

        data.spec["tokens"] == Field("int64", (None,))
    """

    dtype: str
    shape: tuple[int | None, ...] = ()
    nullable: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether every row takes the same number of bytes, so that a batch is one array."""
        return self.dtype not in ("bytes", "string") and None not in self.shape and not self.nullable

    @property
    def required(self) -> Field:
        """The same without missing values."""
        return replace(self, nullable=False) if self.nullable else self

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of the array that holds the rows; bfloat16 is held as its 16 bits."""
        return np.dtype(np.uint16 if self.dtype == "bfloat16" else self.dtype)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a fixed field; 0 for the others."""
        return _row_bytes(self)

    def __str__(self) -> str:
        axes = ", ".join("?" if axis is None else str(axis) for axis in self.shape)
        return (f"{self.dtype}({axes})" if self.shape else self.dtype) + (
            " or null" if self.nullable and self.required.is_fixed else ""
        )

    def __repr__(self) -> str:
        """As digests have it, which do not change for columns without missing values."""
        return f"Field(dtype={self.dtype!r}, shape={self.shape!r}{', nullable=True' if self.nullable else ''})"


@lru_cache(maxsize=1024)
def _row_bytes(field: Field) -> int:
    if not field.is_fixed:
        return 0
    return field.numpy_dtype.itemsize * math.prod(axis or 0 for axis in field.shape)


Spec: TypeAlias = Mapping[str, Field]


def field_of_type(kind: pa.DataType) -> Field:
    """The field of an Arrow type: field_of_type(pa.list_(pa.int32())) == Field("int32", (None,)). PlanError if none fits."""
    kind = unwrapped_type(kind)
    if is_text(kind):
        return Field("string")
    if is_bytes(kind):
        return Field("bytes")
    if is_list(kind):
        inner = field_of_type(kind.value_type)
        fixed = pa.types.is_fixed_size_list(kind) and inner.is_fixed
        return Field(inner.dtype, (kind.list_size if fixed else None, *inner.shape))
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return Field("int64")
    if pa.types.is_decimal(kind):
        return Field("float64")
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Field(np.dtype(kind.to_pandas_dtype()).name)
    if pa.types.is_null(kind):
        raise PlanError(
            "holds only nulls; leave it out with columns=[…], or give its type and a default: "
            "penstock.Column(feature=…, dtype='float32', default=0)"
        )
    raise PlanError(
        f"Arrow type {kind} cannot be held in a batch; leave it out with columns=[…], or cast it in the file"
    )


def unwrapped_type(kind: pa.DataType) -> pa.DataType:
    """The type inside dictionaries, runs and extension types; UUIDs are text, tensors fixed-size lists, maps lists of entries."""
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([kind.key_field, kind.item_field]))
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return unwrapped_type(kind.value_type)
    if not isinstance(kind, pa.BaseExtensionType):
        return kind
    if kind.extension_name == "arrow.uuid":
        return pa.string()
    if kind.extension_name == "arrow.bool8":
        return pa.bool_()
    if kind.extension_name == "arrow.fixed_shape_tensor":
        found = kind.value_type
        for axis in reversed(kind.permutation or range(len(kind.shape))):
            found = pa.list_(found, kind.shape[axis])
        return found
    return unwrapped_type(kind.storage_type)


def is_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds lists, in any of their layouts."""
    plain = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(plain or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text, in any of its layouts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds bytes, in any of their layouts."""
    whole = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(whole or pa.types.is_fixed_size_binary(kind))


@dataclass(frozen=True, eq=False)
class Spans:
    """The bytes of each row as offsets into buffers that were read before; nothing is copied.

    Row i is `buffers[which[i]][offset[i] : offset[i] + length[i]]`.

    Args:
        buffers: uint8 arrays.
        which: int64, one entry a row: the number of its buffer.
        offset: int64, one entry a row: its first byte there.
        length: int64, one entry a row: its bytes.

    Example:
        from penstock.source import Spans

        words = Spans((np.frombuffer(b"onetwo", np.uint8),), np.array([0, 0]), np.array([3, 0]), np.array([3, 3]))
        [words[0], words[1]] == [b"two", b"one"]
    """

    buffers: tuple[Bytes, ...]
    which: Ids
    offset: Ids
    length: Ids

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, row: int) -> bytes:
        start = int(self.offset[row])
        return self.buffers[int(self.which[row])][start : start + int(self.length[row])].tobytes()

    def take(self, rows: Ids) -> Spans:
        """The rows of the given numbers, without a copy of their bytes."""
        return Spans(self.buffers, self.which[rows], self.offset[rows], self.length[rows])


@dataclass(frozen=True, eq=False)
class EntryPoints:
    """Places inside JPEGs at which decoding can start, by sample id.

    offset, length: int64, a sample's bytes in `data` (length 0: none). checksum: uint32, CRC-32C of the record that they were
    made from, so that they are never used for another. data: uint8.
    """

    offset: Ids
    length: Ids
    checksum: npt.NDArray[np.uint32]
    data: Bytes

    @property
    def arrays(self) -> tuple[Ids, Ids, npt.NDArray[np.uint32], Bytes]:
        """The arguments of the kernels."""
        return self.offset, self.length, self.checksum, self.data


Column: TypeAlias = "npt.NDArray[Any] | Spans | pa.Array"
Columns: TypeAlias = dict[str, Column]
