"""The columns of tf.train.Example records: which features there are, what was asked for, and what a batch becomes."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import DataError, PlanError
from penstock.format.protocol import Column, Options
from penstock.spec import Column as Values
from penstock.spec import Field, Spans

#: What the numbers of an int64 feature can become; those of a float32 feature only the last four.
_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
_FLOATS = _NUMBERS[-4:]
_TEXTS = ("bytes", "string")
#: Names that a message lists at most.
_LISTED = 40


@dataclass(frozen=True)
class Feature:
    """What the first records say of a feature.

    kind: "bytes", "float32", "int64", or "nothing" if no record holds a list; mixed: whether some hold another kind;
    present: records that hold it, of `records`; least, most: values in a record that holds it.
    """

    name: str
    kind: str
    mixed: bool
    present: int
    least: int
    most: int
    records: int


@dataclass(frozen=True)
class ExampleColumn:
    """One column of a batch: what it is called, the feature it is made of, its field, and a default as bytes."""

    name: str
    feature: str
    field: Field
    default: bytes | None

    @property
    def form(self) -> str:
        """How native code gives it back: "fixed", "ragged", "spans" or "texts"."""
        if self.field.dtype in _TEXTS:
            return "spans" if self.field == Field("bytes") else "texts"
        return "ragged" if None in self.field.shape else "fixed"

    def description(self, feature: int) -> tuple[int, str, str, int, str, bytes | None]:
        """The column for `kernels.ExampleParser`."""
        ragged = None in self.field.shape
        values = math.prod(axis for axis in self.field.shape if axis is not None)
        if ragged and self.form == "texts":
            values = -1
        return feature, self.form, self.field.dtype, values, f"{self.field}", self.default

    def finish(self, part: Any, records: Spans) -> Values:
        """What native code gave for the column, as a column of a batch."""
        if self.form == "spans":
            return _finish_spans(part, records, self.default)
        if self.form == "ragged":
            return _finish_ragged(part, self.field)
        data, ends, offsets = part
        kind = pa.large_string() if self.field.dtype == "string" else pa.large_binary()
        values = pa.Array.from_buffers(kind, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])
        return pa.LargeListArray.from_arrays(pa.array(offsets), values) if self.field.shape else values


def _finish_spans(part: Any, records: Spans, default: bytes | None) -> Spans:
    which, offset, length = part
    buffers = records.buffers
    if default is not None and (absent := which < 0).any():
        which[absent] = len(buffers)
        buffers = (*buffers, np.frombuffer(default or b"\0", dtype=np.uint8))
    return Spans(buffers, which, offset, length)


def _finish_ragged(part: Any, field: Field) -> pa.LargeListArray:
    data, offsets = part
    values = pa.array(data.view(field.numpy_dtype))
    for axis in reversed(field.shape[1:]):
        values = pa.FixedSizeListArray.from_arrays(values, axis)
    step = math.prod(axis for axis in field.shape[1:] if axis is not None)
    return pa.LargeListArray.from_arrays(pa.array(offsets // step if step > 1 else offsets), values)


def choose_columns(features: Mapping[str, Feature], options: Options, where: str) -> tuple[ExampleColumn, ...]:
    """The columns that the user wants of the features that the first records have.

    Raises PlanError for features that do not exist and for dtypes and shapes that they cannot have.
    """
    asked = options.columns
    if asked is None:
        wanted: dict[str, Column] = {
            name: Column(feature=name) for name, feature in features.items() if feature.kind != "nothing"
        }
        if not wanted:
            raise PlanError(
                f"{where}: no feature with values in the first records; name the columns with dtype and shape"
            )
    else:
        names = [asked] if isinstance(asked, str) else asked
        pairs = names.items() if isinstance(names, Mapping) else [(name, name) for name in names]
        wanted = {name: Column(feature=column) if isinstance(column, str) else column for name, column in pairs}
        if not wanted:
            raise PlanError("columns: none are named; pass columns=None for all of them")
    return tuple(_column(name, column, features) for name, column in wanted.items())


def _column(name: str, column: Column, features: Mapping[str, Feature]) -> ExampleColumn:
    feature = features.get(column.feature)
    if feature is None or feature.kind == "nothing":
        feature = _unseen(name, column, features)
    dtype = column.dtype or _inferred_dtype(name, feature)
    _check_dtype(name, dtype, feature)
    shape = _inferred_shape(column, feature) if column.shape is None else tuple(column.shape)
    _check_shape(name, dtype, shape, feature)
    field = Field(dtype, shape)
    if column.default is not None and None in shape:
        raise PlanError(f"columns[{name!r}]: a record that lacks a ragged column has no values; leave the default away")
    default = None if column.default is None else default_bytes(name, field, column.default)
    return ExampleColumn(name, column.feature, field, default)


def _unseen(name: str, column: Column, features: Mapping[str, Feature]) -> Feature:
    """A feature that the first records lack: fine where everything is said about it, a slip of the pen otherwise."""
    optional = column.default is not None or (column.shape is not None and None in column.shape)
    records = next((feature.records for feature in features.values()), 0)
    if column.dtype is None or column.shape is None or not optional:
        near = difflib.get_close_matches(column.feature, features, n=1)
        hint = f"; did you mean {near[0]!r}?" if near and near[0] != column.feature else ""
        listed = ", ".join(list(features)[:_LISTED]) + (", …" if len(features) > _LISTED else "")
        raise PlanError(
            f"columns[{name!r}]: no feature {column.feature!r} in the first records{hint} They have: {listed or 'none'}. "
            "A feature that only later records have needs dtype, shape and default"
        )
    warnings.warn(
        f"columns[{name!r}]: none of the first {records} records has the feature {column.feature!r}; "
        "rows get the default unless later records have it",
        stacklevel=2,
    )
    kind = column.dtype if column.dtype in ("float32", "int64") else "bytes" if column.dtype in _TEXTS else "int64"
    return Feature(column.feature, kind, mixed=False, present=0, least=0, most=0, records=records)


def _inferred_dtype(name: str, feature: Feature) -> str:
    if feature.mixed:
        raise DataError(
            f"columns[{name!r}]: feature {feature.name!r} holds {feature.kind} in some records and other kinds in others; "
            "give the column a dtype that takes both, or leave the column out"
        )
    return feature.kind


def _check_dtype(name: str, dtype: str, feature: Feature) -> None:
    known = (*_NUMBERS, *_TEXTS)
    if dtype not in known:
        raise PlanError(f"columns[{name!r}]: dtype {dtype!r} is not known; known are {', '.join(known)}")
    possible = {"bytes": _TEXTS, "float32": _FLOATS, "int64": _NUMBERS}[feature.kind]
    if feature.present and not feature.mixed and dtype not in possible:
        raise PlanError(
            f"columns[{name!r}]: feature {feature.name!r} holds {feature.kind}, which cannot become {dtype}; "
            f"it can become {', '.join(possible)}"
        )


def _inferred_shape(column: Column, feature: Feature) -> tuple[int | None, ...]:
    always = feature.present == feature.records or column.default is not None
    if feature.least != feature.most or feature.most == 0 or not always:
        return (None,)
    return () if feature.most == 1 else (feature.most,)


def _check_shape(name: str, dtype: str, shape: tuple[int | None, ...], feature: Feature) -> None:
    if any(axis is not None and axis < 1 for axis in shape) or None in shape[1:]:
        raise PlanError(f"columns[{name!r}]: shape {shape}: axes are at least 1, and only the first can be None")
    if dtype in _TEXTS and len(shape) > 1:
        raise PlanError(f"columns[{name!r}]: {dtype} has the shapes (), (n,) and (None,), not {shape}")
    values = math.prod(axis for axis in shape if axis is not None)
    if None not in shape and feature.present and not feature.least <= values <= feature.most:
        found = f"{feature.least}" if feature.least == feature.most else f"{feature.least} to {feature.most}"
        raise PlanError(
            f"columns[{name!r}]: shape {shape} takes {values} values, the first records hold {found} in {feature.name!r}; "
            "give the right shape; shape=(None,) takes any number of values"
        )


def default_bytes(name: str, field: Field, default: float | bytes | str) -> bytes:
    """A row of defaults (numbers) or one value (bytes) as native code stores it."""
    if field.dtype in _TEXTS:
        if not isinstance(default, bytes | str):
            raise PlanError(f"columns[{name!r}]: default {default!r} is no {field.dtype}")
        return default.encode() if isinstance(default, str) else default
    bits = field.dtype == "bfloat16"
    dtype = np.dtype(np.float32) if bits else field.numpy_dtype
    try:
        value = np.array(default).astype(dtype)
        fits = dtype.kind == "f" or bool(value == default)
    except (ValueError, OverflowError, TypeError):
        fits = False
    if not fits or isinstance(default, bytes | str):
        raise PlanError(f"columns[{name!r}]: default {default!r} is no {field.dtype}")
    row = np.full([axis or 0 for axis in field.shape], value)
    if bits:
        words = row.view(np.uint32)
        row = ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)
    return row.tobytes()
