"""Forward fill: beside pandas and Polars, in any order, on any ranks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from support.tries import tries

pd = pytest.importorskip("pandas")


def frame(rows: int = 500, seed: int = 0, missing: float = 0.6) -> Any:
    """Columns of every kind, of which most rows are missing."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "whole": pd.array(rng.integers(-(2**62), 2**62, rows), "Int64"),
            "small": pd.array(rng.integers(0, 200, rows), "UInt8"),
            "float": rng.normal(size=rows),
            "single": rng.normal(size=rows).astype(np.float32),
            "flag": pd.array(rng.random(rows) < 0.5, "boolean"),
            "text": pd.array([f"日 {number}" for number in range(rows)], "string"),
        }
    )
    for name in made:
        made.loc[rng.random(rows) < missing, name] = None
    return made.assign(row=np.arange(rows))


def as_lists(columns: Any) -> dict[str, list[Any]]:
    """Columns as Python has them, with None for what is missing."""
    found = {}
    for name, column in columns.items():
        values = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
        found[name] = [None if value is pd.NA or value != value else value for value in values]  # NaN
    return found


@pytest.mark.parametrize("parts", [1, 3])
def test_files_beside_pandas(tmp_path: Path, parts: int) -> None:
    some = frame()
    edges = np.linspace(0, len(some), parts + 1).astype(int)
    for number, (first, end) in enumerate(pairwise(edges)):
        some[first:end].to_parquet(tmp_path / f"{number}.parquet", row_group_size=37)
    filled = ps.read(tmp_path, nulls="arrow").forward_fill()
    assert as_lists(filled.head(500)) == as_lists(some.ffill())
    assert {name: field.dtype for name, field in filled.spec.items()} == {
        "whole": "int64", "small": "uint8", "float": "float64", "single": "float32", "flag": "bool", "text": "string", "row": "int64",
    }  # fmt: skip


def test_frames_with_nan_beside_pandas_and_polars() -> None:
    pl = pytest.importorskip("polars")
    some = frame()[["float", "single", "row"]]
    filled = ps.from_arrays(some).forward_fill("float")
    assert filled.spec["float"] == ps.from_arrays(some).spec["float"]
    wanted = some["float"].ffill().to_numpy()
    np.testing.assert_array_equal(filled.head(500)["float"], wanted)
    np.testing.assert_array_equal(filled.head(500)["single"], some["single"])
    polars = pl.from_pandas(some).select(pl.col("float").forward_fill())["float"].fill_null(np.nan)
    np.testing.assert_array_equal(filled.head(500)["float"], polars.to_numpy())


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_order_and_ranks_change_no_value(tmp_path: Path, world_size: int) -> None:
    some = frame()
    some.to_parquet(tmp_path / "a.parquet", row_group_size=37)
    wanted = as_lists(some.ffill())
    plan = ps.read(tmp_path, nulls="arrow").forward_fill().shuffle(seed=3).batch(50)
    rows = set()
    for rank in range(world_size):
        with ps.Loader(plan, rank=rank, world_size=world_size, epochs=2) as loader:
            for batch in loader:
                found = as_lists(batch)
                for place, row in enumerate(found["row"]):
                    rows.add(row)
                    assert {name: values[place] for name, values in found.items()} == {
                        name: values[row] for name, values in wanted.items()
                    }
    assert len(rows) == 500


def test_a_run_that_is_resumed_goes_on(tmp_path: Path) -> None:
    some = frame()
    some.to_parquet(tmp_path / "a.parquet")
    plan = ps.read(tmp_path, nulls="arrow").forward_fill().shuffle(seed=3).batch(50)
    with ps.Loader(plan) as loader:
        batches = [batch for _, batch in zip(range(6), loader, strict=False)]
    with ps.Loader(plan) as loader:
        _ = [batch for _, batch in zip(range(3), loader, strict=False)]
        state = loader.state_dict()
    with ps.Loader(ps.read(tmp_path, nulls="arrow").forward_fill().shuffle(seed=3).batch(50)) as loader:
        loader.load_state_dict(state)
        assert as_lists(next(iter(loader))) == as_lists(batches[3])


def test_rules_about_nulls_hold_for_what_is_left(tmp_path: Path) -> None:
    pd.DataFrame({"x": pd.array([None, 1, None], "Int64")}).to_parquet(tmp_path / "a.parquet")
    path = tmp_path / "a.parquet"
    assert ps.read(path).forward_fill().skip(1).head()["x"].tolist() == [1, 1]
    with pytest.raises(ps.DataError, match="record 0 with sample 0: column 'x' is null"):
        ps.read(path).forward_fill().head()
    np.testing.assert_array_equal(ps.read(path, nulls="nan").forward_fill().head()["x"], [np.nan, 1, 1])
    with pytest.raises(ps.PlanError, match="was decided where it is read"):
        ps.read(path, nulls="mask").forward_fill()


def test_sorted_and_chosen_rows_are_filled_as_they_stand() -> None:
    some = frame()
    order = np.random.default_rng(1).permutation(len(some))
    data = ps.from_arrays(some.assign(time=order), nulls="arrow")
    found = data.sort("time").forward_fill("text", "float").head(500)
    wanted = some.assign(time=order).sort_values("time").ffill()
    assert as_lists(found)["text"] == as_lists(wanted)["text"]
    assert as_lists(found)["float"] == as_lists(wanted)["float"]
    few = data.filter(ps.col("row") % 3 == 0).forward_fill().select("text", "row").head(500)
    assert as_lists(few) == as_lists(some[some["row"] % 3 == 0].ffill()[["text", "row"]])
    train = data.split({"train": 0.5, "val": 0.5}, by="row")["train"]
    rows = train.head(500)["row"].tolist()
    assert as_lists(train.forward_fill().select("text").head(500)) == as_lists(some.loc[rows, ["text"]].ffill())


def test_other_verbs_see_what_was_filled() -> None:
    some = frame()
    wanted = some.ffill()
    filled = ps.from_arrays(some, nulls="arrow").forward_fill()
    assert (
        filled.drop_nulls("text").select("row").head(500)["row"].tolist()
        == wanted["row"][wanted["text"].notna()].tolist()
    )
    high = filled.filter(ps.col("small") > 100).select("row").head(500)["row"].tolist()
    assert high == wanted["row"][(wanted["small"] > 100).fillna(value=False)].tolist()
    twice = filled.with_columns(twice=ps.col("float") * 2).select("twice").head(500)
    assert as_lists(twice)["twice"] == as_lists(pd.DataFrame({"twice": wanted["float"] * 2}))["twice"]
    recipe = ps.table.Recipe(float=[ps.table.FillMissing("mean"), ps.table.Standardize()], leave=["text"]).fit(filled)
    wanted_mean = wanted["float"].mean()
    assert recipe.inverse({"float": np.zeros(1)})["float"][0] == pytest.approx(wanted_mean, rel=1e-6)


def test_nothing_to_fill_changes_nothing() -> None:
    data = ps.from_arrays({"x": np.arange(3), "y": [np.nan, 1.0, 2.0]})
    assert data.forward_fill().root is data.root
    nothing = ps.from_arrays({"y": np.full(3, np.nan)})
    assert np.isnan(nothing.forward_fill().head()["y"]).all()


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40))
def test_any_whole_numbers(values: list[int | None]) -> None:
    data = ps.from_arrays(pa.table({"x": pa.array(values, pa.int64())}), nulls="arrow")
    found = data.forward_fill().head(len(values))["x"]
    assert (
        as_lists({"x": found})["x"]
        == pd.Series(values, dtype="Int64").ffill().astype(object).where(lambda one: one.notna(), None).tolist()
    )


@pytest.mark.parametrize("nulls", ["error", "nan", "arrow"])
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1, 2], None, [3]], None),
        ([["a"], None, []], None),
        ([[[1]], None, [[2]]], None),
        ([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    ],
)
def test_lists_that_are_missing_are_never_left_without_a_word(
    tmp_path: Path, values: Any, kind: Any, nulls: str
) -> None:
    """A column that cannot be filled is refused where a row of it is missing, and left as it is where others are named."""
    table = pa.table({"x": pa.array(values, kind), "n": [1, None, 2]})
    pq.write_table(table, tmp_path / "x.parquet")
    data = ps.read(tmp_path / "x.parquet", nulls=nulls)
    says = r"column 'x' is .*, which cannot be filled, and missing in 1 row, the first is row 1; name .* forward_fill\('a', 'b'\)"
    with pytest.raises(ps.PlanError, match=says):
        data.forward_fill()
    with pytest.raises(ps.PlanError, match=r"'x' is .*leave it out"):
        data.forward_fill("x")
    assert data.forward_fill("n").select("n").head()["n"].tolist() == [1, 1, 2]
    if nulls == "arrow":
        assert data.forward_fill("n").head()["x"].to_pylist() == values
    assert data.select("n").forward_fill().head()["n"].tolist() == [1, 1, 2]
    whole = data.filter(ps.col("x").is_not_null())
    assert whole.forward_fill().select("n").head()["n"].tolist() == [1, 2]  # no list is missing
    within = pa.table({"x": [[1], [None]], "n": [1, None]})
    pq.write_table(within, tmp_path / "within.parquet")
    assert ps.read(tmp_path / "within.parquet").forward_fill().select("n").head()["n"].tolist() == [1, 1]


def test_bad_input() -> None:
    data = ps.from_arrays({"x": np.array([1.0, np.nan]), "v": np.zeros((2, 3)), "n": np.arange(2)})
    for make, says in [
        (lambda: data.forward_fill("z"), "no column 'z'"),
        (lambda: data.forward_fill("v"), "'v' is float64.*leave it out"),
        (lambda: data.shuffle(seed=0).forward_fill("x"), "forward_fill.*shuffle"),
        (lambda: data.map(dict).forward_fill("x"), "forward_fill.*map"),
        (lambda: data.batch(2).forward_fill("x"), "forward_fill.*batch"),
        (lambda: data.transform(x=ps.table.Standardize()).forward_fill("x"), "forward_fill"),
        (lambda: data.forward_fill(3), "forward_fill"),
    ]:
        with pytest.raises(ps.PlanError, match=says):
            make()
    assert data.forward_fill("n").root is data.root  # nothing is missing
