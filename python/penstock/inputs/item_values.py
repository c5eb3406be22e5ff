"""Values of Python items to columns: numbers, text, bytes, and what NumPy takes for an array of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.ragged import check_ragged_shape, ragged_column
from penstock.core.columns.rows import exact_array
from penstock.core.columns.spec import Column as Values
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.source.protocol import Allocate

#: What `np.asarray`, `Tensor.numpy` and `pa.array` raise about values that they cannot take.
REFUSALS = (ValueError, TypeError, RuntimeError, OverflowError, MemoryError, pa.ArrowException)


@dataclass(frozen=True)
class ItemColumn:
    """One column: its name, its feature in the item, its field, and whether the user asked for the dtype."""

    name: str
    feature: str
    field: Field
    asked: bool = False

    @property
    def casting(self) -> Literal["same_kind", "safe"]:
        """NumPy's word for what may be lost: nothing, but for a dtype that the user asked for."""
        return "same_kind" if self.asked else "safe"


def join_values(values: Any, rows: int, column: ItemColumn, allocate: Allocate) -> Values:
    """One column of a list of values, or of a column already; RowError for the first that is not as the field says."""
    if len(values) != rows:
        raise PlanError(
            f"column {quoted(column.feature)} came with {len(values)} values for {rows} samples; return one each"
        )
    try:
        if column.field.dtype in ("string", "bytes"):
            return _words(values, column.field)
        if not column.field.is_fixed:
            arrays, inner = [as_array(value) for value in values], inner_axes(column.field)
            return ragged_column(arrays, column.field.numpy_dtype, inner, casting=column.casting)
        return _stacked(values, column, allocate(column.name, column.field, rows))
    except REFUSALS as error:
        raise _first_bad(values, column, error) from None


def _words(values: Any, field: Field) -> pa.Array:
    kind = pa.large_string() if field.dtype == "string" else pa.large_binary()
    made = values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
    if made.null_count:
        raise ValueError("None is no text")
    return made


def _stacked(values: Any, column: ItemColumn, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
    field = column.field
    if field.shape == () or not isinstance(values, (list, tuple)):
        found = as_array(values)
        if found.shape != out.shape:
            raise ValueError(f"shape {found.shape[1:]}")
        _copy(found, out, column)
        return out
    arrays = [value if type(value) is np.ndarray else as_array(value) for value in values]
    if any(array.shape != field.shape for array in arrays):
        raise ValueError("other shapes")
    np.concatenate(arrays, out=out.reshape(-1, *out.shape[2:]), casting=column.casting)
    return out


def _copy(found: npt.NDArray[Any], out: npt.NDArray[Any], column: ItemColumn) -> None:
    """Copies what fits without loss; narrower integers if the values allow, other floats if the user asked for them."""
    if np.can_cast(found.dtype, out.dtype, "safe"):
        np.copyto(out, found)
    elif found.dtype.kind in "iu" and out.dtype.kind in "iu":
        np.copyto(out, found, casting="unsafe")
        if (out != found).any():
            raise ValueError(f"numbers that {out.dtype} cannot hold")
    else:
        np.copyto(out, found, casting="same_kind" if column.asked else "no")


def as_array(value: Any) -> npt.NDArray[Any]:
    """A value as an array of numbers; ValueError, TypeError or RuntimeError says why it is none."""
    maker = type(value).__module__.partition(".")[0]
    if maker == "PIL":
        return _image(value)
    array: npt.NDArray[Any]
    if maker == "torch":
        array = value.numpy()
    elif isinstance(value, (list, tuple)) and value and type(value[0]).__module__.partition(".")[0] == "torch":
        array = np.stack([tensor.numpy() for tensor in value])
    else:
        array = exact_array(value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"it is a {type(value).__name__} of dtype {array.dtype}")
    return array


def _image(image: Any) -> npt.NDArray[Any]:
    if image.mode == "P":
        raise ValueError("it is an image of palette numbers; call .convert('RGB') on it")
    pixels: npt.NDArray[Any] = np.asarray(image)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


# Fields, and what is wrong with a row


def inner_axes(field: Field) -> tuple[int, ...]:
    """The axes of a ragged field that do not vary: inner_axes(Field("float32", (None, 4))) == (4,)."""
    check_ragged_shape(field.shape)
    return tuple(axis or 0 for axis in field.shape[1:])


def field_of_value(value: Any) -> Field:
    """The field of one row; one of `REFUSALS` if it cannot be held."""
    if isinstance(value, str):
        return Field("string")
    if isinstance(value, (bytes, bytearray)):
        return Field("bytes")
    array = as_array(value)
    return Field(array.dtype.name, array.shape)


def field_of_rows(values: Any) -> Field:
    """The field of a column with one row."""
    if len(values) != 1:
        raise ValueError(f"{len(values)} values for one sample")
    if isinstance(values[0], (str, bytes, bytearray, pa.StringScalar, pa.LargeStringScalar)):
        return Field("bytes" if isinstance(values[0], (bytes, bytearray)) else "string")
    array = as_array(values)
    return Field(array.dtype.name, array.shape[1:])


def _first_bad(values: Any, column: ItemColumn, error: Exception) -> RowError:
    """What is wrong with the first row that is not as the column's field says."""
    field = column.field
    for row, value in enumerate(values):
        try:
            found = field_of_value(value)
        except REFUSALS as refused:
            return RowError(row, f"{quoted(column.feature)}: {refused}", f"the first item has {field}")
        if not _alike(found, column):
            return RowError(
                row, f"{quoted(column.feature)} is {found} where the first item has {field}", _advice(found, field)
            )
    return RowError(0, f"{quoted(column.feature)} cannot be held as {field}: {error}", "make all items alike")


def _alike(found: Field, column: ItemColumn) -> bool:
    field = column.field
    if found.shape == (0,) and not field.is_fixed:  # an empty list has no inner axes, and no dtype of its own
        return True
    if len(found.shape) != len(field.shape):
        return False
    if any(wanted not in (None, axis) for wanted, axis in zip(field.shape, found.shape, strict=True)):
        return False
    if {"string", "bytes"} & {found.dtype, field.dtype}:
        return found.dtype == field.dtype
    return bool(np.can_cast(found.numpy_dtype, field.numpy_dtype, column.casting))


def _advice(found: Field, field: Field) -> str:
    if found.dtype == field.dtype and found.shape and field.shape and found.shape[1:] == field.shape[1:]:
        ragged = ", ".join(["None", *map(str, field.shape[1:])]) + ("," if len(field.shape) == 1 else "")
        return f"make all items of one shape, or give the column a shape of ({ragged}) with columns={{…: penstock.Column(…)}}"
    if found.dtype == field.dtype:
        return "make all items of one shape: resize or pad in the dataset, or return encoded images as bytes"
    return "make all items alike, or ask for a dtype with columns={…: penstock.Column(…)}"
