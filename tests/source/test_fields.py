"""Leaves: values of fixed and varying length, texts, lists; what does not fit is told with its row."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import PlanError, RowError
from penstock.source.fields.arrays import NoHeader, WordHeader, array_leaf, image_leaf
from penstock.source.fields.codec import BytesLeaf, DigitsLeaf, Leaf, ListLeaf, TextLeaf, ValuesLeaf
from support.tfrecords import allocate, listed


def spans(*rows: bytes) -> Spans:
    """The rows in two buffers, with bytes between them."""
    buffers, which, offset = [b"??", b"!"], [], []
    for number, row in enumerate(rows):
        which.append(number % 2)
        offset.append(len(buffers[number % 2]))
        buffers[number % 2] += row + b"..."
    arrays = tuple(np.frombuffer(buffer, dtype=np.uint8) for buffer in buffers)
    length = np.array([len(row) for row in rows], dtype=np.int64)
    return Spans(arrays, np.array(which, dtype=np.int64), np.array(offset, dtype=np.int64), length)


def column(leaf: Leaf, *rows: bytes) -> Any:
    return leaf.column("x", spans(*rows), allocate, 2)


def integers(*values: int) -> list[bytes]:
    return [struct.pack("<q", value) for value in values]


def test_numbers_as_they_are_and_as_other_numbers() -> None:
    leaf = ValuesLeaf(Field("int64"), "int64")
    assert column(leaf, *integers(1, -2, 3)).tolist() == [1, -2, 3]
    assert column(leaf.as_field("float32", None), *integers(1, -2)).dtype == np.float32
    assert column(leaf.as_field("bool", None), *integers(1, 0)).tolist() == [True, False]
    assert column(leaf.as_field(None, (1,)), *integers(1, 0)).shape == (2, 1)
    assert column(ValuesLeaf(Field("bool"), "bool"), b"\x00", b"\x07", b"\x01").tolist() == [False, True, True]
    assert column(leaf).tolist() == []


@pytest.mark.parametrize(
    ("stored", "dtype", "value"),
    [
        ("int64", "int8", 128),
        ("int64", "uint64", -1),
        ("uint64", "int64", 1 << 63),
        ("int64", "bool", 2),
        ("float64", "int64", 0.5),
        ("float64", "int64", float("nan")),
        ("float64", "int64", 1e300),
        ("float64", "float32", 1e300),
        ("float32", "float16", 1e5),
    ],
)
def test_numbers_that_do_not_fit(stored: str, dtype: str, value: float) -> None:
    rows = [np.array(number, dtype=stored).tobytes() for number in (1, value)]
    with pytest.raises(RowError, match=rf"row 1: the value .* does not fit {dtype}; give the column a dtype"):
        column(ValuesLeaf(Field(stored), stored).as_field(dtype, None), *rows)


def test_floats_that_are_no_numbers_stay() -> None:
    rows = [np.array(number, dtype="float64").tobytes() for number in (np.nan, np.inf, 0.1)]
    found = column(ValuesLeaf(Field("float64"), "float64").as_field("float32", None), *rows)
    assert np.isnan(found[0])
    assert found[1:].tolist() == [np.inf, float(np.float32(0.1))]


def test_values_of_another_length_or_header() -> None:
    leaf = ValuesLeaf(Field("int16", (2,)), "int16", b"ab")
    assert column(leaf, b"ab\x01\x00\x02\x00").tolist() == [[1, 2]]
    with pytest.raises(RowError, match="row 1: 2 bytes of values where the column takes 4"):
        column(leaf, b"ab\x01\x00\x02\x00", b"ab\x01\x00")
    with pytest.raises(RowError, match=r"row 1: the header .* where the first records have"):
        column(leaf, b"ab\x01\x00\x02\x00", b"ac\x01\x00\x02\x00")


def test_text_and_bytes() -> None:
    rows = ["", "grüße", "x" * 1000]
    assert column(TextLeaf(), *(row.encode() for row in rows)).to_pylist() == rows
    assert listed(column(TextLeaf().as_field("bytes", None), b"\xff")) == [b"\xff"]
    assert column(BytesLeaf().as_field("string", None), b"a").type == pa.large_string()
    with pytest.raises(RowError, match=r"row 2: b'a\\xff' is not UTF-8"):
        column(TextLeaf(), b"a", b"b", b"a\xff")
    for dtype, shape in (("int64", None), (None, (2,))):
        with pytest.raises(PlanError, match="it is bytes or string"):
            TextLeaf().as_field(dtype, shape)


def test_digits() -> None:
    assert column(DigitsLeaf(Field("int64")), b"7", b"-9223372036854775808").tolist() == [7, -(1 << 63)]
    found = column(DigitsLeaf(Field("float64")), b"1E+3", b"nan", b"-Infinity", b"0.1")
    assert np.array_equal(found, [1000, np.nan, -np.inf, 0.1], equal_nan=True)
    for bad in (b"", b"x", b"1.5", b"9223372036854775808", b"1_000"):
        with pytest.raises(RowError, match=r"row 1: '.*' is no int64; .*'string' takes any"):
            column(DigitsLeaf(Field("int64")), b"1", bad)
    with pytest.raises(PlanError, match="cannot become bool"):
        DigitsLeaf(Field("int64")).as_field("bool", None)


def test_lists() -> None:
    one = struct.pack("<III", 2, 1, 3) + b"abcd"
    assert column(ListLeaf(), one, bytes(4)).to_pylist() == [[b"a", b"bcd"], []]
    with pytest.raises(RowError, match="row 1: a list"):
        column(ListLeaf(), one, one[:-1])
    with pytest.raises(PlanError, match="lists of bytes cannot become"):
        ListLeaf().as_field("string", None)


def words(dtype: int, *axes: int, order: str = "<") -> bytes:
    return struct.pack(f"{order}{2 + len(axes)}I", dtype, len(axes), *axes)


@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_with_headers(order: str) -> None:
    header = WordHeader({3: "int16"}, order)
    rows = [words(3, count, 2, order=order) + np.arange(2 * count, dtype="int16").tobytes() for count in (2, 0, 3)]
    ragged = array_leaf(header, spans(*rows))
    assert ragged.field == Field("int16", (None, 2))
    assert column(ragged, *rows).to_pylist() == [[[0, 1], [2, 3]], [], [[0, 1], [2, 3], [4, 5]]]
    assert column(ragged.as_field("float32", None), rows[0]).type.value_type.value_type == pa.float32()
    assert column(ragged).to_pylist() == []
    fixed = array_leaf(header, spans(rows[0], rows[0]))
    assert fixed.field == Field("int16", (2, 2))
    assert column(fixed, rows[0]).tolist() == [[[0, 1], [2, 3]]]
    with pytest.raises(RowError, match="row 1: the header"):
        column(fixed, rows[0], rows[1])
    assert column(fixed.as_field(None, (None, 2)), *rows).to_pylist()[1] == []


@pytest.mark.parametrize(
    "row",
    [
        b"",
        words(3, 2)[:-1],
        words(3, 2),
        words(3, 2) + bytes(5),
        words(4, 2) + bytes(4),
        words(3, 2, 1) + bytes(4),
        words(3, (1 << 32) - 1) + bytes(4),
        struct.pack("<II", 3, (1 << 32) - 1),
    ],
)
def test_arrays_that_are_damaged(row: bytes) -> None:
    header = WordHeader({3: "int16"}, "<")
    good = words(3, 2) + bytes(4)
    leaf = array_leaf(header, spans(good, words(3, 1) + bytes(2)))
    with pytest.raises(RowError, match="row 1"):
        column(leaf, good, row)
    with pytest.raises(RowError):
        array_leaf(header, spans(good, row))


def test_arrays_that_no_column_holds() -> None:
    rows = [words(3, 1, 2) + bytes(4), words(3, 1, 3) + bytes(6)]
    with pytest.raises(PlanError, match=r"arrays of several shapes .*only the first axis can vary"):
        array_leaf(WordHeader({3: "int16"}, "<"), spans(*rows))
    with pytest.raises(RowError, match="row 1: 3 bytes are no whole number of int16"):
        array_leaf(NoHeader("int16"), spans(b"ab", b"abc"))


def test_values_in_lists_that_do_not_fit() -> None:
    rows = [np.array(values, dtype="int64").tobytes() for values in ([1], [], [2, 300])]
    leaf = array_leaf(NoHeader("int64"), spans(*rows)).as_field("uint8", None)
    with pytest.raises(RowError, match="row 2: the value 300 does not fit uint8"):
        column(leaf, *rows)


def raw(width: int, height: int, mode: bytes, channels: int) -> bytes:
    return struct.pack("<III", width, height, len(mode)) + mode + bytes(range(width * height * channels))


def test_pictures() -> None:
    assert column(image_leaf(spans(raw(3, 2, b"RGB", 3))), raw(3, 2, b"RGB", 3)).shape == (1, 2, 3, 3)
    assert image_leaf(spans(raw(3, 2, b"L", 1))).field == Field("uint8", (2, 3, 1))
    for rows, found in (
        ([raw(3, 2, b"L", 1), raw(3, 1, b"L", 1)], "several heights"),
        ([raw(3, 2, b"L", 1), raw(2, 2, b"L", 1)], "several shapes"),
        ([raw(3, 2, b"P", 1)], "mode 'P' are not read"),
    ):
        with pytest.raises(PlanError, match=found):
            image_leaf(spans(*rows))
    for rows in (
        [raw(3, 2, b"RGB", 3), raw(3, 2, b"HSV", 3)],
        [raw(3, 2, b"RGB", 3)[:-1]],
        [bytes(12)[:11]],
        [raw(1, 1, b"?" * 9, 1)],
    ):
        with pytest.raises((RowError, PlanError)):
            image_leaf(spans(*rows))
