"""Fits: the same bits in any order, parts and threads; what is refused; how many passes there are."""

from __future__ import annotations

import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.columns.repeated_values import is_repeated

T = ps.table
RNG = np.random.default_rng(7)
ROWS = 1200
COLUMNS: dict[str, Any] = {
    "a": np.where(RNG.random(ROWS) < 0.2, np.nan, RNG.lognormal(size=ROWS)),
    "b": RNG.integers(-50, 50, ROWS),
    "c": RNG.normal(size=ROWS).astype(np.float32),
    "city": RNG.choice(["Rome", "Oslo", "Bern", "Łódź"], ROWS).tolist(),
    "page": [f"p{n}" for n in RNG.integers(0, 90, ROWS)],
    "y": RNG.integers(0, 2, ROWS),
}


def recipe() -> Any:
    return T.Recipe(
        T.FillMissing("median", indicator=True),
        T.On("b", T.Clip(quantile=(0.05, 0.9))),
        T.Standardize(),
        T.On("c", T.Bins(4), T.OneHot()),
        T.OneHot(),
        page=[T.Vocabulary(min_count=10, unknown_buckets=3)],
        product=[T.Interactions(["b", "c"]), T.Robust()],
        target="y",
    )


def data() -> ps.Dataset:
    return ps.from_arrays(COLUMNS)


def learnt(fitted: Any) -> list[Any]:
    return [(name, [op.fitted and op.fitted.text for op in ops]) for name, ops in fitted.chains]


def together(parts: list[ps.Dataset], made: Any) -> Any:
    while not made.is_fitted:
        sent = [pickle.dumps(made.partial(part)) for part in parts]  # from rank to rank
        made = T.merge([pickle.loads(one) for one in sent])
    return made


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_ranks_learn_the_same_bits(ranks: int) -> None:
    parts = [data().every(ranks)] if ranks == 1 else [data().skip(rank).every(ranks) for rank in range(ranks)]
    found = together(parts, recipe())
    assert learnt(found) == learnt(recipe().fit(data()))
    assert found.rows == ROWS


def test_neither_order_nor_blocks_nor_threads_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = learnt(recipe().fit(data()))
    assert learnt(recipe().fit(data().shuffle(seed=3))) == wanted
    assert learnt(recipe().fit(data().sort("page", descending=True))) == wanted
    monkeypatch.setattr("penstock.looking.column_values._ROWS", 7)
    monkeypatch.setattr("penstock.transform.table.fitting.usable_cpus", lambda: 5)
    assert learnt(recipe().fit(data())) == wanted


def test_what_is_filled_is_scaled_in_the_same_passes() -> None:
    for strategy in ("mean", "median"):
        counted = Counted(data())
        T.Recipe(T.FillMissing(strategy), T.Standardize(), city=T.OneHot(), leave=["y", "page"]).fit(counted)
        assert counted.passes == 1


class Counted:
    """A dataset that counts its passes."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.passes = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def blocks(self, columns: Any, **options: Any) -> Any:
        self.passes += 1
        return self.inner.blocks(columns, **options)


def test_quantiles_that_the_first_rows_do_not_show_take_more_passes(tmp_path: Path) -> None:
    values = np.random.default_rng(3).lognormal(size=200_000)
    found = []
    for name, order in (("mixed", values), ("sorted", np.sort(values)), ("few", values[:1000])):
        pq.write_table(pa.table({"x": order}), tmp_path / f"{name}.parquet", row_group_size=70_000)
        counted = Counted(ps.read(tmp_path / f"{name}.parquet"))
        fitted = T.Recipe(T.Robust()).fit(counted)
        found.append((counted.passes, learnt(fitted)))
    assert [passes for passes, _ in found] == [1, 2, 1]
    assert found[0][1][0][1][0] == found[1][1][0][1][0]
    halves = [ps.read(tmp_path / "sorted.parquet").take(100_000), ps.read(tmp_path / "sorted.parquet").skip(100_000)]
    assert learnt(together(halves, T.Recipe(T.Robust()))) == found[1][1]


@pytest.mark.parametrize("fill", [None, "Rome"])
def test_text_is_counted_as_dictionaries_as_it_is_as_text(tmp_path: Path, fill: str | None) -> None:
    rng = np.random.default_rng(5)
    texts = np.array(["Rome", "Oslo", "日本", "", "Bern"], object)[rng.integers(0, 5, 90_000)]
    texts[:50_000][rng.random(50_000) < 0.1] = None
    table = pa.table({"city": pa.array(texts.tolist(), pa.string()), "n": rng.integers(0, 9, 90_000)})
    ops = [T.OneHot()] if fill is None else [T.FillMissing(value=fill), T.OneHot()]
    found = []
    for name, options in (
        ("coded", {}),
        ("plain", {"use_dictionary": False}),
        ("some", {"dictionary_pagesize_limit": 2}),
    ):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=20_000, **options)
        rows = ps.read(tmp_path / f"{name}.parquet", nulls="arrow")
        for part in (rows, rows.filter(ps.col("n") > 3), rows.skip(123).take(45_678)):
            blocks = list(part.blocks(["city"], repeated=True))
            assert any(map(is_repeated, (one.columns["city"] for one in blocks))) == (name == "coded")
            found.append(learnt(T.Recipe(city=ops).fit(part)))
    assert found[:3] == found[3:6] == found[6:]
    assert found[0] == learnt(T.Recipe(city=ops).fit(ps.from_arrays({"city": texts.tolist()}, nulls="arrow")))


def test_rows_that_come_twice_count_twice() -> None:
    rows = data().sample(500, weights=np.arange(ROWS) + 1, replacement=True)
    values = rows.head(500)["b"]
    fitted = T.Recipe(b=T.Standardize()).fit(rows)
    assert fitted.chains[0][1][0].learnt["centre"] == values.mean()


def test_validation_rows_teach_nothing_unless_allowed() -> None:
    parts = data().split({"train": 0.8, "val": 0.2})
    T.Recipe(b=T.Standardize()).fit(parts["train"])
    with pytest.raises(ps.PlanError, match=r"part 'val' of a split.*allow='val'"):
        T.Recipe(b=T.Standardize()).fit(parts["val"].shuffle(seed=0))
    T.Recipe(b=T.Standardize()).fit(parts["val"], allow="val")


def test_columns_of_nothing_and_of_infinity() -> None:
    rows = ps.from_arrays({"none": np.full(4, np.nan), "far": np.array([1.0, np.inf, 2, 3])})
    for op in (T.Standardize(), T.Robust(), T.MinMax(), T.Power(), T.Bins(), T.Clip(z=3), T.FillMissing()):
        with pytest.raises(ps.DataError, match=r"column 'none' has no"):
            T.Recipe(none=op).fit(rows)
        with pytest.raises(ps.DataError, match=r"sample 1: column 'far' is inf"):
            T.Recipe(far=op).fit(rows)
    clipped = T.Recipe(far=[T.Clip(low=0, high=10), T.MinMax()]).fit(rows)
    assert clipped.apply({"far": np.inf})["far"] == 1


def test_too_many_categories() -> None:
    rows = ps.from_arrays({"id": [str(n) for n in range(5000)]})
    with pytest.raises(ps.DataError, match=r"fit: column 'id' has 5,000 categories or more, and 4,096 are allowed"):
        T.Recipe(T.OneHot()).fit(rows)


def test_spreads_beyond_float64() -> None:
    rows = ps.from_arrays({"x": np.array([1.7e308, -1.7e308])})
    for op in (T.Standardize(), T.MinMax()):
        with pytest.raises(ps.DataError, match=r"beyond float64"):
            T.Recipe(x=op).fit(rows)


def test_parts_of_one_recipe_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.transform.table.statistics.quantiles._HELD_TOGETHER", 1)
    one, other = T.Recipe(b=T.Standardize()), T.Recipe(b=T.MinMax())
    with pytest.raises(ps.PlanError, match=r"several recipes"):
        T.merge([one.partial(data()), other.partial(data())])
    with pytest.raises(ps.PlanError, match=r"recipe.partial"):
        T.merge([])
    half = T.merge([T.Recipe(b=T.Robust()).partial(data())])
    assert not half.is_fitted
    for verb in (
        lambda: data().transform(half),
        half.matrix,
        lambda: half.apply({"b": 1}),
        lambda: half.save("x.json"),
    ):
        with pytest.raises(ps.PlanError, match=r"not fitted yet"):
            verb()


def test_parts_go_through_files(tmp_path: Path) -> None:
    parts, made = [data().skip(rank).every(3) for rank in range(3)], with_powers(recipe())
    while not made.is_fitted:
        for rank, part in enumerate(parts):
            made.partial(part).save(tmp_path / f"{rank}.json")
        read = [T.load_partial(tmp_path / f"{rank}.json") for rank in range(3)]
        assert read[0].rows == ROWS / 3
        made = T.merge(read)
    assert learnt(made) == learnt(with_powers(recipe()).fit(data()))
    assert {path.name for path in tmp_path.iterdir()} == {"0.json", "1.json", "2.json"}


def with_powers(made: Any) -> Any:
    return T.Recipe(*made.items, **{**made.columns, "a": [T.FillMissing(), T.Power()]}, target="y")


def test_files_that_hold_no_part(tmp_path: Path) -> None:
    file = tmp_path / "part.json"
    T.Recipe(b=T.Robust()).partial(data()).save(file)
    good = file.read_text()
    said = json.loads(good)
    said["searches"][0]["statistic"] = {"held": "Popen", "of": {"dict": []}}
    for text, words in (
        ("", "no JSON"),
        (good[:-9], "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("{}", "holds no partial of penstock.table; pass a file that partial.save"),
        (good.replace('"version": 1', '"version": 7'), "version 7"),
        (good.replace('"rows": 1200', '"rows": 1201'), "damaged.*checksum"),
        (json.dumps(said), "damaged.*checksum"),
        (json.dumps({**said, "checksum": checksum_of(said)}), "damaged.*Popen"),
    ):
        file.write_text(text)
        with pytest.raises(ps.DataError, match=rf"load_partial: .*part\.json.*{words}"):
            T.load_partial(file)
    with pytest.raises(ps.SourceError, match="no such file"):
        T.load_partial(tmp_path / "other.json")
    file.write_text(good)
    with pytest.raises(ps.DataError, match="holds no recipe"):
        T.load(file)


def checksum_of(said: dict[str, Any]) -> int:
    parts = {name: said[name] for name in ("recipe", "going", "searches", "rows", "digest")}
    return zlib.crc32(json.dumps(parts, sort_keys=True).encode())


def test_fit_takes_datasets_before_their_columns_change() -> None:
    with pytest.raises(ps.PlanError, match=r"takes a dataset"):
        T.Recipe(T.Standardize()).fit(np.zeros(3))
    with pytest.raises(ps.PlanError, match=r"map\(…\) stands before it"):
        T.Recipe(b=T.Standardize()).fit(data().map(dict))


VALUES = st.one_of(st.none(), st.floats(allow_infinity=False, width=64), st.integers(-(2**60), 2**60).map(float))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(VALUES, st.one_of(st.none(), st.text(max_size=3).filter(str.isprintable))), min_size=1, max_size=30
    ),
    st.integers(1, 4),
)
def test_odd_tables_in_parts(rows: list[tuple[float | None, str | None]], parts: int) -> None:
    table = {"x": [one for one, _ in rows], "t": [text for _, text in rows]}
    arrow = pa.table({"x": pa.array(table["x"], pa.float64()), "t": pa.array(table["t"], pa.string())})
    whole = ps.from_arrays(arrow, nulls="arrow")
    wanted = T.Recipe(T.FillMissing("mode"), x=[T.FillMissing(value=0), T.MinMax()], t=T.OneHot())
    try:
        fitted = wanted.fit(whole)
    except ps.DataError:  # numbers so far apart that their distance is beyond float64, or a column of nothing
        return
    some = [whole.skip(number).every(parts) for number in range(min(parts, len(rows)))]
    assert learnt(together(some, wanted)) == learnt(fitted)
    batch = whole.transform(fitted).head(len(rows))
    for number, row in enumerate(rows):
        served = fitted.apply({"x": row[0], "t": row[1]})
        assert served["x"].tobytes() == batch["x"][number].tobytes()
        assert served["t"].tobytes() == batch["t"][number].tobytes()
