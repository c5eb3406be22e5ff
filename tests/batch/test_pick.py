"""Rows picked out of tables: against pyarrow's take, for every kind of column, from slices, and out of bounds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.batch.pick import pick
from penstock.core.columns.repeated_values import repeated
from penstock.core.columns.rows import Rows, as_rows, join_rows, pack_rows, spans_to_arrow
from penstock.core.columns.spec import Field, Spans
from support.tries import tries

SPEC = {
    "text": Field("string"),
    "half": Field("float16"),
    "row": Field("uint8", (3,)),
    "nothing": Field("int16", (0,)),
    "data": Field("bytes"),
    "id": Field("int64"),
    "flag": Field("bool"),
    "list": Field("int32", (None,)),
    "deep": Field("string", (None, None)),
}


def columns(first: int, rows: int) -> dict[str, Any]:
    """Rows whose values follow from their number."""
    ids = np.arange(first, first + rows)
    return {
        "text": pa.array([f"text {number}" * (number % 3) for number in ids], pa.large_string()),
        "half": (ids / 2).astype(np.float16),
        "row": np.stack([ids, ids + 1, ids + 2], 1).astype(np.uint8),
        "nothing": np.empty((rows, 0), dtype=np.int16),
        "data": pa.array([bytes([number % 251]) * (number % 4) for number in ids], pa.large_binary()),
        "id": ids,
        "flag": ids % 3 == 0,
        "list": pa.array([list(range(number % 4)) for number in ids], pa.large_list(pa.int32())),
        "deep": pa.array(
            [[["a"] * (number % 3), []] for number in ids], pa.large_list(pa.large_list(pa.large_string()))
        ),
    }


def allocate(_: str, field: Field, rows: int) -> Any:
    return np.empty((rows, *(axis or 0 for axis in field.shape)), dtype=field.numpy_dtype)


def check(picked: dict[str, Any], ids: list[int]) -> None:
    assert list(picked) == list(SPEC)
    for name, wanted in columns(0, 64).items():
        column = spans_to_arrow(picked[name]) if isinstance(picked[name], Spans) else picked[name]
        if isinstance(wanted, pa.Array):
            assert column.to_pylist() == wanted.take(pa.array(ids, pa.int64())).to_pylist(), name
        else:
            assert column.dtype == wanted.dtype
            np.testing.assert_array_equal(column, wanted[ids], err_msg=name)


@settings(max_examples=tries(300))
@given(cuts=st.lists(st.integers(0, 64), max_size=4), ids=st.lists(st.integers(0, 63), min_size=1, max_size=40))
def test_rows_come_from_their_piece(cuts: list[int], ids: list[int]) -> None:
    edges = [0, *sorted(set(cuts) - {0, 64}), 64]
    whole = pack_rows(columns(0, 64), SPEC, 64)
    sliced = [whole.slice(low, high - low) for low, high in itertools.pairwise(edges)]
    alone = [pack_rows(columns(low, high - low), SPEC, high - low) for low, high in itertools.pairwise(edges)]
    which = np.searchsorted(edges, ids, side="right") - 1
    row = np.array(ids) - np.array(edges)[which]
    for pieces in (sliced, alone):
        check(pick(pieces, which, row, SPEC, allocate, threads=2), ids)
    joined = join_rows(alone)
    assert len(joined) == 64
    check(pick([joined], np.zeros(len(ids), dtype=np.int64), np.array(ids), SPEC, allocate), ids)


@settings(max_examples=tries(100))
@given(cut=st.integers(0, 64), first=st.integers(0, 40), rows=st.integers(1, 64))
def test_rows_that_follow_each_other(cut: int, first: int, rows: int) -> None:
    """They are copied by runs, of text that repeats and of columns with nulls, too."""
    edges = [0, *{cut} - {0, 64}, 64]
    ids = np.arange(first, min(first + rows, 64))
    numbers = pa.array([None if number % 5 == 0 else number / 2 for number in range(64)])
    kinds = pa.array(["a", "bc", "def", "g"] * 16, pa.large_string())
    made = columns(0, 64) | {"nullable": numbers}
    spec = SPEC | {"nullable": Field("float64", nullable=True), "kind": Field("string")}
    whole = pack_rows(made | {"kind": repeated(np.arange(64) % 4, kinds[:4])}, spec, 64)
    pieces = [whole.slice(low, high - low) for low, high in itertools.pairwise(edges)]
    which = np.searchsorted(edges, ids, side="right") - 1
    picked = pick(pieces, which, ids - np.array(edges)[which], spec, allocate)
    assert picked.pop("nullable").to_pylist() == numbers.take(pa.array(ids)).to_pylist()
    assert picked.pop("kind").cast(pa.large_string()).to_pylist() == kinds.take(pa.array(ids)).to_pylist()
    check(picked, ids.tolist())


def test_runs_are_copies() -> None:
    """So that a batch keeps no block alive, and begins where its memory does."""
    made = {"text": pa.array(["abc"] * 100, pa.large_string())}
    (picked,) = pick(
        [Rows(np.empty((100, 0), np.uint8), made)],
        np.zeros(50, int),
        np.arange(20, 70),
        {"text": Field("string")},
        allocate,
    ).values()
    assert picked.type == pa.large_string()
    assert picked.offset == 0
    assert picked.buffers()[2].size < 64 * 3 + 64
    assert picked.buffers()[2].address != made["text"].buffers()[2].address


@pytest.mark.parametrize(("which", "row"), [(0, 3), (0, -1), (1, 0), (-1, 0)])
def test_runs_outside(which: int, row: int) -> None:
    piece = Rows(np.empty((50, 0), np.uint8), {"text": pa.array(["abc"] * 50, pa.large_string())})
    with pytest.raises(IndexError, match=r"row .* of part .* is not there"):
        pick([piece], np.full(50, which), np.arange(row, row + 50), {"text": Field("string")}, allocate)


def test_no_rows() -> None:
    none = np.empty(0, dtype=np.int64)
    check(pick([pack_rows(columns(0, 3), SPEC, 3)], none, none, SPEC, allocate), [])
    check(pick([pack_rows(columns(0, 0), SPEC, 0)], none, none, SPEC, allocate), [])


def test_one_column_is_not_copied_to_be_packed() -> None:
    numbers = np.arange(10)
    packed = pack_rows({"x": numbers}, {"x": Field("int64")}, 10)
    assert np.shares_memory(packed.fixed, numbers)
    assert as_rows(packed, {"x": Field("int64")}, 10) is packed


@pytest.mark.parametrize(("which", "row"), [(0, 5), (0, -1), (1, 0), (-1, 0), (1 << 40, 0), (0, 1 << 62)])
def test_places_outside(which: int, row: int) -> None:
    piece = Rows(np.zeros((5, 8), dtype=np.uint8), {})
    with pytest.raises(IndexError, match=r"row .* of part .* is not there"):
        pick([piece], np.array([0, which]), np.array([0, row]), {"x": Field("int64")}, allocate)


def test_lengths_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="3 rows of 8 bytes are not 32 bytes"):
        pack_rows({"x": np.arange(3), "y": np.arange(4)}, {"x": Field("int64"), "y": Field("int64")}, 3)
