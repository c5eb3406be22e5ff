"""Encoders whose categories are given: beside pandas' codes and scikit-learn's `categories=`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

T = ps.table
pd = pytest.importorskip("pandas")
NAMES = ["owl", "dog", "日本", "", "cat"]


def pets(rows: int = 100) -> tuple[Any, ps.Dataset]:
    codes = np.random.default_rng(0).integers(-1, len(NAMES) - 1, rows)
    frame = pd.DataFrame({"kind": pd.Categorical.from_codes(codes, NAMES)})
    return frame, ps.from_arrays(frame, nulls="arrow")


def test_ordinal_keeps_the_codes_of_pandas(tmp_path: Path) -> None:
    frame, data = pets()
    wanted = frame["kind"].cat.codes.tolist()
    op = T.Ordinal(categories=data.categories("kind"))
    assert data.transform(kind=op).head(100)["kind"].tolist() == wanted
    recipe = T.Recipe(kind=op).fit(data)
    assert data.transform(recipe).head(100)["kind"].tolist() == wanted
    recipe.save(tmp_path / "recipe.json")
    loaded = T.load(tmp_path / "recipe.json")
    assert [int(loaded.apply({"kind": name})["kind"]) for name in [*NAMES, "new", None]] == [0, 1, 2, 3, 4, -1, -1]
    assert loaded.inverse({"kind": np.array([4, 0, -1])})["kind"].to_pylist() == ["cat", "owl", None]


def test_one_hot_has_a_place_for_each(tmp_path: Path) -> None:
    frame, data = pets()
    op = T.OneHot(categories=NAMES)
    found = data.transform(kind=op)
    assert found.spec["kind"].shape == (len(NAMES),)
    wanted = np.eye(len(NAMES) + 1, dtype=np.float32)[frame["kind"].cat.codes][:, : len(NAMES)]
    np.testing.assert_array_equal(found.head(100)["kind"], wanted)
    assert T.Recipe(kind=op).fit(data).matrix().feature_names == [f"kind_{name}" for name in NAMES]


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (["b", "a", "z", "b"], ["c", "b", "a"]),
        ([3, 1, 9, 3], [1, 3, 7]),
        ([0.5, -1.0, 2.0, -0.0], [0.0, 0.5, -1.0]),
    ],
)
def test_beside_scikit_learn(values: list[Any], categories: list[Any]) -> None:
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    column = np.array(values, object if isinstance(values[0], str) else None).reshape(-1, 1)
    data = ps.from_arrays({"x": values})
    given: Any = [sorted(categories)] if not isinstance(values[0], str) else [categories]
    ordinal = preprocessing.OrdinalEncoder(categories=given, handle_unknown="use_encoded_value", unknown_value=-1)
    found = data.transform(x=T.Ordinal(categories=given[0])).head(4)["x"]
    np.testing.assert_array_equal(found, ordinal.fit_transform(column)[:, 0])
    one_hot = preprocessing.OneHotEncoder(categories=given, handle_unknown="ignore", sparse_output=False)
    found = data.transform(x=T.OneHot(categories=given[0])).head(4)["x"]
    np.testing.assert_array_equal(found, one_hot.fit_transform(column))


def test_unknown_ones_are_an_error_where_asked() -> None:
    data = ps.from_arrays({"x": ["a", "b"]})
    with pytest.raises(ps.DataError, match='is "b", a category'):
        data.transform(x=T.Ordinal(categories=["a"], handle_unknown="error")).head()


@pytest.mark.parametrize("op", [T.Ordinal, T.OneHot])
@pytest.mark.parametrize("given", ["abc", 3, [], ["a", "a"], ["a", 1], [None, "a"], [float("nan")], [[1], [2]], [b"a"]])
def test_what_are_no_categories(op: Any, given: Any) -> None:
    with pytest.raises(ps.PlanError, match="categories="):
        op(categories=given)


@pytest.mark.parametrize(("values", "categories"), [(["a"], [1]), ([1], ["1"]), ([1.5], ["1.5"])])
def test_categories_of_another_kind_are_an_error(values: Any, categories: Any) -> None:
    data = ps.from_arrays({"x": values})
    with pytest.raises(ps.PlanError, match="its categories are such as"):
        data.transform(x=T.Ordinal(categories=categories))
    with pytest.raises(ps.PlanError, match="its categories are such as"):
        T.Recipe(x=T.OneHot(categories=categories)).fit(data)
