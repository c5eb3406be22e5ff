"""`apply` and `inverse` with what no recipe takes or makes: errors that say what to pass, and nothing silently wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import penstock as ps

T = ps.table


def recipe() -> Any:
    data = ps.from_arrays(
        {"a": [1.0, 2.0, 6.0, 9.0], "b": [1.0, 2.0, 6.0, 9.0], "t": ["x", "y", "z", "x"], "k": ["x", "y", "z", "x"]}
    )
    return T.Recipe(a=T.Standardize(), b=T.Bins(3), t=T.OneHot(), k=T.Ordinal()).fit(data)


@pytest.mark.parametrize("row", [None, 5, "a", ["x", 1.0], (1.0,), np.zeros(3)])
def test_a_row_is_a_mapping(row: Any) -> None:
    with pytest.raises(ps.PlanError, match=r"apply\(\w+\): pass a row as values by column: \{'a': …\}"):
        recipe().apply(row)


def test_what_pandas_calls_missing_is_missing() -> None:
    data = ps.from_arrays({"x": [1.0, np.nan, 3.0], "t": pa.array(["a", None, "b"])}, nulls="arrow")
    made = T.Recipe(x=T.FillMissing(value=2.0), t=T.OneHot()).fit(data)
    frame = pd.DataFrame({"x": pd.array([None], "Float64"), "t": pd.array([None], "string")})
    for row in ({"x": pd.NA, "t": pd.NA}, frame.iloc[0], {"x": np.nan, "t": np.nan}, {"x": None, "t": None}):
        served = made.apply(row)
        assert served["x"] == 2.0
        assert served["t"].tolist() == [0.0, 0.0, 1.0]


def test_inverse_takes_columns_by_name() -> None:
    with pytest.raises(ps.PlanError, match=r"inverse\(ndarray\): pass arrays by column: \{'a': …\}"):
        recipe().inverse(np.zeros((2, 4)))


def test_a_row_without_columns_says_so() -> None:
    with pytest.raises(ps.PlanError, match="no column 'a'; the row has none"):
        recipe().apply({})


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("a", np.array(["q"]), "'a' is <U1 of shape .*makes float32 of each row"),
        ("a", np.zeros((2, 3)), r"shape \(2, 3\)"),
        ("a", 5.0, r"shape \(\)"),
        ("t", np.zeros((1, 5)), r"shape \(1, 5\), and the recipe makes float32\(3\)"),
        ("t", np.zeros(3), r"shape \(3,\)"),
        ("k", np.array([0.4]), "0.4 is no code; round"),
        ("k", np.array(["x"]), "is <U1 of shape"),
        ("b", np.array([3]), "3 is no bin; there are 0 … 2"),
        ("b", np.array([-2]), "-2 is no bin"),
        ("b", np.array([0.5]), "0.5 is no code"),
    ],
)
def test_inverse_takes_what_the_recipe_makes(name: str, values: Any, says: str) -> None:
    with pytest.raises(ps.PlanError, match=says):
        recipe().inverse({name: values})


def test_inverse_of_whole_floats_and_of_none() -> None:
    made = recipe()
    assert made.inverse({"k": np.array([0.0, 2.0, np.nan, -1.0, 7.0])})["k"].to_pylist() == ["x", "z", None, None, None]
    assert made.inverse({"t": np.zeros((1, 3))})["t"].to_pylist() == [None]
    middles = made.inverse({"b": np.array([0, 2, -1])})["b"]
    assert middles[0] < middles[1]
    assert np.isnan(middles[2])
