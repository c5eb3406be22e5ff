"""Drift: beside SciPy, and beside the formulas."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp

import penstock as ps
from penstock.profiling.drift import js_of, psi_of


def normal(rows: int, mean: float = 0.0, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(mean, 1, rows)


def drift(before: Any, after: Any) -> Any:
    found = [ps.profile(ps.from_arrays({"x": side}, nulls="arrow")) for side in (before, after)]
    return found[0].compare(found[1])["x"]


@pytest.mark.parametrize("rows", [300, 30_000, 150_000])
@pytest.mark.parametrize("mean", [0.0, 0.2, 3.0])
def test_numbers_are_as_scipys(rows: int, mean: float) -> None:
    before, after = normal(rows), normal(rows // 2, mean, seed=1)
    found = drift(before, after)
    exact = 1e-12 if rows == 300 else 4e-3  # beyond 512 values, distributions are known at 256 points and more
    assert found["ks"] == pytest.approx(ks_2samp(before, after).statistic, abs=exact)
    edges = np.quantile(before, np.arange(1, 10) / 10)
    shares = [np.bincount(np.searchsorted(edges, side), minlength=10) / len(side) for side in (before, after)]
    floor = [np.maximum(side, 1e-4) for side in shares]
    psi = ((floor[1] - floor[0]) * np.log(floor[1] / floor[0])).sum()
    assert found["psi"] == pytest.approx(psi, abs=1e-9 if rows == 300 else 0.01, rel=0.05)
    assert found["js"] == pytest.approx(jensenshannon(*shares, base=2), abs=1e-9 if rows == 300 else 0.01)


def test_words_follow_the_usual_thresholds() -> None:
    before = normal(5000)
    levels = [drift(before, normal(5000, mean, seed=1))["level"] for mean in (0.0, 0.4, 1.0)]
    assert levels == ["stable", "moderate", "strong"]
    assert drift(before, normal(5000, 0.4, seed=1))["says"].startswith("moderate drift")


def test_formulas() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    assert psi_of(p, q) == pytest.approx(sum((b - a) * math.log(b / a) for a, b in zip(p, q, strict=True)))
    assert js_of(p, q) == pytest.approx(jensenshannon(p, q, base=2))
    assert js_of(np.array([1.0, 0]), np.array([0, 1.0])) == 1


def test_categories_that_came_and_went() -> None:
    found = drift(["a", "b", "c"] * 20, ["a", "b", "d", "d"] * 20)
    assert (found["new"]["first"], found["lost"]["first"]) == (["d"], ["c"])
    assert found["new"]["rows"] == 40
    assert found["says"] == "strong drift; 1 new category; 1 lost category"
    shares = [np.array(side) for side in ([1 / 3, 1 / 3, 1 / 3, 0], [1 / 4, 1 / 4, 0, 1 / 2])]
    assert found["js"] == pytest.approx(jensenshannon(*shares, base=2))
    floor = [np.maximum(side, 1e-4) for side in shares]
    assert found["psi"] == pytest.approx(((floor[1] - floor[0]) * np.log(floor[1] / floor[0])).sum(), rel=1e-3)


def test_texts_of_too_many_values_are_compared_by_those_that_are_known_of_both() -> None:
    texts = [f"{number % 3000}" for number in range(9000)]
    found = drift(texts, texts[:5000])
    assert found["new"]["count"] is None
    assert found["level"] == "stable"
    assert "by the most frequent values" in found["says"]


def test_missing_values_and_types() -> None:
    gone = np.where(np.arange(1000) % 5 == 0, np.nan, normal(1000))
    found = drift(normal(1000), gone)
    assert found["level"] == "moderate"
    assert "missing in 20.0%, before in 0.0%" in found["says"]
    found = drift(np.arange(100), ["a"] * 100)
    assert (found["level"], found["says"]) == ("changed", "another type: int64, then string")
    found = drift(np.arange(100), np.arange(100.0))
    assert (found["level"], found["says"]) == ("stable", "stable; type int64, then float64")
    found = drift(np.arange(100.0), np.full(100, np.nan))
    assert found["psi"] is None
    assert found["level"] == "moderate"


def test_columns_that_came_and_went() -> None:
    before, after = ps.from_arrays({"a": [1, 2], "b": [1, 2]}), ps.from_arrays({"b": [1, 2], "c": [1, 2]})
    found = ps.profile(before).compare(after)
    assert {name: column["says"] for name, column in found.columns.items()} == {
        "a": "lost column",
        "b": "stable",
        "c": "new column",
    }
    assert not found.is_stable
    assert "2 columns changed" in repr(found)
    json.loads(found.to_json())


def test_odd_columns_are_compared() -> None:
    columns: dict[str, Any] = {
        "l": pa.array([[1], [], [2, 3]]),
        "b": pa.array([b"x", b"", b"yy"]),
        "v": np.ones((3, 2)),
        "e": np.array([1e308, -1e308, np.inf]),
        "t": np.array([True, False, True]),
    }
    data = ps.from_arrays(columns)
    assert ps.profile(data).compare(data).is_stable
    assert ps.profile(data).compare(data.take(1))["l"]["psi"] > 0


def test_a_profile_is_compared_with_a_profile_or_a_dataset() -> None:
    with pytest.raises(ps.PlanError, match="takes a dataset"):
        ps.profile(ps.from_arrays({"x": [1]})).compare(7)
