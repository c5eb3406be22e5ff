"""Rows of lists of numbers are picked by one copy, whatever their type and however they were cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.columns.ragged import is_numbers, pick_numbers

KINDS = [pa.int8(), pa.int32(), pa.uint64(), pa.float64(), pa.date32(), pa.timestamp("us")]


def lists(rows: int, kind: Any, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    edges = np.concatenate([[0], np.cumsum(rng.integers(0, 9, rows))])
    values = (
        pa.array(rng.integers(0, 100, edges[-1]).astype(np.int32))
        .cast(pa.int64() if kind.bit_width == 64 else pa.int32())
        .cast(kind)
    )
    return pa.LargeListArray.from_arrays(pa.array(edges), values)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_of_whole_and_cut_arrays(kind: Any) -> None:
    parts = [lists(20, kind, 0), lists(30, kind, 1).slice(3, 20), lists(25, kind, 2)[5:]]
    rng = np.random.default_rng(3)
    which = rng.integers(0, len(parts), 100)
    row = np.array([rng.integers(0, len(parts[part])) for part in which])
    assert all(map(is_numbers, parts))
    found = pick_numbers(parts, which, row)
    found.validate(full=True)
    assert found.type == parts[0].type
    assert found.to_pylist() == [parts[part][int(at)].as_py() for part, at in zip(which, row, strict=True)]


def test_values_that_were_cut_and_no_rows() -> None:
    values = pa.array(np.arange(100)).slice(10)
    column = pa.LargeListArray.from_arrays(pa.array([0, 3, 5, 9]), values)
    assert pick_numbers([column, column], np.array([0, 1, 0]), np.array([2, 0, 1])).to_pylist() == [
        [15, 16, 17, 18],
        [10, 11, 12],
        [13, 14],
    ]
    none = np.empty(0, dtype=np.int64)
    assert len(pick_numbers([column], none, none)) == 0


def test_what_is_not_plain() -> None:
    assert not is_numbers(pa.array([[True]], pa.large_list(pa.bool_())))
    assert not is_numbers(pa.array([["a"]], pa.large_list(pa.string())))
    assert not is_numbers(pa.array([[1], None], pa.large_list(pa.int32())))
    assert not is_numbers(pa.array([[1, None]], pa.large_list(pa.int32())))
    assert not is_numbers(pa.array([[[1]]], pa.large_list(pa.large_list(pa.int32()))))
    assert not is_numbers(pa.array([1, 2]))
