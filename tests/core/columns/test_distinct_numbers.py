"""Each number of many once: as NumPy has it."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.columns.distinct_numbers import distinct


@pytest.mark.parametrize(("count", "most"), [(0, 1), (1, 1), (1, 10**15), (300, 5), (300, 400), (300, 10**12)])
def test_as_numpy(count: int, most: int) -> None:
    numbers = np.random.default_rng(0).integers(0, most, count, dtype=np.int64) + 7
    found, place = distinct(numbers)
    wanted, wanted_place = np.unique(numbers, return_inverse=True)
    assert found.tolist() == wanted.tolist()
    assert place.tolist() == wanted_place.tolist()
    assert found.dtype == place.dtype == np.int64
