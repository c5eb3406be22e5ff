"""What looks at rows ahead sees computed columns as batches have them: recipes, profiles, filters by functions, pairs by a key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

T = ps.table
X, T_ = ps.col("x"), ps.col("t")


def table(path: Path) -> Path:
    columns = {
        "x": pa.array([None if row % 7 == 3 else float(row) for row in range(100)]),
        "n": pa.array(np.arange(100, dtype=np.int32)),
        "k": pa.array([None if row % 5 == 1 else row for row in range(100)], pa.int64()),
        "t": pa.array([f"Text {row % 4}" for row in range(100)]),
    }
    pq.write_table(pa.table(columns), path / "rows.parquet", row_group_size=17)
    return path / "rows.parquet"


PLANS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "same name": lambda data: data.with_columns(x=X * 10, t=T_.str.lower()),
    "new name": lambda data: data.with_columns(y=X + ps.col("n"), z=T_.str.len()),
    "twice": lambda data: data.with_columns(x=X * 10).with_columns(x=X + 1, y=X),
    "exchanged": lambda data: data.rename({"x": "n", "n": "x"}),
    "cast": lambda data: data.cast({"n": "float32", "x": "string"}),
    "filled": lambda data: data.fill_null({"x": -1.0, "k": 0}),
    "a value": lambda data: data.with_columns(one=ps.lit("all"), two=2).select("one", "two"),
    "chosen": lambda data: data.with_columns(x=X * 10).filter(ps.col("n") % 3 == 0).take(20).select("x", "t"),
    "sorted": lambda data: data.with_columns(x=ps.col("n") % 10).sort("x"),
    "beside": lambda data: ps.zip([data, ps.from_arrays({"w": np.arange(100.0)})]).with_columns(x=X * ps.col("w")),
    "forward": lambda data: data.forward_fill(),
    "null left": lambda data: data.with_columns(k=ps.col("k") * 2, known=ps.col("k").is_null()),
}


def as_list(column: Any) -> list[Any]:
    values = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    return [None if isinstance(value, float) and np.isnan(value) else value for value in values]


@pytest.mark.parametrize("nulls", ["nan", "arrow"])
@pytest.mark.parametrize("name", PLANS)
def test_blocks_are_as_batches(tmp_path: Path, name: str, nulls: Any) -> None:
    plan = PLANS[name](ps.read(table(tmp_path), nulls=nulls))
    wanted = plan.head(len(plan))
    for names in [[*plan.spec], [next(iter(plan.spec))]]:
        found: dict[str, list[Any]] = {one: [] for one in names}
        rows = []
        for block in plan.blocks(names):
            rows += block.ids.tolist()
            for one in names:
                found[one] += as_list(block.columns[one])
        if name == "sorted":  # blocks come in the order of the data
            assert {one: sorted(map(str, values)) for one, values in found.items()} == {
                one: sorted(map(str, as_list(wanted[one]))) for one in names
            }
        else:
            assert found == {one: as_list(wanted[one]) for one in names}


def test_recipes_learn_of_computed_columns(tmp_path: Path) -> None:
    data = ps.read(table(tmp_path), nulls="nan")
    stored = np.array([row for row in range(100) if row % 7 != 3], float)
    for plan, values in [
        (data.with_columns(x=X * 10), stored * 10),
        (data.fill_null({"x": 50.0}), np.array([50.0 if row % 7 == 3 else row for row in range(100)])),
        (data.rename({"n": "x", "x": "n"}), np.arange(100.0)),
        (data.with_columns(x=X + 1).filter(ps.col("n") < 50), stored[stored < 50] + 1),
    ]:
        recipe = T.Recipe(x=T.Standardize()).fit(plan.select("x"))
        found = recipe.inverse({"x": np.array([0.0, 1.0])})["x"]
        np.testing.assert_allclose(found, [values.mean(), values.mean() + values.std()], rtol=1e-12)
        x = plan.transform(recipe).select("x").head(100)["x"]
        assert abs(float(np.nanmean(x))) < 1e-6
    recipe = T.Recipe(t=T.OneHot()).fit(data.with_columns(t=T_.str.upper()).select("t"))
    assert recipe.feature_names[0] == "t_TEXT 0"


def test_a_new_column_can_be_fitted_and_profiled(tmp_path: Path) -> None:
    data = ps.read(table(tmp_path), nulls="arrow").with_columns(y=X * 2, big=X > 50)
    recipe = T.Recipe(y=T.MinMax()).fit(data)
    assert recipe.inverse({"y": np.array([1.0])})["y"][0] == pytest.approx(198)
    facts = ps.profile(data)
    assert facts["y"]["numbers"]["greatest"] == 198
    assert facts["y"]["missing"] == facts["x"]["missing"] == 14
    assert ps.profile(data.with_columns(x=X * 10))["x"]["numbers"]["greatest"] == 990


def test_a_function_that_looks_ahead_gets_computed_columns(tmp_path: Path) -> None:
    data = ps.read(table(tmp_path)).with_columns(n=ps.col("n") * 10, t=T_.str.lower()).select("n", "t")
    few = data.filter(lambda batch: batch["n"] > 955, columns="n", ahead=True)
    assert few.head(9)["n"].tolist() == [960, 970, 980, 990]
    few = data.filter(lambda batch: np.array([text == "text 1" for text in batch["t"].to_pylist()]), ahead=True)
    assert len(few) == 25


def test_pairs_go_by_computed_keys() -> None:
    one = ps.from_arrays({"id": [1, 2, 3], "v": [10, 20, 30]}).with_columns(id=ps.col("id") * 2)
    other = ps.from_arrays({"key": [6, 4, 2], "w": [60, 40, 20]}).rename({"key": "id"})
    found = ps.zip([one, other], on="id").head(3)
    assert (found["id"].tolist(), found["v"].tolist(), found["w"].tolist()) == ([2, 4, 6], [10, 20, 30], [20, 40, 60])


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    data = ps.read(table(tmp_path), nulls="arrow").with_columns(n=ps.col("n").cast("int8") // (ps.col("n") - 40))
    with pytest.raises(ps.DataError, match=r"rows\.parquet.*40"):
        T.Recipe(n=T.MinMax()).fit(data.select("n"))
    with pytest.raises(ps.DataError, match=r"rows\.parquet.*40"):
        ps.profile(data.select("n"))
    left = ps.read(table(tmp_path), nulls="error").with_columns(k=ps.col("k") * 2).select("k")
    with pytest.raises(ps.DataError, match=r"'k'.* is null"):
        T.Recipe(k=T.MinMax()).fit(left)


def test_joined_datasets_that_compute_each_for_itself(tmp_path: Path) -> None:
    path = table(tmp_path)
    both = ps.concat(
        [ps.read(path).select("n"), ps.read(path).with_columns(n=(ps.col("n") + 100).cast("int32")).select("n")]
    )
    with pytest.raises(ps.PlanError, match="below concat"):
        T.Recipe(n=T.MinMax()).fit(both)
    assert ps.profile(both)["n"]["numbers"]["greatest"] == 199
