"""Arrow's columns and NumPy's, one as the other, beside what `pyarrow.array` and `to_numpy` do."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.columns.plain import as_indices, as_numbers, as_texts, numbers_of


@pytest.mark.parametrize("count", [1, 2, 7, 64, 65, 1000])
def test_texts_are_byte_by_byte_those_of_arrow(count: int) -> None:
    """Digests of data in memory are of these bytes: states of before go on."""
    chosen = random.Random(count)
    texts = ["é" * chosen.randrange(9) + "x\0日" * chosen.randrange(5) for _ in range(count)]
    made, wanted = as_texts(texts), pa.array(texts)
    assert made is not None
    assert made.type == wanted.type
    assert [bytes(one) for one in made.buffers() if one] == [bytes(one) for one in wanted.buffers() if one]


def test_texts_that_are_left_to_arrow() -> None:
    assert as_texts(["a", "\ud800"]) is None
    assert as_texts([]) == pa.array([], pa.string())
    assert as_texts(["", ""]) == pa.array(["", ""])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float32", "float64"])
def test_numbers_go_both_ways(dtype: str) -> None:
    values = np.arange(20).astype(dtype)[::2]
    column = as_numbers(values)
    assert column == pa.array(values)
    assert np.array_equal(numbers_of(column[3:]), values[3:])
    assert len(numbers_of(column[:0])) == len(numbers_of(as_numbers(values[:0]))) == 0
    assert as_indices(np.array([2, 0])) == pa.array([2, 0])
