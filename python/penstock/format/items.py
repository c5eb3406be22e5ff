"""Python items to columns: what map-style datasets and generators give, one item a row or whole batches.

| item                      | columns                                                    |
| ------------------------- | ---------------------------------------------------------- |
| dict                      | one a key; inner dicts with dotted names ("box.left")      |
| named tuple               | one a name                                                 |
| tuple, list               | "0", "1", …, or the names given as columns=("image", …)    |
| anything else             | "data"                                                     |

Values are numbers, text, bytes, or what NumPy takes for an array of numbers: arrays, nested lists, torch tensors on the
CPU, PIL pictures (uint8, height × width × channels).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import PlanError, RowError
from penstock.format.protocol import Allocate, Column
from penstock.spec import Column as Values
from penstock.spec import Columns, Field, Spec

#: What `np.asarray`, `Tensor.numpy` and `pa.array` raise about values that they cannot take.
_REFUSALS = (ValueError, TypeError, RuntimeError, OverflowError, pa.ArrowException)


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


@dataclass(frozen=True)
class Items:
    """How items become columns, learnt from the first item.

    take: the values of each feature, by its name, of a list of items; RowError for the first item of another form.
    """

    columns: tuple[ItemColumn, ...]
    take: Callable[[Sequence[Any]], Mapping[str, Sequence[Any]]]

    @property
    def spec(self) -> Spec:
        """The columns' fields."""
        return {column.name: column.field for column in self.columns}

    def stack(self, items: Sequence[Any], allocate: Allocate) -> Columns:
        """One row an item; RowError for the first that is not as the first item of all was."""
        return self.join(self.take(items), len(items), allocate)

    def join(self, values: Mapping[str, Any], rows: int, allocate: Allocate) -> Columns:
        """Columns of the values of each feature, `rows` entries each."""
        return {column.name: _join(values[column.feature], rows, column, allocate) for column in self.columns}


Asked = Mapping[str, "str | Column"] | Sequence[str] | None


def learn_items(first: Any, asked: Asked, where: str) -> Items:
    """The columns of items like `first`; PlanError for columns that it does not have and values that no batch can hold."""
    names = _names_of(first, asked)
    take = _taker(first, names)
    features = {name: values[0] for name, values in take([first]).items()}
    return Items(_choose(features, None if names is not None else asked, _field_of_value, where), take)


def learn_columns(first: Mapping[str, Any], asked: Asked, where: str) -> Items:
    """The same for whole columns, as a `__getitems__` may give them; `first` holds one row."""
    return Items(_choose(first, asked, _field_of_rows, where), lambda items: {str(name): items for name in first})


def _choose(
    features: Mapping[str, Any], asked: Asked, field_of: Callable[[Any], Field], where: str
) -> tuple[ItemColumn, ...]:
    if not features:
        raise PlanError(f"{where}: the first item is empty; an item needs at least one value")
    if asked is None:
        wanted: Mapping[str, str | Column] = {name: name for name in features}
    else:
        wanted = asked if isinstance(asked, Mapping) else {name: name for name in asked}
    return tuple(_column(name, wish, features, field_of, where) for name, wish in wanted.items())


def _column(
    name: str, wish: str | Column, features: Mapping[str, Any], field_of: Callable[[Any], Field], where: str
) -> ItemColumn:
    column = wish if isinstance(wish, Column) else Column(feature=wish)
    if column.feature not in features:
        close = difflib.get_close_matches(column.feature, features, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise PlanError(f"{where}: items have no {column.feature!r}; they have {', '.join(features)}{meant}")
    try:
        field = field_of(features[column.feature])
    except _REFUSALS as error:
        raise PlanError(
            f"{where}: {column.feature!r} of the first item cannot be held in a batch: {error}; return numbers, arrays "
            f"of numbers, text or bytes"
        ) from None
    asked = Field(column.dtype or field.dtype, field.shape if column.shape is None else column.shape)
    return ItemColumn(name, column.feature, asked, asked=column.dtype is not None)


# The form of items


def _names_of(first: Any, asked: Asked) -> tuple[str, ...] | None:
    """Names for the places of a tuple, where `columns` gives them."""
    if not isinstance(first, (tuple, list)) or hasattr(first, "_fields"):
        return None
    if asked is None or isinstance(asked, Mapping):
        return None
    if len(asked) != len(first):
        raise PlanError(
            f"columns={tuple(asked)!r} names {len(asked)} values, and items are {type(first).__name__}s of {len(first)}; "
            f"name every place, or choose with columns={{'image': '0'}}"
        )
    return tuple(asked)


def _taker(first: Any, names: tuple[str, ...] | None) -> Callable[[Sequence[Any]], Mapping[str, Sequence[Any]]]:
    if isinstance(first, Mapping):
        if any(isinstance(value, Mapping) for value in first.values()):
            keys = _flat(first).keys()
            return lambda items: _by_key([_flat(item) for item in items], keys)
        return lambda items: _by_key(items, first.keys())
    if isinstance(first, (tuple, list)):
        places = names or getattr(first, "_fields", None) or tuple(map(str, range(len(first))))
        return lambda items: _by_place(items, places)
    return lambda items: {"data": items}


def _flat(item: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(item, Mapping):
        return {"": item}
    flat: dict[str, Any] = {}
    for key, value in item.items():
        inner = _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
        flat.update(inner)
    return flat


def _by_key(items: Sequence[Any], keys: Any) -> dict[str, list[Any]]:
    for row, item in enumerate(items):
        if not isinstance(item, Mapping) or item.keys() != keys:
            found = f"the keys {sorted(map(str, item))}" if isinstance(item, Mapping) else f"a {type(item).__name__}"
            raise RowError(
                row, f"an item with {found}", f"every item must have the first one's: {list(map(str, keys))}"
            )
    return {str(key): [item[key] for item in items] for key in keys}


def _by_place(items: Sequence[Any], places: tuple[str, ...]) -> dict[str, Sequence[Any]]:
    for row, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != len(places):
            found = f"of {len(item)}" if isinstance(item, (tuple, list)) else ""
            raise RowError(
                row,
                f"an item that is a {type(item).__name__} {found}".rstrip(),
                f"the first one has {len(places)} values",
            )
    return dict(zip(places, zip(*items, strict=True), strict=True))


# Values to columns


def _join(values: Any, rows: int, column: ItemColumn, allocate: Allocate) -> Values:
    if len(values) != rows:
        raise PlanError(f"column {column.feature!r} came with {len(values)} values for {rows} samples; return one each")
    try:
        if column.field.dtype in ("string", "bytes"):
            return _words(values, column.field)
        if not column.field.is_fixed:
            return _ragged([as_array(value) for value in values], column)
        return _stacked(values, column, allocate(column.name, column.field, rows))
    except _REFUSALS as error:
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


def _ragged(arrays: list[npt.NDArray[Any]], column: ItemColumn) -> pa.Array:
    if any(array.ndim != 1 for array in arrays):
        raise ValueError("rows of variable length have one axis")
    offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    told = [array for array in arrays if len(array)]  # an empty list has no dtype of its own
    flat = np.concatenate([np.empty(0, np.bool_), *told], dtype=column.field.numpy_dtype, casting=column.casting)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat))


def as_array(value: Any) -> npt.NDArray[Any]:
    """A value as an array of numbers; ValueError, TypeError or RuntimeError says why it is none."""
    maker = type(value).__module__.partition(".")[0]
    if maker == "PIL":
        return _picture(value)
    array: npt.NDArray[Any]
    if maker == "torch":
        array = value.numpy()
    elif isinstance(value, (list, tuple)) and value and type(value[0]).__module__.partition(".")[0] == "torch":
        array = np.stack([tensor.numpy() for tensor in value])
    else:
        array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"it is a {type(value).__name__} of dtype {array.dtype}")
    return array


def _picture(picture: Any) -> npt.NDArray[Any]:
    if picture.mode == "P":
        raise ValueError("it is a picture of palette numbers; call .convert('RGB') on it")
    pixels: npt.NDArray[Any] = np.asarray(picture)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


# Fields, and what is wrong with a row


def _field_of_value(value: Any) -> Field:
    if isinstance(value, str):
        return Field("string")
    if isinstance(value, (bytes, bytearray)):
        return Field("bytes")
    array = as_array(value)
    return Field(array.dtype.name, array.shape)


def _field_of_rows(values: Any) -> Field:
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
            found = _field_of_value(value)
        except _REFUSALS as refused:
            return RowError(row, f"{column.feature!r}: {refused}", f"the first item has {field}")
        if not _alike(found, column):
            return RowError(
                row, f"{column.feature!r} is {found} where the first item has {field}", _advice(found, field)
            )
    return RowError(0, f"{column.feature!r} cannot be held as {field}: {error}", "make all items alike")


def _alike(found: Field, column: ItemColumn) -> bool:
    field = column.field
    if len(found.shape) != len(field.shape):
        return False
    if any(wanted not in (None, axis) for wanted, axis in zip(field.shape, found.shape, strict=True)):
        return False
    if {"string", "bytes"} & {found.dtype, field.dtype}:
        return found.dtype == field.dtype
    return bool(np.can_cast(found.numpy_dtype, field.numpy_dtype, column.casting))


def _advice(found: Field, field: Field) -> str:
    if found.dtype == field.dtype and len(found.shape) == len(field.shape) == 1:
        return "make all items of one shape, or give the column a shape of (None,) with columns={…: penstock.Column(…)}"
    if found.dtype == field.dtype:
        return "make all items of one shape: resize or pad in the dataset, or return encoded pictures as bytes"
    return "make all items alike, or ask for a dtype with columns={…: penstock.Column(…)}"
