"""Arrow tables to columns: every type, nulls, defaults, slices with offsets, and what cannot be held."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import RowError
from penstock.format.protocol import Options
from penstock.format.table import choose_columns, columns_of
from penstock.spec import Field


def column_of(array: pa.Array | pa.ChunkedArray, **typed: Any) -> Any:
    """The column "x" of a table that has only this, and what it is described as."""
    table = pa.table({"x": array})
    wish = {"x": ps.Column(feature="x", **typed)} if typed else None
    chosen = choose_columns(table.schema, Options(columns=wish), "here")
    return columns_of(table, chosen)["x"], chosen[0].field


def values(column: Any) -> list[Any]:
    return column.to_pylist() if isinstance(column, pa.Array) else column.tolist()


DAY = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
TYPES = [
    (pa.array([1, -2], pa.int8()), Field("int8"), [1, -2]),
    (pa.array([1, 2**64 - 1], pa.uint64()), Field("uint64"), [1, 2**64 - 1]),
    (pa.array([0.5, 2], pa.float16()), Field("float16"), [0.5, 2.0]),
    (pa.array([True, False, True]), Field("bool"), [True, False, True]),
    (pa.array(["a", ""]), Field("string"), ["a", ""]),
    (pa.array(["a", "a longer text than a view holds inline"], pa.string_view()), Field("string"), None),
    (pa.array([b"a", b"\xff"]), Field("bytes"), [b"a", b"\xff"]),
    (pa.array([b"ab", b"cd"], pa.binary(2)), Field("bytes"), [b"ab", b"cd"]),
    (pa.array([b"a", b"x" * 40], pa.binary_view()), Field("bytes"), [b"a", b"x" * 40]),
    (pa.array(["b", "a", "b"]).dictionary_encode(), Field("string"), ["b", "a", "b"]),
    (pa.array([7, 5, 7]).dictionary_encode(), Field("int64"), [7, 5, 7]),
    (pa.array([DAY], pa.timestamp("ms", "UTC")), Field("int64"), [1_704_153_600_000]),
    (pa.array([DAY.date()], pa.date32()), Field("int64"), [19_724]),
    (pa.array([dt.time(0, 0, 3)], pa.time32("s")), Field("int64"), [3]),
    (pa.array([dt.timedelta(seconds=2)], pa.duration("us")), Field("int64"), [2_000_000]),
    (pa.array([Decimal("1.25"), Decimal(-3)], pa.decimal128(9, 2)), Field("float64"), [1.25, -3.0]),
    (pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)), Field("int16", (2,)), [[1, 2], [3, 4]]),
    (pa.array([[1], [], [2, 3]], pa.list_(pa.int32())), Field("int32", (None,)), [[1], [], [2, 3]]),
    (pa.array([["a"], []]), Field("string", (None,)), [["a"], []]),
    (pa.array([[[1], []], []], pa.list_(pa.list_(pa.int8()))), Field("int8", (None, None)), [[[1], []], []]),
]


@pytest.mark.parametrize(("array", "field", "wanted"), TYPES, ids=lambda part: str(getattr(part, "type", "")))
def test_every_type(array: pa.Array, field: Field, wanted: list[Any] | None) -> None:
    wanted = array.to_pylist() if wanted is None else wanted
    for form in (array, pa.chunked_array([array[:1], array[1:1], array[1:]])):
        column, found = column_of(form)
        assert (values(column), found) == (wanted, field)
        if found.is_fixed:
            assert column.dtype == found.numpy_dtype
            assert column.flags.c_contiguous
    padded = pa.concat_arrays([array, array, array]) if not pa.types.is_dictionary(array.type) else array
    sliced = padded[1 : len(array) + 1]
    assert values(column_of(sliced)[0]) == values(column_of(pa.array(sliced.to_pylist(), sliced.type))[0])


def test_structs_are_taken_apart() -> None:
    table = pa.table({"a": [{"b": {"c": 1}, "d": "x"}, {"b": {"c": 2}, "d": "y"}], "e": [3, 4]})
    chosen = choose_columns(table.schema, Options(), "here")
    columns = columns_of(table, chosen)
    assert {name: values(column) for name, column in columns.items()} == {
        "a.b.c": [1, 2],
        "a.d": ["x", "y"],
        "e": [3, 4],
    }
    assert values(columns_of(table.slice(1), chosen)["a.b.c"]) == [2]


@pytest.mark.parametrize(
    ("array", "default", "wanted"),
    [
        (pa.array([1, None, 3]), 9, [1, 9, 3]),
        (pa.array(["a", None]), "b", ["a", "b"]),
        (pa.array([None, b"a"]), b"", [b"", b"a"]),
        (pa.array([None, True]), False, [False, True]),
    ],
)
def test_nulls(array: pa.Array, default: Any, wanted: list[Any]) -> None:
    row = array.to_pylist().index(None)
    with pytest.raises(RowError, match=f"row {row}: column 'x' is null; give it a value with columns="):
        column_of(array)
    assert values(column_of(array, default=default)[0]) == wanted


def test_a_null_struct_has_null_fields() -> None:
    table = pa.table({"a": pa.array([{"b": 1}, None], pa.struct([("b", pa.int64())]))})
    with pytest.raises(RowError, match=r"row 1: column 'a\.b' is null"):
        columns_of(table, choose_columns(table.schema, Options(), "here"))


def test_a_default_of_another_type() -> None:
    with pytest.raises(ps.PlanError, match=r"default 'x' does not fit int64"):
        column_of(pa.array([1, None]), default="x")


def test_lists_of_a_length_become_arrays() -> None:
    column, _ = column_of(pa.array([[[1, 2]], [[3, 4]]]), shape=(1, 2), dtype="float32")
    assert (column.tolist(), column.dtype) == ([[[1.0, 2.0]], [[3.0, 4.0]]], np.float32)
    with pytest.raises(
        RowError, match=r"row 1: a list of 1 values where int64\(2\) is wanted; give the column a shape"
    ):
        column_of(pa.array([[1, 2], [3], [4, 5]]), shape=(2,))
    with pytest.raises(ps.DataError, match=r"a list of 1 values"):
        column_of(pa.array([[[1, 2]], [[3]]]), shape=(1, 2))
    with pytest.raises(ps.DataError, match="a list holds nulls"):
        column_of(pa.array([[1, None]]), shape=(2,))


def test_dtypes_are_cast_and_never_cut() -> None:
    assert values(column_of(pa.array([1, 2]), dtype="uint8")[0]) == [1, 2]
    with pytest.raises(ps.DataError, match="column 'x' is int64, and uint8 was expected"):
        column_of(pa.array([1, 256]), dtype="uint8")


def test_what_no_batch_can_hold() -> None:
    with pytest.raises(ps.PlanError, match=r"here: column 'x': Arrow type map<.*leave it out"):
        column_of(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())))
    with pytest.raises(ps.PlanError, match="no column 'y'; there are x"):
        choose_columns(pa.schema([("x", pa.int64())]), Options(columns=["y"]), "here")


def test_a_table_of_other_columns() -> None:
    chosen = choose_columns(pa.schema([("a", pa.struct([("b", pa.int64())]))]), Options(), "here")
    with pytest.raises(ps.DataError, match="no column 'a', which the first file has"):
        columns_of(pa.table({"x": [1]}), chosen)
    with pytest.raises(ps.DataError, match=r"'a\.b' is int64 where the first file has a struct with 'b'"):
        columns_of(pa.table({"a": [1]}), chosen)
