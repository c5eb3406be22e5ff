"""Which op goes where; what a recipe makes of odd values; what is refused before anything runs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

T = ps.table


def data(**more: Any) -> ps.Dataset:
    columns = {
        "x": np.array([1.0, 2.0, 4.0]),
        "n": [1, 2, 3],
        "flag": np.array([True, False, True]),
        "word": ["a", "b", "a"],
    }
    return ps.from_arrays({**columns, **more})


def where(recipe: Any, rows: ps.Dataset) -> dict[str, list[str]]:
    return {name: [type(op).__name__ for op in ops] for name, ops in recipe.fit(rows).chains}


def test_ops_go_to_columns_of_their_type() -> None:
    recipe = T.Recipe(T.FillMissing("mode"), T.Standardize(), T.OneHot())
    assert where(recipe, data()) == {
        "x": ["FillMissing", "Standardize"],
        "n": ["FillMissing", "Standardize"],
        "flag": ["FillMissing"],
        "word": ["FillMissing", "OneHot"],
    }
    assert where(T.Recipe(T.Standardize(), x=T.Log(), leave="n"), data()) == {"x": ["Log"]}
    assert where(T.Recipe(T.Standardize(), target="n"), data()) == {"x": ["Standardize"]}
    assert where(T.Recipe(T.FillMissing(value="?")), data()) == {"word": ["FillMissing"]}
    assert where(T.Recipe(T.FillMissing(value=0)), data()) == {
        "x": ["FillMissing"],
        "n": ["FillMissing"],
        "flag": ["FillMissing"],
    }


def test_selectors() -> None:
    rows = data(xx=[1.0, 2.0, 3.0])
    assert where(T.Recipe(T.On("x*", T.MinMax())), rows) == {"x": ["MinMax"], "xx": ["MinMax"]}
    assert where(T.Recipe(T.On(T.Selector(kind="integer"), T.MinMax())), rows) == {"n": ["MinMax"]}
    assert where(T.Recipe(T.On(T.Selector(kind="number", but="x*"), T.MinMax(), T.Log())), rows) == {
        "n": ["MinMax", "Log"]
    }
    assert where(T.Recipe(T.On(["n", "word"], T.Ordinal())), rows) == {"n": ["Ordinal"], "word": ["Ordinal"]}
    assert where(T.Recipe(T.On(T.Selector(kind="bool"), T.Ordinal())), rows) == {"flag": ["Ordinal"]}
    for selector, words in (("q*", "no column 'q\\*'"), (T.Selector(kind="text", but="word"), "selects none")):
        with pytest.raises(ps.PlanError, match=words):
            T.Recipe(T.On(selector, T.MinMax())).fit(rows)


def test_columns_of_lists_are_left_alone() -> None:
    rows = ps.from_arrays({"x": [1.0, 2.0], "many": np.ones((2, 3))})
    assert where(T.Recipe(T.Standardize()), rows) == {"x": ["Standardize"]}
    with pytest.raises(ps.PlanError, match=r"column 'many', which is a vector"):
        T.Recipe(many=T.Standardize()).fit(rows)


REFUSED: dict[str, tuple[Any, str]] = {
    "no ops": (T.Recipe, "no ops"),
    "no op": (lambda: T.Recipe(3), "3 is no op"),
    "an op of images": (lambda: T.Recipe(x=ps.image.Decode()), "no op of penstock.table"),
    "a class": (lambda: T.Recipe(x=T.MinMax), "no op of penstock.table"),
    "empty": (lambda: T.Recipe(x=[]), "'x' has no ops"),
    "other column": (lambda: T.Recipe(xy=T.MinMax()).fit(data()), "no column 'xy'.*did you mean 'x'"),
    "left column": (lambda: T.Recipe(T.MinMax(), leave=["z"]).fit(data()), "no column 'z'"),
    "target": (lambda: T.Recipe(T.MinMax(), target="z").fit(data()), "no column 'z'"),
    "text": (lambda: T.Recipe(word=T.Standardize()).fit(data()), "which is text there.*OneHot"),
    "behind": (lambda: T.Recipe(word=[T.OneHot(), T.Standardize()]).fit(data()), "which is a vector"),
    "fill": (lambda: T.Recipe(word=T.FillMissing("mean")).fit(data()), "whose values are text"),
    "fill number": (lambda: T.Recipe(x=T.FillMissing(value="a")).fit(data()), "whose values are numbers"),
    "forward": (lambda: T.FillMissing("forward"), r"data\.forward_fill"),
    "strategy": (lambda: T.FillMissing("max"), "choose one of"),
    "a value first": (lambda: T.FillMissing(0), r"strategy=0; .*FillMissing\(value=0\)"),
    "a text first": (lambda: T.FillMissing(""), r"FillMissing\(value=''\)"),
    "no name": (lambda: T.Recipe(T.MinMax(), T.Interactions(["x", "n"])), "goes to no column by itself"),
    "no name of parts": (lambda: T.Recipe(T.MinMax(), T.DateParts("year", "s")), "goes to no column by itself"),
    "a product on a column": (lambda: T.Recipe(T.On("x", T.Interactions(["n", "flag"]))).fit(data()), "a column 'x' already"),
    "a product behind": (lambda: T.Recipe(x=[T.MinMax(), T.Interactions(["n", "flag"])]).fit(data()), r"behind MinMax.*under a name"),
    "a mark behind": (lambda: data().transform(x=[T.Log(), T.IsMissing("n")]).head(), "behind Log.*under a name"),
    "a type for a name": (lambda: T.Recipe(T.On("number", T.MinMax())).fit(data()), r"Selector\(kind='number'\)"),
    "fill nan": (lambda: T.FillMissing(value=float("nan")), "FillMissing"),
    "constant": (lambda: T.FillMissing("constant"), "FillMissing"),
    "fill infinity": (lambda: T.FillMissing(value=float("inf")), "FillMissing"),
    "fill beyond": (lambda: T.FillMissing(value=2**64), "FillMissing"),
    "unknown value": (lambda: T.Ordinal(unknown_value=0), "below 0"),
    "dropped alone": (lambda: data().transform(x=T.DropMissing()), "which a Recipe does"),
    "clip": (T.Clip, "bounds in one way"),
    "clip twice": (lambda: T.Clip(low=1, z=2), "bounds in one way"),
    "clip upside down": (lambda: T.Clip(low=2, high=1), "exchange"),
    "quantiles": (lambda: T.Clip(quantile=(0.9, 0.1)), "lower one"),
    "percent": (lambda: T.Robust(quantile_range=(10, 101)), "from 0 to 100"),
    "bins": (lambda: T.Bins(0), "n_bins=0"),
    "parts": (lambda: T.DateParts(["era"], unit="s"), "choose one of"),
    "unit": (lambda: T.DateParts("year", unit="h"), "choose one of"),
    "products": (lambda: T.Interactions(["x"]), "two columns or more"),
    "product of text": (lambda: T.Recipe(p=T.Interactions(["x", "word"])).fit(data()), "which is text"),
    "product in place": (lambda: T.Recipe(n=T.Interactions(["x", "flag"])).fit(data()), "there is a column 'n' already"),
    "indicator": (lambda: T.Recipe(x=T.FillMissing(indicator=True)).fit(data(x_missing=[1, 2, 3])), "there is one already"),
    "cast": (lambda: T.Cast("int8"), "choose one of"),
    "matrix of text": (lambda: T.Recipe(word=T.FillMissing("mode")).fit(data()).matrix(), "'word' is text; encode it"),
    "not fitted": (lambda: data().transform(x=T.Standardize()).batch(2).head(), "has not been fitted"),
    "a recipe of numbers": (lambda: ps.from_arrays({"word": [1, 2]}).transform(T.Recipe(word=T.OneHot()).fit(data())), "fitted on string"),
    "a recipe of text": (lambda: ps.from_arrays({"x": ["1", "2"]}).transform(T.Recipe(x=T.MinMax()).fit(data())), "fitted on float64"),
    "other columns": (lambda: ps.from_arrays({"z": [1, 2]}).transform(T.Recipe(x=T.MinMax()).fit(data())), "no column 'x'"),
    "unfitted recipe": (lambda: data().transform(T.Recipe(T.MinMax())), "fit"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ps.PlanError, match=f"(?s){words}"):
        make()


def test_a_target_among_the_features_is_told() -> None:
    fitted = T.Recipe(T.MinMax(), n=T.MinMax(), target="n").fit(data())
    with pytest.warns(match=r"'n', the target, is among the features"):
        fitted.matrix()


def test_a_column_made_of_the_target_is_told() -> None:
    for made in (T.Interactions(["x", "n"]), T.IsMissing("n")):
        with pytest.warns(match=r"recipe: 'made' is made of 'n', the target"):
            fitted = T.Recipe(T.MinMax(), made=made, target="n").fit(data())
        with pytest.warns(match=r"'n', the target, is among the features"):
            fitted.matrix()


def test_types_of_columns() -> None:
    rows = ps.from_arrays(
        {"f": np.ones(3, np.float32), "d": np.ones(3), "i": np.arange(3, dtype=np.uint8), "b": np.zeros(3, bool)}
    )
    recipe = T.Recipe(f=T.FillMissing(), d=T.FillMissing(), i=T.FillMissing("mode"), b=T.FillMissing("mode"))
    batch = rows.transform(recipe.fit(rows)).head()
    assert [batch[name].dtype.name for name in "fdib"] == ["float32", "float64", "int64", "bool"]
    batch = rows.transform(
        T.Recipe(f=T.MinMax(), d=[T.MinMax(), T.Cast("float64")], i=T.FillMissing()).fit(rows)
    ).head()
    assert [batch[name].dtype.name for name in "fdi"] == ["float32", "float64", "float64"]
    assert rows.transform(recipe.fit(rows)).explain()


def test_whole_numbers_beyond_2_to_the_53_stay_apart() -> None:
    big = [2**53, 2**53 + 1, 2**62 + 1, -(2**60) - 1]
    rows = ps.from_arrays({"id": np.array(big)})
    fitted = T.Recipe(id=T.Ordinal()).fit(rows)
    assert rows.transform(fitted).head()["id"].tolist() == [1, 2, 3, 0]
    assert fitted.apply({"id": 2**53 + 1})["id"] == 2
    assert fitted.inverse({"id": [3, 0]})["id"].to_pylist() == [2**62 + 1, -(2**60) - 1]


def test_codes_cannot_be_missing() -> None:
    rows = ps.from_arrays({"x": np.array([1.0, np.nan, 3.0])})
    with pytest.raises(ps.DataError, match=r"sample 1: column 'x' is missing.*FillMissing before it"):
        rows.transform(T.Recipe(x=T.Bins(2)).fit(rows)).head()


def test_floats_and_whole_numbers_are_the_same_categories() -> None:
    fitted = T.Recipe(k=T.Ordinal()).fit(ps.from_arrays({"k": [3, 1, 2]}))
    assert ps.from_arrays({"k": np.array([1.0, 2.5, 3.0, np.nan])}).transform(fitted).head()["k"].tolist() == [
        0,
        -1,
        2,
        -1,
    ]
    fitted = T.Recipe(k=T.Ordinal()).fit(ps.from_arrays({"k": np.array([3.0, 1.5])}))
    assert ps.from_arrays({"k": [3, 1]}).transform(fitted).head()["k"].tolist() == [1, -1]


def test_dates_out_of_range() -> None:
    rows = ps.from_arrays({"when": np.array([0, 10**15])})
    with pytest.raises(ps.DataError, match=r"sample 1: .*beyond the years 1 to 9999.*unit="):
        rows.transform(when=T.DateParts("year", unit="s")).head()
    parts = rows.transform(when=T.DateParts("year", unit="us")).head()["when"]
    assert (parts.tolist(), parts.dtype) == ([1970.0, 2001.0], np.float32)


def test_texts_of_numbers() -> None:
    rows = ps.from_arrays({"t": ["1.5", " -2e3 ", "7"]})
    assert rows.transform(t=T.Cast("float64")).head()["t"].tolist() == [1.5, -2000.0, 7.0]
    with pytest.raises(ps.DataError, match=r"sample 0: .*is \"1.5\", which is no whole number"):
        rows.transform(t=T.Cast("int64")).head()
    whole = ps.from_arrays({"t": ["9007199254740993", "2.0", " -1"]}).transform(t=T.Cast("int64")).head()["t"]
    assert whole.tolist() == [2**53 + 1, 2, -1]
    with pytest.raises(ps.DataError, match=r"sample 1: .*is \"1,5\", which is no number"):
        ps.from_arrays({"t": ["1", "1,5"]}).transform(t=T.Cast("float32")).head()


def test_vocabularies_and_frequencies() -> None:
    rows = ps.from_arrays({"w": ["b", "a", "b", "c", "a", "d"]})
    fitted = T.Recipe(w=T.Vocabulary(max_size=2, unknown_buckets=0)).fit(rows)
    assert rows.transform(fitted).head(6)["w"].tolist() == [1, 0, 1, -1, 0, -1]
    buckets = T.Recipe(w=T.Vocabulary(min_count=2, unknown_buckets=100)).fit(rows)
    codes = rows.transform(buckets).head(6)["w"]
    assert codes[:3].tolist() == [1, 0, 1]
    assert 2 <= codes[3] < 102
    shares = rows.transform(T.Recipe(w=T.Frequency()).fit(rows)).head(6)["w"]
    np.testing.assert_allclose(shares, np.array([2, 2, 2, 1, 2, 1]) / 6, rtol=1e-7)
    counts = T.Recipe(w=T.Frequency(normalize=False)).fit(rows)
    assert (counts.apply({"w": "b"})["w"], counts.apply({"w": "new"})["w"]) == (2, 0)


def test_hashes_are_the_same_for_ever() -> None:
    codes = (
        ps.from_arrays({"w": ["", "penstock", "日本", "a much longer text than a word"]})
        .transform(w=T.Hash(1000))
        .head()["w"]
    )
    numbers = ps.from_arrays({"n": [0, 1, -1, 2**62]}).transform(n=T.Hash(1000)).head()["n"]
    assert codes.tolist() == [535, 605, 476, 515]
    assert numbers.tolist() == [535, 465, 936, 75]


def test_dropped_rows() -> None:
    rows = ps.from_arrays({"x": np.array([1.0, np.nan, 3.0]), "y": [0, 1, 2]})
    fitted = T.Recipe(x=[T.DropMissing(), T.MinMax()]).fit(rows)
    assert fitted.rows == 2
    made = rows.transform(fitted)
    assert (len(made), made.head()["y"].tolist()) == (2, [0, 2])
    with pytest.raises(ps.DataError, match=r"'x' is missing, and DropMissing"):
        fitted.apply({"x": None})


def test_inverse() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "a": rng.normal(size=50), "b": rng.lognormal(size=50), "c": rng.lognormal(size=50), "d": rng.normal(size=50), "e": rng.normal(size=50),
        "w": rng.choice(["x", "é", ""], 50).tolist(), "o": rng.integers(0, 9, 50), "v": rng.choice(["p", "q"], 50).tolist(),
    }  # fmt: skip
    ends = {
        "a": [T.Standardize()],
        "b": [T.Log(), T.MinMax((2, 5))],
        "c": [T.Power("box-cox")],
        "d": [T.Power()],
        "e": [T.FillMissing(), T.Robust()],
    }
    recipe = T.Recipe(
        **{name: [*ops, T.Cast("float64")] for name, ops in ends.items()}, w=T.OneHot(), o=T.Ordinal(), v=T.Vocabulary()
    )
    rows = ps.from_arrays(columns)
    fitted = recipe.fit(rows)
    back = fitted.inverse(rows.transform(fitted).head(50))
    for name in "abcde":
        np.testing.assert_allclose(back[name], columns[name], rtol=1e-9, atol=1e-9)
    assert back["w"].to_pylist() == columns["w"]
    assert back["v"].to_pylist() == columns["v"]
    assert back["o"].to_pylist() == columns["o"].tolist()
    with pytest.raises(ps.PlanError, match=r"Hash.*keeps less than it gets"):
        T.Recipe(w=T.Hash(4)).fit(rows).inverse({"w": [1]})
    with pytest.raises(ps.PlanError, match=r"none of the columns z"):
        fitted.inverse({"z": [1]})


def test_saved_recipes_are_loaded_as_they_were(tmp_path: Path) -> None:
    rows = ps.from_arrays(
        {"x": np.array([0.1, np.nan, 3e-300]), "n": [2**60, 1, 2], "w": ['é\n"', "", "日本"], "d": [1, 2, 3]}
    )
    recipe = T.Recipe(
        x=[T.FillMissing("mean", indicator=True), T.Power()],
        n=T.Ordinal(),
        w=T.OneHot(),
        d=T.DateParts(["year", "hour"], unit="ns"),
        p=T.Interactions(["x", "n"]),
    )
    for fitted in (recipe.fit(rows), recipe.fit(rows).matrix("all")):
        fitted.save(tmp_path / "recipe.json")
        again = T.load(tmp_path / "recipe.json")
        assert again == fitted
        assert pickle.loads(pickle.dumps(fitted)) == fitted
        assert str(again.apply({"x": None, "n": 1, "w": "", "d": 0})) == str(
            fitted.apply({"x": None, "n": 1, "w": "", "d": 0})
        )
    said = json.loads((tmp_path / "recipe.json").read_text())
    assert (said["rows"], len(said["digest"])) == (3, 32)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no JSON"), ("[1]", "no recipe"), ("{}", "no recipe"), ('{"kind": "penstock table recipe", "version": 99}', "version 99"),
     ('{"kind": "penstock table recipe", "version": 1}', "damaged"),
     ('{"kind": "penstock table recipe", "version": 1, "chains": [["x", [{"op": "eval"}]]], "fields": []}', "damaged")],
)  # fmt: skip
def test_files_that_hold_no_recipe(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ps.DataError, match=words):
        T.load(tmp_path / "r.json")
    with pytest.raises(ps.SourceError, match=r"no such file"):
        T.load(tmp_path / "other.json")


def test_rows_that_cannot_be_served() -> None:
    fitted = T.Recipe(T.MinMax(), word=T.OneHot(handle_unknown="error"), leave="flag").fit(data())
    good = {"x": 1.0, "n": 1, "word": "a"}
    assert fitted.apply(good)["x"] == 0
    assert fitted.apply({**good, "n": 3.0})["n"] == 1
    assert fitted.apply({**good, "n": np.int8(3), "x": np.float32(4), "other": object()})["n"] == 1
    with pytest.raises(ps.PlanError, match=r"apply: no column 'x'; the row has n, word"):
        fitted.apply({"n": 1, "word": "a"})
    for change, words in (
        ({"x": "1"}, "'x' is '1', where a number"),
        ({"n": 1.5}, "'n' is 1.5, where a whole number"),
        ({"word": 3}, "'word' is 3, where text"),
        ({"n": 2**70}, "'n'"),
        ({"word": "zz"}, 'is "zz", a category'),
        ({"word": None}, "is missing, and was in no row"),
    ):
        with pytest.raises(ps.DataError, match=words):
            fitted.apply({**good, **change})


def test_a_matrix_leaves_other_columns() -> None:
    fitted = T.Recipe(T.MinMax(), word=T.OneHot(), target="flag").fit(data()).matrix()
    batch = data().transform(fitted).head()
    assert [*batch] == ["flag", "features"]
    assert (batch["features"].shape, batch["features"].dtype) == ((3, 4), np.float32)
    assert fitted.feature_names == ["x", "n", "word_a", "word_b"]
    assert fitted.spec["features"] == ps.from_arrays({"a": np.ones((1, 4), np.float32)}).spec["a"]
    assert fitted.apply({"x": 4.0, "n": 3, "word": "b"})["features"].tolist() == [1, 1, 0, 1]


def test_columns_of_arrow() -> None:
    table = pa.table({"w": pa.array(["a", None, "b"]).dictionary_encode(), "d": pa.array([1, None, 3], pa.int64())})
    rows = ps.from_arrays(table, nulls="arrow")
    fitted = T.Recipe(w=T.OneHot(), d=T.FillMissing("median")).fit(rows)
    batch = rows.transform(fitted).head()
    assert batch["w"].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert batch["d"].tolist() == [1, 2, 3]
