"""Recipes in plans: ranks, resume, processes, caches, bad rows, and columns that nobody uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import penstock as ps
from support import plans, promises
from support.plans import passes

T = ps.table
ROWS = 120
RNG = np.random.default_rng(5)
TABLE = pa.table({
    "age": pa.array(np.where(RNG.random(ROWS) < 0.2, None, RNG.normal(40, 10, ROWS)), pa.float64()),
    "rooms": pa.array([None if n % 11 == 0 else n % 6 for n in range(ROWS)], pa.int32()),
    "city": pa.array([None if n % 13 == 0 else "abcé"[n % 4] * (n % 3 + 1) for n in range(ROWS)]),
    "note": pa.array([None if n % 5 == 0 else f"note {n}" for n in range(ROWS)]),
    "y": pa.array([n % 2 for n in range(ROWS)]),
})  # fmt: skip


def rows() -> ps.Dataset:
    return ps.from_arrays(TABLE, nulls="arrow")


RECIPE = T.Recipe(
    T.FillMissing("median", indicator=True),
    T.Standardize(),
    rooms=[T.FillMissing("mode"), T.OneHot()],
    city=[T.FillMissing(value="?"), T.Vocabulary(unknown_buckets=2)],
    note=T.FillMissing(value="none"),
    target="y",
)
FITTED = RECIPE.fit(rows())
MATRIX = T.Recipe(T.FillMissing("mean"), T.Robust(), city=T.OneHot(), leave=["note", "y"]).fit(rows()).matrix()
TARGET = T.Recipe(
    city=[T.FillMissing(value="?"), T.Target(), T.Standardize()], rooms=T.Target(), leave="age", target="y"
).fit(rows().every(2))  # half of the rows have folds

PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "columns": lambda: rows().shuffle(seed=1).transform(FITTED).batch(12),
    "before the shuffle": lambda: rows().transform(FITTED).shuffle(seed=1).batch(12),
    "cached": lambda: rows().shuffle(seed=1).transform(FITTED).cache().batch(12),
    "matrix": lambda: rows().shuffle(seed=1).select("age", "rooms", "city", "y").transform(MATRIX).batch(12),
    "target": lambda: rows().shuffle(seed=1).transform(TARGET).select("city", "rooms", "y").batch(12),
    "target, cached, sampled": lambda: rows().select("city", "rooms", "y").sample(96, replacement=True).transform(TARGET).cache().shuffle(seed=1).batch(12),
    "dropped": lambda: rows().transform(T.Recipe(age=[T.DropMissing(), T.MinMax()]).fit(rows())).select("age").batch(12, drop_last=True),
}  # fmt: skip


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_ranks_make_one_batch(plan: Callable[[], ps.Dataset]) -> None:
    plans.ranks_make_one_batch(plan)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_it_resumes_and_any_step_can_be_made(plan: Callable[[], ps.Dataset]) -> None:
    plans.resumes(plan)


@pytest.mark.parametrize("options", [{"isolation": "process"}, {"cpus": 1}], ids=str)
@pytest.mark.parametrize("plan", ["columns", "matrix", "target"])
def test_processes_and_threads_make_the_same(plan: str, options: dict[str, Any]) -> None:
    plans.is_the_same_with(PLANS[plan], **options)


def test_a_state_knows_the_recipe() -> None:
    with ps.Loader(PLANS["columns"]()) as loader:
        state = loader.state_dict()
    other = RECIPE.fit(rows().take(60))
    with (
        ps.Loader(rows().shuffle(seed=1).transform(other).batch(12)) as loader,
        pytest.raises(ps.StateError, match="plan"),
    ):
        loader.load_state_dict(state)


def test_one_row_served_is_a_row_of_a_batch() -> None:
    data = rows()
    for fitted in (FITTED, MATRIX):
        batch = data.transform(fitted).head(ROWS)
        for number, row in enumerate(TABLE.to_pylist()):
            for name, value in fitted.apply(row).items():
                column = batch[name]
                if isinstance(column, pa.Array):
                    assert column[number].as_py() == value
                else:
                    assert (value.dtype, value.tobytes()) == (column.dtype, column[number].tobytes()), name


def test_columns_that_nobody_uses_are_not_made() -> None:
    plan = rows().transform(FITTED)
    assert "read where=memory format=arrays columns=[rooms, y], transform rooms=" in plan.select("rooms", "y").explain()
    assert [*plan.select("age_missing", "rooms").head(3)] == ["age_missing", "rooms"]
    promises.assert_same(plan.select("rooms").head(9), {"rooms": plan.head(9)["rooms"]})


def test_bad_rows_are_named_and_replaced(tmp_path: Path) -> None:
    table = pa.table({"x": [*map(float, range(50))], "word": ["a", "b"] * 25})
    pq.write_table(table, tmp_path / "good.parquet")
    fitted = T.Recipe(x=T.Log(), word=T.OneHot(handle_unknown="error")).fit(ps.read(tmp_path / "good.parquet"))
    pq.write_table(table.set_column(0, "x", [[*map(float, range(48)), -5.0, -1.0]]), tmp_path / "bad.parquet")
    plan = ps.read(tmp_path / "bad.parquet").transform(fitted).batch(10)
    with pytest.raises(
        ps.DataError, match=r"bad\.parquet, record 48: column 'x' is -5, and Log takes numbers above -1; "
    ):
        passes(plan, 1)
    with ps.Loader(plan, on_error="substitute") as loader, pytest.warns(match="record 48"):
        assert [len(batch["x"]) for batch in loader] == [10] * 5
    pq.write_table(table.set_column(1, "word", [["a"] * 49 + ["zz"]]), tmp_path / "new.parquet")
    with pytest.raises(
        ps.DataError, match=r"record 49: column 'word' is \"zz\", a category in no row that the recipe was fitted on"
    ):
        passes(ps.read(tmp_path / "new.parquet").transform(fitted).batch(10), 1)


def test_csv_with_missing_values(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(TABLE, tmp_path / "rows.csv")
    data = ps.read(tmp_path / "rows.csv", nulls="arrow")
    assert RECIPE.fit(data).chains[1:] != ()
    batch, wanted = data.transform(RECIPE.fit(data)).head(ROWS), rows().transform(FITTED).head(ROWS)
    np.testing.assert_array_equal(batch["age"], wanted["age"])
    np.testing.assert_array_equal(batch["rooms"], wanted["rooms"])


def test_nan_for_nulls_gives_the_same() -> None:
    data = ps.from_arrays(TABLE.drop_columns("note"), nulls="nan")
    recipe = T.Recipe(T.FillMissing("median"), T.Standardize(), T.OneHot(), leave=["y"])
    wanted = ps.from_arrays(TABLE.drop_columns("note"), nulls="arrow")
    for name, column in data.transform(recipe.fit(data)).head(ROWS).items():
        np.testing.assert_array_equal(column, wanted.transform(recipe.fit(wanted)).head(ROWS)[name])


def test_a_function_before_it_makes_columns() -> None:
    plan = ps.from_arrays({"x": np.arange(10.0)}).map(lambda batch: {"x": batch["x"] * 2})
    fitted = T.Recipe(x=T.MinMax()).fit(ps.from_arrays({"x": np.arange(10.0) * 2}))
    assert (
        passes(plan.transform(fitted).batch(10), 1)[0]["x"].tolist() == (np.arange(10, dtype=np.float32) / 9).tolist()
    )
