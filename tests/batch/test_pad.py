"""Ragged columns made dense: against NumPy, for every dtype, and the paddings and columns that cannot be."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.batch.pad import pad_columns, padded_spec
from penstock.core.columns.ragged import edges_of, lists_of
from penstock.core.columns.rows import new_rows
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError, RowError
from penstock.core.verbs.padding import Padding
from support.tries import tries

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"]


def rows_of(lengths: list[int], dtype: str, inner: tuple[int, ...] = ()) -> tuple[pa.Array, list[Any]]:
    """A column, and its rows as arrays."""
    arrays = [(np.arange(length * int(np.prod(inner))) % 2).astype(dtype).reshape(length, *inner) for length in lengths]
    flat = np.concatenate([np.empty(0, dtype), *(array.reshape(-1) for array in arrays)])
    return lists_of(flat, edges_of(lengths), inner), arrays


@given(
    lengths=st.lists(st.integers(0, 30), max_size=12),
    dtype=st.sampled_from(DTYPES),
    inner=st.sampled_from([(), (1,), (2, 3)]),
    multiple=st.sampled_from([None, 1, 8]),
    length=st.sampled_from([None, 1, 17]),
    value=st.sampled_from([0, 1]),
)
@settings(max_examples=tries(2_000, at_least=100), deadline=None)
def test_rows_are_padded(lengths: list[int], dtype: str, inner: Any, multiple: Any, length: Any, value: int) -> None:
    column, arrays = rows_of(lengths, dtype, inner)
    padding = Padding(
        multiple_of=None if length else multiple, length=length, truncate=length is not None, padding_value=value
    )
    spec = {"x": Field(dtype, (None, *inner)), "id": Field("int64")}
    made, fields = pad_columns({"x": column, "id": np.arange(len(lengths))}, spec, padding, new_rows, threads=2)
    assert [*made] == ["x", "x_lengths", "x_mask", "id"] == [*fields] == [*padded_spec(padding, spec)]
    longest = max(lengths, default=0)
    wide = length or -(-longest // (multiple or 1)) * (multiple or 1)
    wanted = np.full((len(lengths), wide, *inner), value, dtype=dtype)
    for row, array in enumerate(arrays):
        wanted[row, : len(array)] = array[:wide]
    kept = np.minimum(np.array(lengths, dtype=np.int32), wide)
    for name, column_ in {"x": wanted, "x_lengths": kept, "x_mask": np.arange(wide) < kept[:, None]}.items():
        assert made[name].dtype == column_.dtype == fields[name].numpy_dtype
        assert np.array_equal(made[name], column_)
        assert fields[name].shape == column_.shape[1:]


def test_values_of_each_column() -> None:
    columns = {name: rows_of([1, 2], dtype)[0] for name, dtype in (("a", "int64"), ("b", "float32"), ("c", "int8"))}
    spec = {"a": Field("int64", (None,)), "b": Field("float32", (None,)), "c": Field("int8", (None,))}
    padding = Padding(columns=("a", "b"), padding_value=(("a", -100), ("b", 0.5)))
    made, _ = pad_columns(columns, spec, padding, new_rows)
    assert (made["a"].tolist(), made["b"].tolist()) == ([[0, -100], [0, 1]], [[0.0, 0.5], [0.0, 1.0]])
    assert made["c"] is columns["c"]


def test_bfloat16_is_its_bits() -> None:
    column = pa.array([[0x3F80], []], pa.large_list(pa.uint16()))
    made, fields = pad_columns({"x": column}, {"x": Field("bfloat16", (None,))}, Padding(padding_value=-2.0), new_rows)
    assert made["x"].tolist() == [[0x3F80], [0xC000]]
    assert fields["x"] == Field("bfloat16", (1,))


def test_long_rows_are_refused_by_name() -> None:
    column, _ = rows_of([2, 3, 1_009, 9], "int32")
    with pytest.raises(
        RowError, match=r"column 'x' has 1,009 values, and rows are padded to 3; pass batch_padded a"
    ) as error:
        pad_columns({"x": column}, {"x": Field("int32", (None,))}, Padding(length=3), new_rows)
    assert error.value.row == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"length": 0}, "length=0; it is a whole number from 1"),
        ({"multiple_of": -8}, "multiple_of=-8"),
        ({"multiple_of": 8, "length": 64}, "length= and multiple_of= both say"),
        ({"truncate": True}, "truncate=True needs a length"),
        ({"columns": ()}, r"columns=\(\)"),
        ({"columns": ("x", "x")}, ".* names one twice"),
        ({"columns": (1,)}, r"columns=\(1,\)"),
        ({"padding_value": None}, "padding_value=None"),
        ({"padding_value": (("x", "0"),)}, "padding_value='0'"),
        ({"columns": ("x",), "padding_value": (("y", 0),)}, "padding_value names 'y', and the columns are x"),
    ],
)
def test_paddings_that_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=f"^batch_padded: {message}"):
        Padding(**more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"columns": ("y",)}, "no column 'y'; there are x, text, id, deep, id_mask"),
        ({"columns": ("text",)}, "column 'text' is string, and only lists of numbers are padded; choose among x"),
        ({"columns": ("id",)}, "column 'id' is int64"),
        ({"columns": ("deep",)}, r"column 'deep' is int32\(\?, \?\)"),
        ({"padding_value": (("id", 0),)}, "padding_value names 'id', which is not padded; choose among x"),
        ({"padding_value": 300}, "padding_value=300 is no int8, which column 'x' is"),
        ({"padding_value": 0.5}, "padding_value=0.5 is no int8"),
        ({"padding_value": float("nan")}, "padding_value=nan is no int8"),
    ],
)
def test_columns_that_cannot_be_padded(more: dict[str, Any], message: str) -> None:
    spec = {
        "x": Field("int8", (None,)),
        "text": Field("string"),
        "id": Field("int64"),
        "deep": Field("int32", (None, None)),
        "id_mask": Field("bool"),
    }
    with pytest.raises(PlanError, match=f"^batch_padded: {message}"):
        padded_spec(Padding(**more), spec)


@pytest.mark.parametrize(("dtype", "value"), [("float16", 70000), ("float32", 1e39), ("bfloat16", 1e39)])
def test_padding_values_that_would_be_infinite(dtype: str, value: float) -> None:
    with pytest.raises(PlanError, match=f"batch_padded: padding_value={re.escape(str(value))} is no {dtype}"):
        padded_spec(Padding(padding_value=value), {"x": Field(dtype, (None,))})
    padded_spec(Padding(padding_value=float("inf")), {"x": Field(dtype, (None,))})


@pytest.mark.parametrize("made", ["x_mask", "x_lengths"])
def test_names_that_clash(made: str) -> None:
    spec = {"x": Field("int8", (None,)), made: Field("int8")}
    with pytest.raises(PlanError, match=f"padding 'x' makes a column '{made}', and there is one already"):
        padded_spec(Padding(), spec)
