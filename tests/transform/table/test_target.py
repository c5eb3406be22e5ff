"""Target: beside scikit-learn with the same folds; which rows are training rows, whatever they come in; what cannot be learnt."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import TargetEncoder

import penstock as ps
from penstock.transform.table.statistics.known_rows import fold_of

T = ps.table
ROWS = 800
RNG = np.random.default_rng(3)
CITY = RNG.choice(["Rome", "Oslo", "Bern", "Łódź", "x", "yy"], ROWS, p=[0.4, 0.3, 0.2, 0.05, 0.04, 0.01])
PAGE = RNG.integers(0, 60, ROWS)
SIZE = np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.integers(0, 9, ROWS) / 2)
NOISE = RNG.normal(size=ROWS)
TARGETS: dict[str, Any] = {
    "continuous": NOISE * 10 + (CITY == "Rome") * 5 + PAGE,
    "far apart": NOISE * 10.0 ** RNG.integers(-9, 9, ROWS),
    "constant": np.full(ROWS, 2.5),
    "binary": (NOISE + (CITY == "Oslo") > 0.3).astype(np.int64),
    "words": np.where(NOISE > 0, "yes", "no").tolist(),
    "multiclass": np.digitize(NOISE + PAGE / 60, [-0.5, 0.5, 1]),
}


def data(target: Any, **more: Any) -> ps.Dataset:
    return ps.from_arrays({"city": CITY.tolist(), "page": PAGE, "size": SIZE, "y": target, **more})


def recipe(**options: Any) -> Any:
    op = T.Target(**options)
    return T.Recipe(city=op, page=op, size=op, target="y")


def beside(target: Any, smooth: Any) -> tuple[np.ndarray, np.ndarray]:
    """What scikit-learn makes of all rows with our folds, and without."""
    table = np.empty((ROWS, 3), object)
    table[:, 0], table[:, 1], table[:, 2] = CITY, PAGE, SIZE
    parts = []
    for column in (CITY[:, None], PAGE[:, None], SIZE[:, None]):
        other = TargetEncoder(smooth=smooth, cv=PredefinedSplit(fold_of(np.arange(ROWS), 5, 0)))
        parts.append((other.fit_transform(column, target), other.transform(column)))
    return np.concatenate([one for one, _ in parts], 1), np.concatenate([one for _, one in parts], 1)


def as_table(batch: Any) -> np.ndarray:
    columns = [batch[name] for name in ("city", "page", "size")]
    return np.concatenate([one.reshape(len(one), -1) for one in columns], axis=1)


@pytest.mark.parametrize("smooth", ["auto", 0, 12.5])
@pytest.mark.parametrize("name", TARGETS)
def test_it_is_scikit_learns(name: str, smooth: Any) -> None:
    rows = data(TARGETS[name])
    fitted = recipe(smooth=smooth).fit(rows)
    crossed, served = beside(TARGETS[name], smooth)
    np.testing.assert_allclose(as_table(rows.transform(fitted).head(ROWS)), crossed, rtol=3e-7, atol=1e-9)
    whole = rows.transform(fitted.without_folds()).head(ROWS)
    np.testing.assert_allclose(as_table(whole), served, rtol=3e-7, atol=1e-9)
    for fold, wanted in ((None, served), (2, crossed)):  # before they are rounded
        mine = np.ones(ROWS, bool) if fold is None else fold_of(np.arange(ROWS), 5, 0) == fold
        learnt = dict(fitted.chains)["city"][0].learnt["versions"][0 if fold is None else 1 + fold]
        codes = np.unique(CITY, return_inverse=True)[1][mine]
        width = wanted.shape[1] // 3
        found = np.reshape(learnt, (-1, width))[codes]
        np.testing.assert_allclose(found, wanted[mine, :width], rtol=1e-11, atol=1e-13)


def learnt(fitted: Any) -> list[str]:
    return [op.fitted.text for _, ops in fitted.chains for op in ops]


@pytest.mark.parametrize("name", ["far apart", "multiclass"])
def test_parts_orders_and_blocks_learn_the_same_bits(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = data(TARGETS[name])
    wanted = learnt(recipe().fit(rows))
    for rank in range(3):
        recipe().partial(rows.skip(rank).every(3)).save(tmp_path / f"{rank}.json")
    assert learnt(T.merge([T.load_partial(tmp_path / f"{rank}.json") for rank in (2, 0, 1)])) == wanted
    assert learnt(recipe().fit(rows.sort("page", descending=True))) == wanted
    monkeypatch.setattr("penstock.looking.column_values._ROWS", 7)
    monkeypatch.setattr("penstock.transform.table.statistics.targets._PENDING", 50)
    assert learnt(recipe().fit(rows)) == wanted


def test_it_is_the_rows_that_are_known() -> None:
    rows = data(TARGETS["continuous"], n=np.arange(ROWS))
    train, val = rows.split({"train": 0.7, "val": 0.3}).values()
    fitted = recipe().fit(train)
    folds = {int(n): fold for n, fold in zip(train.head(ROWS)["n"], crossed(fitted, train.head(ROWS)), strict=True)}
    other = data(TARGETS["continuous"] + 1, n=np.full(ROWS, -1))
    many: dict[str, ps.Dataset] = {
        "train": train.shuffle(seed=1), "val": val, "all": rows, "some": train.filter(ps.col("page") > 30), "few": rows.skip(100).take(50),
        "with others": ps.concat([other, rows]), "mixed": ps.mix([other.take(200), rows.take(200)]).shuffle(seed=2), "twice": rows.sample(300, replacement=True),
        "behind a function": rows.map(dict), "behind a zip": ps.zip([rows.select("city", "page", "size", "n"), ps.from_arrays({"z": np.arange(ROWS)})]),
    }  # fmt: skip
    for name, some in many.items():
        plain = some.batch(50)
        with ps.Loader(plain) as loader, ps.Loader(plain.transform(fitted)) as made:
            for batch, found in zip(loader, made, strict=True):
                for place, n in enumerate(batch["n"].tolist()):
                    row = {key: batch[key][place] for key in ("page", "size")} | {"city": batch["city"][place].as_py()}
                    wanted = folds.get(n, served(fitted, row))
                    assert [float(found[key][place]) for key in ("city", "page", "size")] == wanted, (name, n)
    assert [fitted.fitted_rows(one) for one in (train, val, rows, other)] == [len(train), 0, len(train), 0]


def served(fitted: Any, row: dict[str, Any]) -> list[float]:
    return [float(one) for one in fitted.apply(row).values()]


def crossed(fitted: Any, batch: Any) -> list[list[float]]:
    """What training rows come to, by the tables that were learnt."""
    folds = fold_of(np.asarray(batch["n"]), 5, 0)
    found = []
    for name, (op,) in fitted.chains:
        values = batch[name].to_pylist() if isinstance(batch[name], pa.Array) else batch[name].tolist()
        keys = {key: code for code, key in enumerate([*op.learnt["categories"], "missing"])}
        codes = [keys["missing" if value != value else value] for value in values]
        versions = np.array(op.learnt["versions"], np.float32)
        found.append([float(versions[1 + fold, code]) for fold, code in zip(folds, codes, strict=True)])
    return [list(row) for row in zip(*found, strict=True)]


def test_what_was_saved_knows_its_rows(tmp_path: Path) -> None:
    rows = data(TARGETS["binary"])
    fitted = T.Recipe(T.Target(), T.Standardize(), leave="page", target="y").fit(rows.take(500))
    fitted.matrix("x").save(tmp_path / "recipe.json")
    again = T.load(tmp_path / "recipe.json")
    assert again == fitted.matrix("x")
    assert again.fitted_rows(rows) == 500
    np.testing.assert_array_equal(
        rows.transform(again).head(ROWS)["x"], rows.transform(fitted.matrix("x")).head(ROWS)["x"]
    )
    fitted.without_folds().save(tmp_path / "served.json")
    only = T.load(tmp_path / "served.json")
    assert only.fitted_rows(rows) == 0
    assert only.apply({"city": "Rome", "size": 1.0}) == fitted.apply({"city": "Rome", "size": 1.0})
    assert (tmp_path / "served.json").stat().st_size < (tmp_path / "recipe.json").stat().st_size


def test_ops_behind_it_learn_of_what_training_rows_get() -> None:
    rows = data(TARGETS["continuous"])
    fitted = T.Recipe(city=[T.Target(), T.Standardize(), T.Cast("float64")], target="y").fit(rows)
    made = rows.transform(fitted).head(ROWS)["city"]
    np.testing.assert_allclose([made.mean(), made.std()], [0, 1], atol=1e-12)
    only = T.Recipe(city=[T.Target(), T.Cast("float64")], target="y").fit(rows)
    plain = rows.transform(only).head(ROWS)["city"]
    np.testing.assert_allclose(made, (plain - plain.mean()) / plain.std(), rtol=1e-9)


def test_what_is_missing_and_what_is_not_known() -> None:
    rows = data(TARGETS["continuous"])
    fitted = recipe().fit(rows)
    mean = np.float32(TARGETS["continuous"].mean())
    assert fitted.apply({"city": "Paris", "page": -3, "size": np.nan})["city"] == mean
    assert fitted.apply({"city": None, "page": 1, "size": None})["city"] == mean
    assert fitted.apply({"city": None, "page": 1, "size": None})["size"] != mean


def test_columns_of_the_target() -> None:
    fitted = T.Recipe(city=T.Target(smooth=5), target="y").fit(data(TARGETS["multiclass"]))
    assert fitted.matrix().feature_names == ["city_0", "city_1", "city_2", "city_3"]
    batch = data(TARGETS["multiclass"]).transform(fitted).head(9)
    assert [*batch] == ["city", "page", "size", "y"]
    np.testing.assert_allclose(batch["city"].sum(axis=1), 1, rtol=1e-6)
    assert fitted.spec["city"].shape == (4,)


def test_rows_read_from_elsewhere_are_told() -> None:
    fitted = T.Recipe(city=T.Target(), target="y").fit(data(TARGETS["binary"]))
    again = data(TARGETS["binary"], more=np.arange(ROWS))
    with pytest.warns(match=r"none of these 800 rows is known to the recipe.*read them as for fit"):
        again.transform(fitted)
    again.transform(fitted.without_folds())
    again.take(799).transform(fitted)


def test_rows_that_are_numbered_anew_are_refused() -> None:
    rows = data(TARGETS["binary"])
    fitted = T.Recipe(city=T.Target(), target="y").fit(rows)
    some = rows.filter(lambda batch: batch["page"] > 3)
    with pytest.raises(ps.PlanError, match=r"a function leaves out some of the rows that Target was fitted on.*ahead"):
        some.transform(fitted)
    with pytest.raises(ps.PlanError, match=r"column 'city': a function leaves out some of the rows"):
        some.transform(city=list(fitted.chains[0][1])).batch(10).head()
    assert len(some.transform(fitted.without_folds()).batch(10).head()["city"]) == 5
    val = ps.from_arrays({"city": ["Rome"] * 9, "page": np.arange(9)}).filter(lambda batch: batch["page"] > 3)
    assert val.transform(fitted).batch(5).head()["city"][0] == fitted.apply({"city": "Rome"})["city"]
    ahead = rows.filter(lambda batch: batch["page"] > 3, ahead=True).transform(fitted).batch(10)
    assert len(ahead.head()["city"]) == 5


Y = TARGETS["continuous"]
WRONG: dict[str, tuple[Any, Any, str]] = {
    "no target": (lambda: T.Recipe(city=T.Target()).fit(data(Y)), ps.PlanError, r"there is no target; write Recipe\(…, target='y'\)"),
    "other target": (lambda: T.Recipe(city=T.Target("z")).fit(data(Y)), ps.PlanError, r"no column 'z'"),
    "itself": (lambda: T.Recipe(y=T.Target(), target="y").fit(data(Y)), ps.PlanError, r"which is the target itself"),
    "alone": (lambda: data(Y).transform(city=T.Target()).head(), ps.PlanError, r"has not been fitted"),
    "text": (lambda: T.Recipe(city=T.Target("size", target_type="continuous"), y=T.Target("city", target_type="continuous")).fit(data(Y)), ps.PlanError, r"'city' is text"),
    "type": (lambda: T.Target(target_type="regression"), ps.PlanError, r"choose one of"),
    "smooth": (lambda: T.Target(smooth=-1), ps.PlanError, r"smooth=-1"),
    "folds": (lambda: T.Target(folds=1), ps.PlanError, r"take 2 or more"),
    "seed": (lambda: T.Target(seed=-1), ps.PlanError, r"seed=-1"),
    "column": (lambda: T.Target(3), ps.PlanError, r"name a column"),
    "twice": (lambda: T.Recipe(city=[T.Target(), T.Target()], target="y").fit(data(Y)).apply({"city": "x"}), ps.PlanError, r"two ops Target"),
    "missing": (lambda: T.Recipe(city=T.Target(), target="size").fit(data(Y)), ps.DataError, r"sample \d+: column 'size', the target, is missing; leave such rows out"),
    "infinite": (lambda: T.Recipe(city=T.Target(), target="y").fit(data(np.where(PAGE == 7, np.inf, Y))), ps.DataError, r"the target, is infinite"),
    "three classes": (lambda: T.Recipe(city=T.Target(target_type="binary"), target="y").fit(data(PAGE % 3)), ps.DataError, r"of 3 classes, y, and target_type='binary'"),
    "classes": (lambda: T.Recipe(city=T.Target(), target="y").fit(ps.from_arrays({"city": ["a"] * 1001, "y": np.arange(1001)})), ps.DataError, r"1,001 classes.*'continuous'"),
    "one row": (lambda: T.Recipe(city=T.Target(), target="y").fit(data(Y).take(1)), ps.DataError, r"all its 1 rows in one fold"),
    "far": (lambda: T.Recipe(city=T.Target(), target="y").fit(data(Y * 1e306)), ps.DataError, r"beyond float64; scale the target"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused(make: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"(?s){words}"):
        make()


def test_a_column_of_no_categories_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.transform.table.statistics.targets._MOST", 1000)
    for target in (np.arange(ROWS) % 2, NOISE):
        rows = ps.from_arrays({"id": np.arange(5 * ROWS), "y": np.tile(target, 5)})
        with pytest.raises(ps.DataError, match=r"column 'id' has 4,000 categories or more.*put Hash before Target"):
            T.Recipe(id=T.Target(), target="y").fit(rows)
    assert T.Recipe(id=[T.Hash(5), T.Target()], target="y").fit(rows).rows == 5 * ROWS


def test_rows_without_a_target_can_be_dropped() -> None:
    rows = data(np.where(PAGE == 7, np.nan, Y))
    fitted = T.Recipe(city=T.Target(), y=T.DropMissing(), target="y").fit(rows)
    assert fitted.rows == int((PAGE != 7).sum())
    assert len(rows.transform(fitted)) == fitted.rows


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None, "é"]), st.floats(-1e9, 1e9, width=64)), min_size=12, max_size=40
    ),
    st.sampled_from(["auto", 0, 3.5]),
)
def test_sums_are_exact(rows: list[tuple[str | None, float]], smooth: Any) -> None:
    table = pa.table({"c": pa.array([one for one, _ in rows], pa.string()), "y": [y for _, y in rows]})
    some = ps.from_arrays(table, nulls="arrow")
    fitted = T.Recipe(c=T.Target(smooth=smooth), target="y").fit(some)
    learnt = fitted.chains[0][1][0].learnt
    total = Fraction(sum(Fraction(y) for _, y in rows), len(rows))
    assert learnt["versions"][0][-1] == float(total)
    if smooth == 0:
        for code, category in enumerate([*learnt["categories"], *[None] * learnt["missing"]]):
            mine = [Fraction(y) for one, y in rows if one == category]
            assert learnt["versions"][0][code] == float(sum(mine) / len(mine))
    parts = [some.skip(number).every(3) for number in range(3)]
    assert (
        T.merge([T.Recipe(c=T.Target(smooth=smooth), target="y").partial(one) for one in parts]).chains[0][1][0].learnt
        == learnt
    )
