"""Arrow tables to columns: every type, nulls, defaults, slices with offsets, and what cannot be held."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import RowError
from penstock.core.verbs.options import Options
from penstock.source.tables.table import choose_columns, columns_of


def column_of(array: pa.Array | pa.ChunkedArray, **typed: Any) -> Any:
    """The column "x" of a table that has only this, and what it is described as."""
    table = pa.table({"x": array})
    wish = {"x": ps.Column(feature="x", **typed)} if typed else None
    chosen = choose_columns(table.schema, Options(columns=wish), "here")
    return columns_of(table, chosen)["x"], chosen[0].field


def values(column: Any) -> list[Any]:
    return column.to_pylist() if isinstance(column, pa.Array) else column.tolist()


DAY = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
MS = 1_704_153_600_000
UUID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")


def tensors(permutation: list[int] | None = None) -> pa.Array:
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 3], permutation=permutation)
    return pa.ExtensionArray.from_storage(
        kind, pa.array(np.arange(12).reshape(2, 6).tolist(), pa.list_(pa.float32(), 6))
    )


def plain(values: list[Any]) -> list[Any]:
    """What a writer gave, with times as the numbers that they are stored as."""
    return [plain(value) if isinstance(value, list) else _seconds(value) for value in values]


def _seconds(value: Any) -> Any:
    return int(value.replace(tzinfo=dt.UTC).timestamp()) if isinstance(value, dt.datetime) else value


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
    (pa.array([[DAY, DAY], []], pa.list_(pa.timestamp("ms", "UTC"))), Field("int64", (None,)), [[MS, MS], []]),
    (pa.array([[DAY.date()], []], pa.list_(pa.date32())), Field("int64", (None,)), [[19_724], []]),
    (pa.array([[DAY.date()]], pa.large_list(pa.date64())), Field("int64", (None,)), [[MS]]),
    (pa.array([[dt.time(0, 0, 3)], []], pa.list_(pa.time32("ms"))), Field("int64", (None,)), [[3_000], []]),
    (pa.array([[dt.timedelta(seconds=2)]], pa.list_(pa.duration("us"))), Field("int64", (None,)), [[2_000_000]]),
    (pa.array([[[DAY]], [[DAY], []]], pa.list_(pa.list_(pa.timestamp("s")))), Field("int64", (None, None)), None),
    (pa.array([[DAY, DAY]], pa.list_(pa.timestamp("us"), 2)), Field("int64", (2,)), [[1000 * MS, 1000 * MS]]),
    (pa.array([[Decimal("1.25")], []], pa.list_(pa.decimal128(9, 2))), Field("float64", (None,)), [[1.25], []]),
    (pa.array([["a", "b"], ["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))), Field("string", (None,)), None),
    (pa.array([["a", "b" * 30], []], pa.list_(pa.string_view())), Field("string", (None,)), [["a", "b" * 30], []]),
    (pa.array([[b"ab"], []], pa.list_(pa.binary(2))), Field("bytes", (None,)), [[b"ab"], []]),
    (pa.array([[0.5], []], pa.list_(pa.float16())), Field("float16", (None,)), [[0.5], []]),
    (pa.array([[True, False, True], []]), Field("bool", (None,)), [[True, False, True], []]),
    (pa.array([[1], [2, 3], []], pa.list_view(pa.int8())), Field("int8", (None,)), [[1], [2, 3], []]),
    (pa.array([["a" * 20], ["b"]], pa.large_list_view(pa.string_view())), Field("string", (None,)), None),
    (pa.ListViewArray.from_arrays([2, 0, 0], [2, 0, 1], pa.array([1, 2, 3, 4])), Field("int64", (None,)), None),
    (pa.array([["a", "b"]], pa.list_(pa.string(), 2)), Field("string", (None,)), [["a", "b"]]),
    (pa.DictionaryArray.from_arrays([1, 0, 1], pa.array(["a", "b" * 30], pa.string_view())), Field("string"), None),
    (pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a" * 20, "b"], pa.string_view())), Field("string"), None),
    (pa.RunEndEncodedArray.from_arrays([1, 3], pa.array([7, 8])), Field("int64"), [7, 8, 8]),
    (pa.array([UUID.bytes, bytes(16)], pa.uuid()), Field("string"), [str(UUID), str(uuid.UUID(int=0))]),
    (
        pa.ListArray.from_arrays([0, 1, 1], pa.array([UUID.bytes], pa.uuid())),
        Field("string", (None,)),
        [[str(UUID)], []],
    ),
    (tensors(), Field("float32", (2, 3)), [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]),
    (tensors([1, 0]), Field("float32", (3, 2)), [[[0, 3], [1, 4], [2, 5]], [[6, 9], [7, 10], [8, 11]]]),
    (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 5, 1], pa.int8())), Field("bool"), [False, True, True]),
    (pa.ExtensionArray.from_storage(pa.opaque(pa.int8(), "a", "b"), pa.array([3], pa.int8())), Field("int8"), [3]),
    (pa.array(['{"a": 1}'], pa.json_()), Field("string"), ['{"a": 1}']),
]


@pytest.mark.parametrize(("array", "field", "wanted"), TYPES, ids=lambda part: str(getattr(part, "type", "")))
def test_every_type(array: pa.Array, field: Field, wanted: list[Any] | None) -> None:
    wanted = plain(array.to_pylist()) if wanted is None else wanted
    for form in (array, pa.chunked_array([array[:1], array[1:1], array[1:]])):
        column, found = column_of(form)
        assert (values(column), found) == (wanted, field)
        if found.is_fixed:
            assert column.dtype == found.numpy_dtype
            assert column.flags.c_contiguous
    for first in range(len(array)):
        assert values(column_of(array[first:])[0]) == wanted[first:]


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


@pytest.mark.parametrize("typed", [{}, {"shape": (2,)}])
def test_nulls_in_lists(typed: dict[str, Any]) -> None:
    for array in (pa.array([[1, 2], [None, 4]]), pa.array([["a", "b"], ["c", None]])):
        with pytest.raises(RowError, match=r"row 1: column 'x' has a null in a list; give it a value with columns="):
            column_of(array, **({} if array.type.value_type == pa.string() else typed))
    assert values(column_of(pa.array([[1, 2], [None, 4]]), default=7, **typed)[0]) == [[1, 2], [7, 4]]
    with pytest.raises(RowError, match=r"row 2: .*null in a list"):
        column_of(pa.array([[[1]], [], [[2], None]]))
    assert values(column_of(pa.array([[1, None], None]), default=7)[0]) == [[1, 7], []]
    assert values(column_of(pa.array([[1, None], None]), default=7, shape=(2,))[0]) == [[1, 7], [7, 7]]


def test_columns_of_nulls() -> None:
    for array in (pa.nulls(2), pa.array([[], []], pa.list_(pa.null()))):
        with pytest.raises(ps.PlanError, match=r"column 'x': holds only nulls; leave it out.*default=0"):
            column_of(array)
    assert values(column_of(pa.nulls(2), dtype="float32", default=1.5)[0]) == [1.5, 1.5]
    assert values(column_of(pa.nulls(2), dtype="string", default="?")[0]) == ["?", "?"]


def test_a_null_struct_has_null_fields() -> None:
    table = pa.table({"a": pa.array([{"b": 1}, None], pa.struct([("b", pa.int64())]))})
    with pytest.raises(RowError, match=r"row 1: column 'a\.b' is null"):
        columns_of(table, choose_columns(table.schema, Options(), "here"))


@pytest.mark.parametrize(
    ("kind", "dtype", "default"),
    [
        (pa.int64(), None, "x"),
        (pa.int32(), None, 1.9),
        (pa.int32(), None, -0.5),
        (pa.int8(), None, 300),
        (pa.uint8(), None, -1),
        (pa.int64(), None, float("nan")),
        (pa.int64(), None, 2**63),
        (pa.int64(), None, float(2**63)),
        (pa.bool_(), None, 2),
        (pa.float32(), None, 1e39),
        (pa.float64(), "float16", 1e6),
        (pa.float64(), "bfloat16", 1e39),
        (pa.string(), None, 5),
        (pa.list_(pa.int32(), 2), None, 1.5),
    ],
)
def test_a_default_that_the_column_does_not_hold(kind: pa.DataType, dtype: str | None, default: Any) -> None:
    """It is refused when the data is opened, with or without nulls, and never cut."""
    with pytest.raises(ps.PlanError, match=r"column 'x': default .* is no "):
        column_of(pa.array([], kind), default=default, dtype=dtype)


@pytest.mark.parametrize(
    ("kind", "dtype", "default", "held"),
    [
        (pa.int32(), "float64", 1.5, 1.5),
        (pa.int8(), "int64", 2**40, 2**40),
        (pa.int32(), None, 2.0, 2),
        (pa.float32(), None, 0.1, np.float32(0.1)),
        (pa.float32(), None, 2**24 + 1, 2**24),
        (pa.float32(), None, float("inf"), float("inf")),
        (pa.uint64(), None, 2**64 - 1, 2**64 - 1),
        (pa.bool_(), None, True, True),
        (pa.timestamp("us"), None, -1, -1),
        (pa.decimal128(9, 0), None, 0.5, 0.5),
        (pa.list_(pa.int8(), 2), "float32", 0.5, [0.5, 0.5]),
    ],
)
def test_a_default_is_of_the_type_that_the_column_becomes(
    kind: pa.DataType, dtype: str | None, default: Any, held: Any
) -> None:
    column, _ = column_of(pa.array([None, None], kind), default=default, dtype=dtype)
    assert column.tolist() == [held, held]


def test_lists_of_a_length_become_arrays() -> None:
    column, _ = column_of(pa.array([[[1, 2]], [[3, 4]]]), shape=(1, 2), dtype="float32")
    assert (column.tolist(), column.dtype) == ([[[1.0, 2.0]], [[3.0, 4.0]]], np.float32)
    with pytest.raises(
        RowError, match=r"row 1: column 'x' has a list of 1 values where int64\(2\) is wanted; give the column a shape"
    ):
        column_of(pa.array([[1, 2], [3], [4, 5]]), shape=(2,))
    with pytest.raises(RowError, match=r"row 1: .*a list of 1 values"):
        column_of(pa.array([[[1, 2]], [[3]]]), shape=(1, 2))
    boxes, field = column_of(pa.array([[[1, 2]], [], [[3, 4], [5, 6]]]), shape=(None, 2), dtype="int32")
    assert (boxes.to_pylist(), field) == ([[[1, 2]], [], [[3, 4], [5, 6]]], Field("int32", (None, 2)))
    with pytest.raises(RowError, match=r"row 2: .*a list of 1 values where int64\(2\) is wanted"):
        column_of(pa.array([[[1, 2]], [], [[3, 4], [5]]]), shape=(None, 2))


def test_dtypes_are_cast_and_never_cut() -> None:
    assert values(column_of(pa.array([1, 2]), dtype="uint8")[0]) == [1, 2]
    with pytest.raises(ps.DataError, match="column 'x' is int64, and uint8 was expected"):
        column_of(pa.array([1, 256]), dtype="uint8")


def test_whole_numbers_keep_their_digits() -> None:
    large = 2**53 + 1
    for kind in (pa.decimal128(20, 0), pa.decimal256(40, 0), pa.decimal64(18, 0)):
        array = pa.array([3, large], kind)
        with pytest.raises(
            RowError, match=rf"row 1: column 'x' is {large}, a whole number of more digits than float64"
        ):
            column_of(array)
        assert values(column_of(array, dtype="int64")[0]) == [3, large]
        assert values(column_of(array, dtype="uint64")[0]) == [3, large]
        assert values(column_of(array, dtype="string")[0]) == ["3", str(large)]
        assert values(column_of(array, dtype="float64")[0]) == [3.0, float(large)]
        assert values(column_of(array[:1])[0]) == [3.0]
    with pytest.raises(RowError, match=r"row 1: .*more digits"):
        column_of(pa.array([[1], [2, large]], pa.list_(pa.decimal128(20, 0))))
    with pytest.raises(ps.DataError, match="float64 was expected"):
        column_of(pa.array([large]), dtype="float64")


def test_bfloat16_is_rounded() -> None:
    numbers = [0.0, -0.0, 1.0, 2.5, 3.140625, 1e-40, 3e38, math.inf, -math.inf, 1.00390625, 1.01171875]
    bits = np.array(numbers, np.float32).astype(ml_dtypes.bfloat16)
    for kind in (pa.float32(), pa.float64()):
        column, field = column_of(pa.array(numbers, kind), dtype="bfloat16")
        assert field == Field("bfloat16")
        assert column.view(ml_dtypes.bfloat16).tolist() == bits.tolist()
    assert math.isnan(column_of(pa.array([math.nan]), dtype="bfloat16")[0].view(ml_dtypes.bfloat16)[0])
    lists, _ = column_of(pa.array([[1.0], []]), dtype="bfloat16")
    assert lists.to_pylist() == [[0x3F80], []]


@pytest.mark.parametrize(("dtype", "number"), [("float16", 1e6), ("float32", 1e60), ("float16", 70_000)])
def test_what_would_become_infinite(dtype: str, number: float) -> None:
    with pytest.raises((RowError, ps.DataError), match=r"too large for|expected"):
        column_of(pa.array([1, number]), dtype=dtype)
    assert values(column_of(pa.array([math.inf, 1.0]), dtype=dtype)[0]) == [math.inf, 1.0]


def test_lists_take_the_dtype_that_was_asked_for() -> None:
    column, field = column_of(pa.array([[1, 2], [3]]), dtype="float32")
    assert (column.type, field) == (pa.large_list(pa.float32()), Field("float32", (None,)))
    with pytest.raises(ps.DataError, match=r"int8\(\?\) was expected"):
        column_of(pa.array([[1, 300]]), dtype="int8")


def test_uuids_as_bytes() -> None:
    column, field = column_of(pa.array([UUID.bytes], pa.uuid()), dtype="bytes")
    assert (values(column), field) == ([UUID.bytes], Field("bytes"))
    assert values(column_of(pa.array([UUID.bytes, None], pa.uuid()), default="none")[0]) == [str(UUID), "none"]


def test_lists_of_structs_and_maps_are_taken_apart() -> None:
    table = pa.table(
        {
            "boxes": [
                [{"at": [1, 2], "day": DAY.date(), "in": {"x": "a"}}],
                [],
                [{"at": [], "day": None, "in": {"x": "b"}}] * 2,
            ],
            "map": pa.array([[("a", 1)], [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int8())),
        }
    )
    for form in (table, table.cast(pa.schema([(n, table.schema.field(n).type) for n in table.column_names]))):
        chosen = choose_columns(form.schema, Options(), "here")
        assert [column.feature for column in chosen] == ["boxes.at", "boxes.day", "boxes.in.x", "map.key", "map.value"]
        without_days = tuple(column for column in chosen if column.name != "boxes.day")
        for first in range(3):
            found = {name: values(column) for name, column in columns_of(form.slice(first), without_days).items()}
            assert found == {
                "boxes.at": [[[1, 2]], [], [[], []]][first:],
                "boxes.in.x": [["a"], [], ["b", "b"]][first:],
                "map.key": [["a"], ["b", "c"], []][first:],
                "map.value": [[1], [2, 3], []][first:],
            }
    with pytest.raises(RowError, match=r"row 2: column 'boxes\.day' has a null in a list"):
        columns_of(table, chosen)


def test_names_with_dots() -> None:
    table = pa.table({"a.b": [1], "a": [{"b": 2}]})
    chosen = choose_columns(table.schema, Options(), "here")
    assert {name: values(column) for name, column in columns_of(table, chosen).items()} == {r"a\.b": [1], "a.b": [2]}
    only = choose_columns(table.select(["a.b"]).schema, Options(), "here")
    assert [column.name for column in only] == ["a.b"]
    assert [column.path for column in choose_columns(table.schema, Options(columns=[r"a\.b"]), "here")] == [("a.b",)]


def test_structs_in_structs_without_end() -> None:
    kind = pa.int8()
    for _ in range(100):
        kind = pa.struct([("a", kind)])
    with pytest.raises(ps.DataError, match="column 'x': more than 64 levels"):
        choose_columns(pa.schema([("x", kind)]), Options(), "here")


def test_what_no_batch_can_hold() -> None:
    for kind in (pa.month_day_nano_interval(), pa.dense_union([pa.field("a", pa.int8())])):
        with pytest.raises(ps.PlanError, match=r"here: column 'x': Arrow type .*leave it out"):
            choose_columns(pa.schema([("x", kind)]), Options(), "here")
    with pytest.raises(ps.PlanError, match="no column 'y'; there are x"):
        choose_columns(pa.schema([("x", pa.int64())]), Options(columns=["y"]), "here")


def test_a_table_of_other_columns() -> None:
    chosen = choose_columns(pa.schema([("a", pa.struct([("b", pa.int64())]))]), Options(), "here")
    with pytest.raises(ps.DataError, match="no column 'a', which the first file has"):
        columns_of(pa.table({"x": [1]}), chosen)
    with pytest.raises(ps.DataError, match=r"'a\.b' is int64 where the first file has a struct with 'b'"):
        columns_of(pa.table({"a": [1]}), chosen)


def test_empty_arrays_without_buffers() -> None:
    """Arrow lets an array of no rows do without offsets."""
    values = pa.array([], pa.int8())
    for kind in (pa.list_(pa.int8()), pa.large_list(pa.int8())):
        assert values_of_nothing(pa.ListArray.from_buffers(kind, 0, [None, None], children=[values])) == []
    for kind in (pa.list_view(pa.int8()), pa.list_(pa.int8(), 3), pa.uuid(), pa.string_view(), tensors().type):
        assert values_of_nothing(pa.array([], kind)) == []
    table = pa.table({"x": pa.array([], pa.map_(pa.string(), pa.int8()))})
    assert [len(column) for column in columns_of(table, choose_columns(table.schema, Options(), "here")).values()] == [
        0,
        0,
    ]


def values_of_nothing(array: pa.Array) -> list[Any]:
    return values(column_of(array)[0])
