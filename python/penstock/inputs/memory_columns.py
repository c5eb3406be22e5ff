"""What users have in memory, as columns: dicts of arrays, Arrow tables, pandas and Polars frames, lists of dicts.

| value                                              | column                                                         |
| -------------------------------------------------- | -------------------------------------------------------------- |
| numbers, booleans, bfloat16 (ml_dtypes, torch)     | an array of the same dtype                                     |
| text, bytes, dictionaries and categories of them   | large_string, large_binary                                     |
| dates, times, durations of NumPy, Arrow, pandas    | int64, in the unit of their type                               |
| lists of arrays or lists that differ in length     | ragged (see `penstock.core.columns.ragged`)                                 |
| None, NaT, pandas.NA, nulls, what is masked        | refused, or Arrow's nulls where there is a rule about them; NaN is a number where the column is one of floats |

pandas and Polars are known by their names and protocols, and never imported.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.categories import Categories
from penstock.core.columns.plain import array_imports_pandas, as_texts
from penstock.core.columns.ragged import ragged_column
from penstock.core.columns.spec import Field, field_of_type, is_bytes, is_text
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.messages import quoted
from penstock.core.verbs.options import Nulls
from penstock.inputs.item_values import REFUSALS, as_array
from penstock.source.nulls import null_rows, numbers_of, valid_name
from penstock.source.tables.table import TableColumn, column_of, one_array

#: As many axes as NumPy's arrays have.
_DEEPEST = 64
#: Rows of a byte each would fill the memory of any machine.
_MOST_ROWS = 1 << 39
_WHAT = "pass a dict of columns, a list of dicts, a pyarrow.Table, or a pandas or Polars DataFrame"


@dataclass(frozen=True, eq=False)
class HeldColumn:
    """A column: contiguous NumPy values, native and with rows first (bfloat16 as uint16), or Arrow values; and what they are.

    categories: of a column of categories, those of each part.
    """

    values: Any
    field: Field
    categories: tuple[Categories, ...] = ()


# Columns by their names


def named_columns(given: Any) -> Mapping[str, Any]:
    """The columns of whatever holds some; PlanError for what holds none, names that are no text, and names that come twice."""
    if isinstance(given, Mapping):
        return given
    if _maker(given) == "pandas" and hasattr(given, "columns"):
        return _of_pandas(given)
    if isinstance(given, (list, tuple)) and all(isinstance(row, Mapping) for row in given):
        return _of_rows(given)
    if hasattr(given, "__arrow_c_stream__") and hasattr(given, "columns"):
        given = pa.table(given)
    if isinstance(given, (pa.Table, pa.RecordBatch)):
        _refuse_twice(given.schema.names)
        return dict(zip(given.schema.names, given.columns, strict=True))
    if hasattr(given, "collect"):
        raise PlanError(f"from_arrays: {type(given).__name__} is a query that has not run; call .collect() first")
    raise PlanError(f"from_arrays: {type(given).__name__}; {_WHAT}")


def _maker(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _refuse_twice(names: Sequence[Any]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise PlanError(f"from_arrays: several columns are named {quoted(twice[0])}; give each a name of its own")


def _of_pandas(frame: Any) -> Mapping[str, Any]:
    """A frame's columns. Row numbers are left out; an index with a name holds data, which must not be lost."""
    if odd := [name for name in frame.columns if not isinstance(name, str)]:
        raise PlanError(
            f"from_arrays: a column is named {quoted(odd[0])}, a {type(odd[0]).__name__}; name columns by text: "
            f"frame.columns = frame.columns.map(str)"
        )
    _refuse_twice(list(frame.columns))
    if named := [name for name in frame.index.names if name is not None]:
        raise PlanError(
            f"from_arrays: the index {quoted(named[0])} is no column; make it one with frame.reset_index(), or leave it out with "
            f"frame.reset_index(drop=True)"
        )
    return {name: frame[name] for name in frame.columns}


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if not rows:
        raise SourceError(f"from_arrays: an empty {type(rows).__name__}; {_WHAT}")
    names = list(rows[0])
    for number, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            raise PlanError(
                f"from_arrays: row {number} has the keys {list(row)}, and row 0 has {names}; every row must have the same ones"
            )
    return {str(name): [row[name] for row in rows] for name in names}


# One column


def hold(name: str, column: Any, nulls: Nulls = "error") -> HeldColumn:
    """A column as batches can be gathered from; PlanError for what cannot be held, with the reason."""
    held = _held(name, column, nulls)
    return replace(held, categories=_categories(column))


def _categories(column: Any) -> tuple[Categories, ...]:
    """The categories of a column that could be held, if it has some."""
    if _maker(column) == "pandas" and str(getattr(column, "dtype", "")) == "category":
        column = pa.array(column[:0])
    elif _maker(column) == "polars":
        column = pa.chunked_array(column)
    kind = getattr(column, "type", None)
    if not isinstance(kind, pa.DataType) or not pa.types.is_dictionary(kind):
        return ()
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return tuple(Categories.of(chunk, f"chunk {number}") for number, chunk in enumerate(chunks))


def _held(name: str, column: Any, nulls: Nulls) -> HeldColumn:
    try:
        plain = _plain(name, column)
    except REFUSALS as error:  # tensors elsewhere or with gradients, mixed types
        if isinstance(error, PlanError):
            raise
        raise PlanError(
            f"from_arrays: column {quoted(name)} cannot be held as an array: {error}; convert it first"
        ) from None
    if isinstance(plain, HeldColumn):
        return plain
    what = "nulls"
    if isinstance(plain, np.ndarray) and plain.ndim and (np.ma.is_masked(plain) or _has_missing_times(plain)):
        what = "masked values" if np.ma.is_masked(plain) else "missing times (NaT)"
        plain = _arrow_of_masked(plain)
    if not isinstance(plain, pa.Array):
        return _hold_numpy(name, plain)
    plain = _written_out(plain)
    missing = int(null_rows(plain).sum())
    if missing and nulls == "error":
        raise PlanError(
            f"from_arrays: column {quoted(name)} has {missing:,} {what}; fill or drop them first, or say what they become: nulls='nan' makes "
            f"floats with NaN of numbers, nulls='mask' adds the column {quoted(valid_name(name))}, nulls='arrow' keeps nulls, as all three do in text and lists"
        )
    return _hold_arrow(name, plain, has_nulls=bool(missing))


def _has_missing_times(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind in "mM" and bool(np.isnat(array).any())


def _arrow_of_masked(array: npt.NDArray[Any], null: pa.Array | None = None) -> pa.Array:
    """Numbers with nulls for what is masked, and for NaT. null: which rows are as a whole."""
    values = np.ma.getdata(array)
    missing = np.ma.getmaskarray(array) | (np.isnat(values) if values.dtype.kind in "mM" else False)
    if values.dtype.kind in "mM":
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")).view(np.int64)
    made = pa.array(np.ascontiguousarray(values).reshape(-1), mask=missing.reshape(-1))
    for number, axis in reversed([*enumerate(values.shape[1:])]):
        made = pa.FixedSizeListArray.from_arrays(made, axis, mask=None if number else null)
    return made


def _plain(name: str, column: Any) -> npt.NDArray[Any] | pa.Array | HeldColumn:
    """The column as a NumPy array, or as an Arrow array where it holds no numbers; as it is held where NumPy has no such dtype."""
    if isinstance(column, pa.ChunkedArray):
        return one_array(_without_views(column))
    if isinstance(column, pa.Array):
        return column
    if np.ma.is_masked(column):
        return np.ma.asarray(column)
    if isinstance(column, Sized) and len(column) > _MOST_ROWS:
        raise PlanError(
            f"from_arrays: column {quoted(name)} has more than {_MOST_ROWS:,} rows, and all would be held in memory; write them to files"
        )
    maker = _maker(column)
    if maker == "pandas":
        return _pandas_series(name, column)
    if maker == "torch":
        return _torch_values(column)
    if maker != "numpy" and hasattr(column, "__arrow_c_stream__"):
        return one_array(_without_views(pa.chunked_array(column)))
    # Through NumPy, numbers beside texts would become texts, and bytes lose the zeros at their end.
    if isinstance(column, (list, tuple)) and any(isinstance(value, (str, bytes)) for value in column):
        return _inferred(column)
    return _numpy_values(column)


def _numpy_values(column: Any) -> npt.NDArray[Any] | pa.Array:
    try:
        array: npt.NDArray[Any] = np.asarray(column)
    except ValueError:  # rows of several lengths
        return _ragged(list(column))
    if (
        array.dtype.kind == "O"
        and array.ndim
        and any(isinstance(value, (list, tuple, np.ndarray)) for value in array.flat)
    ):
        return _ragged(list(column))
    if array.dtype.kind in "OUS" and array.ndim:
        return _inferred(array.tolist())
    return array


def _inferred(values: Any) -> pa.Array:
    """What Arrow makes of Python values; it ends the process for what is nested without an end."""
    are_texts = bool(values) and array_imports_pandas() and all(type(value) is str for value in values)
    if are_texts and (texts := as_texts(values)) is not None:
        return texts
    level = values
    for _ in range(_DEEPEST):
        level = [
            value
            for one in level
            if isinstance(one, (list, tuple, Mapping))
            for value in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not level:
            return pa.array(values, from_pandas=True)
    raise PlanError(f"from_arrays: lists nested deeper than {_DEEPEST}; no batch can hold them")


def _ragged(rows: list[Any]) -> pa.Array:
    """Rows of several lengths, where only the first axis varies; lists in lists of any length, as Arrow has them."""
    try:
        arrays = [as_array(row) for row in rows]
    except REFUSALS:
        return _inferred(rows)
    full = [array for array in arrays if array.shape != (0,)] or arrays
    return ragged_column(arrays, np.result_type(*full), full[0].shape[1:])


def _torch_values(tensor: Any) -> npt.NDArray[Any] | HeldColumn:
    if str(tensor.dtype) != "torch.bfloat16" or tensor.requires_grad:
        return np.asarray(tensor)
    bits = tensor.contiguous().view(sys.modules["torch"].int16).numpy()
    return HeldColumn(bits.view(np.uint16), Field("bfloat16", bits.shape[1:]))


def _pandas_series(name: str, series: Any) -> npt.NDArray[Any] | pa.Array | HeldColumn:
    kind = getattr(series, "dtype", None)
    if not isinstance(kind, np.dtype):  # pandas' own types: categories, text, nullable numbers, times of a zone
        array = pa.array(series, from_pandas=True)
        return one_array(_without_views(array)) if isinstance(array, pa.ChunkedArray) else array
    return _plain(name, series.tolist() if kind.kind == "O" else series.to_numpy())


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Categories whose names are views, as Polars has them, with names that can be looked up."""
    if not pa.types.is_dictionary(column.type):
        return column
    names = column.type.value_type
    kind = pa.large_string() if is_text(names) else pa.large_binary() if is_bytes(names) else names
    parts = [pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(kind)) for part in column.chunks]
    return pa.chunked_array([part.dictionary_decode() for part in parts], kind)


def _hold_numpy(name: str, array: npt.NDArray[Any]) -> HeldColumn:
    if array.ndim == 0:
        raise PlanError(f"from_arrays: column {quoted(name)} is a single value; every column needs one entry a row")
    if array.dtype.name == "bfloat16":
        return HeldColumn(np.ascontiguousarray(array).view(np.uint16), Field("bfloat16", array.shape[1:]))
    if array.dtype.kind in "mM":
        return _hold_times(array)
    if array.dtype.kind not in "biufc":
        raise PlanError(f"from_arrays: column {quoted(name)} has dtype {array.dtype}; convert it to numbers first")
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return HeldColumn(native, Field(native.dtype.name, native.shape[1:]))


def _hold_times(array: npt.NDArray[Any]) -> HeldColumn:
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return HeldColumn(native.view(np.int64), Field("int64", native.shape[1:]))


def _written_out(column: pa.Array) -> pa.Array:
    """A column without dictionaries and runs."""
    if pa.types.is_dictionary(column.type):
        return one_array(_without_views(pa.chunked_array([column])))
    return pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column


def _hold_arrow(name: str, column: pa.Array, *, has_nulls: bool) -> HeldColumn:
    try:
        field = replace(field_of_type(column.type), nullable=has_nulls)
        values = column_of(column, TableColumn(name, (name,), field))
    except (PlanError, DataError):
        raise PlanError(
            f"from_arrays: column {quoted(name)} has Arrow type {column.type}, which no batch can hold; cast it first"
        ) from None
    if has_nulls and field.required.is_fixed:  # whatever lies where values are missing would be part of the digest
        assert isinstance(values, pa.Array)
        numbers, valid = numbers_of(values, field)
        values = _arrow_of_masked(np.ma.masked_array(numbers, ~valid), values.is_null())
    return HeldColumn(_own(values) if isinstance(values, pa.Array) else np.ascontiguousarray(values), field)


def _own(column: pa.Array) -> pa.Array:
    """The same values in buffers that hold nothing else, so that a part of a longer array has a digest of its own."""
    if column.nbytes == column.get_total_buffer_size():
        return column
    return pa.concat_arrays([column, column.slice(0, 0)])
