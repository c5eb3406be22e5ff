"""Rows by their classes, by chance."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.order.choose import RowClasses, in_rounds


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40), st.integers(0, 9))
def test_so_many_of_every_class(rows: list[tuple[int, int]], most: int) -> None:
    """Exactly, also where rows have equal random numbers; and more of them hold those of fewer."""
    code, random = np.array(rows, dtype=np.int64).T
    classes = RowClasses(code, random.astype(np.uint64) << np.uint64(60))
    before = np.zeros(len(code), dtype=bool)
    for count in range(most + 1):
        wanted = np.minimum(count, classes.rows)
        found = classes.chosen(wanted)
        assert np.bincount(code[found], minlength=len(wanted)).tolist() == wanted.tolist()
        assert found[before].all()
        before = found


@given(st.lists(st.integers(0, 5), max_size=30))
def test_rounds(copies: list[int]) -> None:
    wanted = [row for done in range(5) for row, count in enumerate(copies) if count > done]
    assert in_rounds(np.array(copies, dtype=np.int64)).tolist() == wanted
