"""Statistics beside exact arithmetic and NumPy, and what they are in parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import DataError, RowError
from penstock.transform.table.statistics.counts import Counts
from penstock.transform.table.statistics.moments import Moments
from penstock.transform.table.statistics.protocol import Block
from penstock.transform.table.statistics.quantiles import Quantiles

NUMBERS = st.lists(st.floats(allow_infinity=False), min_size=1, max_size=60)
FRACTIONS = [0.0, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0]


def block(values: list[float]) -> Block:
    return Block(np.array(values, np.float64))


def moments(*parts: list[float]) -> Moments:
    made = Moments()
    for part in parts:
        made.add(block(part))
    return made


@settings(deadline=None)
@given(NUMBERS)
def test_moments_are_rounded_once(values: list[float]) -> None:
    found, exact = moments(values), [Fraction(one) for one in values if not math.isnan(one)]
    assert (found.count, found.missing) == (len(exact), len(values) - len(exact))
    if not exact:
        assert math.isnan(found.mean)
        return
    mean = sum(exact) / len(exact)
    assert Fraction(found.total, 2**1074) == sum(exact)
    variance = sum((one - mean) ** 2 for one in exact) / len(exact)
    assert found.mean == float(mean)
    assert found.variance == (math.inf if variance > Fraction(1.7976931348623158e308) else float(variance))
    assert (found.least, found.greatest) == (float(min(exact)), float(max(exact)))


@settings(deadline=None)
@given(NUMBERS, NUMBERS, st.floats(allow_nan=False, allow_infinity=False))
def test_moments_add_up_and_can_be_filled(one: list[float], other: list[float], fill: float) -> None:
    whole, parts = moments(one + other), moments(other)
    parts.merge(moments(one))
    assert vars(parts) == vars(whole)
    filled = moments([fill if math.isnan(x) else x for x in one + other])
    assert vars(whole.filled(fill)) == vars(filled)


def test_no_infinite_number_has_a_mean() -> None:
    with pytest.raises(RowError, match="row 1: is inf"):
        moments([1.0, math.inf])


def searched(search: Quantiles, *parts: list[float]) -> Quantiles:
    """Passes until all is known."""
    going: Quantiles | None = search
    while going is not None:
        for part in parts:
            going.add(block(part))
        going = going.next()
    return search


@settings(deadline=None)
@given(NUMBERS)
def test_quantiles_are_those_of_numpy(values: list[float]) -> None:
    found, array = searched(Quantiles(FRACTIONS), values), np.array(values)
    if np.isnan(array).all():
        assert math.isnan(found[0.5])
        return
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.nanpercentile(array, [100 * one for one in FRACTIONS])
        np.testing.assert_array_equal([found[one] for one in FRACTIONS if one != 0.5], np.delete(wanted, 3))
        np.testing.assert_array_equal(found[0.5], np.nanmedian(array))


def test_many_numbers_of_one_bucket_take_more_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.transform.table.statistics.quantiles._HELD", 8)
    values = np.random.default_rng(0).normal(1.5, 1e-9, 5000)
    values[:40] = values[50]
    found = searched(Quantiles(FRACTIONS), values[:77].tolist(), values[77:].tolist())
    wanted = np.percentile(values, [100 * one for one in FRACTIONS])
    assert [found[one] for one in FRACTIONS] == wanted.tolist()


def test_parts_of_quantiles_meet_between_passes() -> None:
    values = np.random.default_rng(1).lognormal(size=999)
    parts = [Quantiles([0.5]) for _ in range(3)]
    going = True
    while going:
        for number, part in enumerate(parts):
            part.add(Block(values[number::3].copy()))
        for part in parts[1:]:
            parts[0].merge(part)
        going = parts[0].next() is not None
        parts = [parts[0], *(__import__("copy").deepcopy(parts[0]) for _ in range(2))] if going else parts
    assert parts[0][0.5] == np.median(values)


def test_counts_of_text_and_numbers() -> None:
    counts = Counts()
    counts.add(Block(pa.array(["b", None, "a", "b", "é"], pa.large_string())))
    counts.add(Block(pa.array(["a", "日"], pa.large_string())))
    values, found = counts.sorted
    assert (values.to_pylist(), found.tolist(), counts.missing) == (["a", "b", "é", "日"], [2, 2, 1, 1], 1)
    assert counts.most_frequent == "a"
    numbers = Counts()
    numbers.add(Block(pa.array([2**53 + 1, 2**53])))
    assert numbers.sorted[0].to_pylist() == [2**53, 2**53 + 1]


def test_more_categories_than_allowed_are_an_error() -> None:
    counts = Counts(limit=10)
    counts.add(Block(pa.array([*range(8)])))
    with pytest.raises(DataError, match="categories or more, and 10 are allowed"):
        counts.add(Block(pa.array([*range(11)])))
    counts = Counts(limit=10)
    for first in range(0, 12, 4):
        counts.add(Block(pa.array([*range(first, first + 4)])))
    with pytest.raises(DataError, match="12 categories"):
        _ = counts.sorted


def add_users(counts: Counts, firsts: Iterable[int]) -> None:
    for first in firsts:
        counts.add(Block(pa.array([f"user {number}" for number in range(first, first + 1000)], pa.large_string())))


def test_categories_beyond_memory_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.transform.table.statistics.counts._PENDING", 1 << 12)
    monkeypatch.setattr("penstock.transform.table.statistics.counts._MOST_BYTES", 1 << 20)
    counts = Counts()
    with pytest.raises(DataError, match=r"has \d\d,\d{3} categories or more, which take more than the 1 MiB .* Hash"):
        add_users(counts, range(0, 10**6, 1000))
    counts = Counts()
    add_users(counts, [0] * 300)  # the same ones again and again
    assert counts.sorted[1].tolist() == [300] * 1000


def test_counts_are_added_up_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.transform.table.statistics.counts._PENDING", 10)
    counts = Counts()
    for number in range(50):
        counts.add(Block(pa.array([number % 7, number % 3])))
    values, found = counts.sorted
    assert (values.to_pylist(), int(found.sum())) == ([*range(7)], 100)
