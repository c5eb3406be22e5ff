"""Ops beside scikit-learn, on tables that it brings along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets, impute, preprocessing

import penstock as ps

T = ps.table
#: Results are float32; both compute in float64.
ROUNDED = {"rtol": 3e-7, "atol": 3e-7}


def numbers(name: str) -> dict[str, np.ndarray]:
    table = {"diabetes": datasets.load_diabetes, "wine": datasets.load_wine, "cancer": datasets.load_breast_cancer}[
        name
    ]()
    return {f"c{place}": column for place, column in enumerate(np.ascontiguousarray(table.data.T))}


def with_gaps(columns: dict[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: np.where(rng.random(len(column)) < 0.1, np.nan, column) for name, column in columns.items()}


def made(columns: dict[str, Any], *ops: Any) -> np.ndarray:
    data = ps.from_arrays(columns)
    recipe = T.Recipe(*ops, T.Cast("float64")).fit(data)
    batch = data.transform(recipe).head(1 << 20)
    return np.stack([batch[name] for name in columns], axis=1)


def table_of(columns: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([*columns.values()], axis=1)


SCALERS = {
    "standardize": (T.Standardize(), preprocessing.StandardScaler()),
    "standardize, mean": (T.Standardize(with_std=False), preprocessing.StandardScaler(with_std=False)),
    "standardize, scale": (T.Standardize(with_mean=False), preprocessing.StandardScaler(with_mean=False)),
    "min and max": (T.MinMax(), preprocessing.MinMaxScaler()),
    "min and max, range": (T.MinMax((-1, 2), clip=True), preprocessing.MinMaxScaler((-1, 2), clip=True)),
    "robust": (T.Robust(), preprocessing.RobustScaler()),
    "robust, range": (T.Robust(quantile_range=(10, 80)), preprocessing.RobustScaler(quantile_range=(10, 80))),
}


@pytest.mark.parametrize("table", ["diabetes", "wine", "cancer"])
@pytest.mark.parametrize(("op", "other"), SCALERS.values(), ids=SCALERS)
def test_scaling(table: str, op: Any, other: Any) -> None:
    columns = with_gaps(numbers(table))
    np.testing.assert_allclose(made(columns, op), other.fit_transform(table_of(columns)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("table", ["diabetes", "wine", "cancer"])
@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent"])
def test_filling(table: str, strategy: str) -> None:
    columns = with_gaps(numbers(table))
    wanted = impute.SimpleImputer(strategy=strategy).fit_transform(table_of(columns))
    found = made(columns, T.FillMissing(strategy))
    np.testing.assert_allclose(found, wanted, rtol=1e-12 if strategy == "mean" else 0)


def test_filling_then_scaling() -> None:
    columns = with_gaps(numbers("wine"))
    for strategy in ("mean", "median"):
        filled = impute.SimpleImputer(strategy=strategy).fit_transform(table_of(columns))
        wanted = preprocessing.StandardScaler().fit_transform(filled)
        np.testing.assert_allclose(
            made(columns, T.FillMissing(strategy), T.Standardize()), wanted, rtol=1e-11, atol=1e-11
        )


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_bins(strategy: str) -> None:
    columns = numbers("cancer")
    options = {"quantile_method": "linear"} if hasattr(preprocessing.KBinsDiscretizer(), "quantile_method") else {}
    other = preprocessing.KBinsDiscretizer(7, encode="ordinal", strategy=strategy, subsample=None, **options)
    np.testing.assert_array_equal(made(columns, T.Bins(7, strategy)), other.fit_transform(table_of(columns)))


@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_powers(method: str) -> None:
    columns = {name: column for name, column in numbers("wine").items() if column.min() > 0}
    other = preprocessing.PowerTransformer(method).fit(table_of(columns))
    recipe = T.Recipe(T.Power(method), T.Cast("float64")).fit(ps.from_arrays(columns))
    powers = [ops[0].learnt["power"] for _, ops in recipe.chains]  # type: ignore[attr-defined]
    np.testing.assert_allclose(powers, other.lambdas_, atol=2e-4)
    np.testing.assert_allclose(made(columns, T.Power(method)), other.transform(table_of(columns)), atol=1e-3)


def categories() -> dict[str, list[str]]:
    rng = np.random.default_rng(3)
    words = ["b", "a", "é", "日本", "", "Z", "aa"]
    return {"one": rng.choice(words, 300).tolist(), "two": rng.choice(words[:4], 300).tolist()}


def test_categories() -> None:
    columns = categories()
    table, data = np.array([*columns.values()], dtype=object).T, ps.from_arrays(columns)
    wanted = preprocessing.OneHotEncoder(sparse_output=False).fit(table)
    recipe = T.Recipe(T.OneHot()).fit(data).matrix()
    np.testing.assert_array_equal(data.transform(recipe).head(300)["features"], wanted.transform(table))
    assert recipe.feature_names == wanted.get_feature_names_out([*columns]).tolist()
    codes = preprocessing.OrdinalEncoder().fit_transform(table)
    batch = data.transform(T.Recipe(T.Ordinal()).fit(data)).head(300)
    np.testing.assert_array_equal(np.stack([batch[name] for name in columns], axis=1), codes)


def test_categories_of_numbers_with_missing_ones() -> None:
    column = np.array([2.0, np.nan, -1.5, 2.0, 0.0, -0.0])
    wanted = preprocessing.OneHotEncoder(sparse_output=False).fit_transform(column[:, None])
    data = ps.from_arrays({"x": column})
    np.testing.assert_array_equal(data.transform(T.Recipe(x=T.OneHot()).fit(data)).head(9)["x"], wanted)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3)


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, min_size=1, max_size=20), st.lists(TEXTS, min_size=1, max_size=20))
def test_categories_of_any_text_also_of_rows_that_fit_did_not_meet(known: list[str], others: list[str]) -> None:
    given_, rows = (np.array(some, object)[:, None] for some in (known, [*others, *known]))
    recipe = T.Recipe(hot=T.OneHot(), code=T.Ordinal()).fit(ps.from_arrays({"hot": known, "code": known}))
    texts = rows[:, 0].tolist()
    batch = ps.from_arrays({"hot": texts, "code": texts}).transform(recipe).head(len(rows))
    hot = preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(given_)
    codes = preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(given_)
    assert batch["hot"].tolist() == hot.transform(rows).tolist()
    assert batch["code"].tolist() == codes.transform(rows)[:, 0].tolist()
    assert [recipe.apply({"hot": text, "code": text})["code"] for text in texts] == batch["code"].tolist()


def test_products() -> None:
    columns = numbers("wine")
    names = [*columns][:4]
    other = preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False)
    wanted = other.fit_transform(table_of(columns)[:, :4])[:, 4:]
    data = ps.from_arrays(columns)
    found = data.transform(T.Recipe(pairs=T.Interactions(names)).fit(data)).head(1000)["pairs"]
    np.testing.assert_allclose(found, wanted, **ROUNDED)


def test_a_constant_and_a_nearly_constant_column() -> None:
    columns = {"same": np.full(50, 0.1), "nearly": 1e8 + np.arange(50) * 1e-8, "zero": np.zeros(50)}
    for op, other in (SCALERS[name] for name in ("standardize", "min and max", "robust")):
        np.testing.assert_allclose(made(columns, op), other.fit_transform(table_of(columns)), rtol=1e-7, atol=1e-7)


def test_logarithms_are_those_of_numpy() -> None:
    column = np.abs(np.random.default_rng(0).normal(size=2000)) * 10.0 ** np.arange(-10, 10).repeat(100)
    found = made({"x": column}, T.Log())[:, 0]
    np.testing.assert_allclose(found, np.log1p(column), rtol=4e-16)
    found = made({"x": column}, T.Log(0.5))[:, 0]
    np.testing.assert_allclose(found, np.log(column + 0.5), rtol=4e-16, atol=2e-16)


def test_dates_are_those_of_arrow() -> None:
    import pyarrow.compute as pc

    seconds = np.random.default_rng(0).integers(-60_000_000_000, 250_000_000_000, 5000)
    stamps = pa.array(seconds, pa.timestamp("s"))
    parts = ["year", "quarter", "month", "day", "weekday", "dayofyear", "hour", "minute", "second"]
    found = ps.from_arrays({"when": seconds}).transform(when=T.DateParts(parts, unit="s")).head(5000)["when"]
    ways = [pc.year, pc.quarter, pc.month, pc.day, pc.day_of_week, pc.day_of_year, pc.hour, pc.minute, pc.second]
    wanted = np.stack([way(stamps).to_numpy() for way in ways], axis=1)
    np.testing.assert_array_equal(found, wanted)
