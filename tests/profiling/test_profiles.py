"""`ps.profile`: figures beside NumPy's and pandas', the same in any order, of odd tables, too."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.profiling.facts import facts_of
from penstock.profiling.hashes import Smallest
from penstock.profiling.numbers import FRACTIONS

ROWS = 100_000
MARKS = "<script>x</script>\x1b[2J"


def odd_numbers(rows: int = ROWS) -> dict[str, Any]:
    """Columns whose figures are exact by different ways: by their values, by two passes, with gaps."""
    random = np.random.default_rng(3)
    normal = random.normal(size=rows)
    gaps = np.where(random.random(rows) < 0.1, np.nan, random.lognormal(size=rows))
    return {
        "normal": normal,
        "related": normal * 2 + random.normal(size=rows),
        "gaps": gaps,
        "few": random.integers(0, 12, rows),
        "times": random.integers(1_600_000_000, 1_700_000_000, rows),
        "single": random.normal(size=rows).astype(np.float32),
        "truth": random.random(rows) < 0.3,
    }


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return odd_numbers()


@pytest.fixture(scope="module")
def found(table: dict[str, Any]) -> Any:
    return ps.profile(ps.from_arrays(table))


@pytest.mark.parametrize("name", ["normal", "related", "gaps", "few", "times", "single"])
def test_figures_are_numpys(table: dict[str, Any], found: Any, name: str) -> None:
    values = table[name].astype(np.float64)
    there = values[~np.isnan(values)]
    numbers = found[name]["numbers"]
    assert found[name]["missing"] == len(values) - len(there)
    assert (numbers["least"], numbers["greatest"]) == (there.min(), there.max())
    assert numbers["mean"] == pytest.approx(there.mean(), rel=1e-12, abs=1e-15)
    assert numbers["deviation"] == pytest.approx(there.std(), rel=1e-12)
    assert numbers["quantiles_exact"]
    assert [numbers["quantiles"][str(one)] for one in FRACTIONS] == np.quantile(there, FRACTIONS).tolist()
    low, high = np.quantile(there, [0.25, 0.75])
    fences = low - 1.5 * (high - low), high + 1.5 * (high - low)
    assert numbers["outliers"]["exact"]
    assert [numbers["outliers"][side] for side in ("low", "high")] == [
        int((there < fences[0]).sum()),
        int((there > fences[1]).sum()),
    ]
    assert sum(numbers["histogram"]["counts"]) == len(there)
    assert numbers["negative"] == (there < 0).sum()


def test_a_histogram_is_numpys(table: dict[str, Any], found: Any) -> None:
    histogram = found["normal"]["numbers"]["histogram"]
    assert histogram["counts"] == np.histogram(table["normal"], histogram["edges"])[0].tolist()


def test_correlations_are_pandas(table: dict[str, Any], found: Any) -> None:
    correlations = found.facts["correlations"]
    expected = pd.DataFrame(table).corr().loc[correlations["columns"], correlations["columns"]].to_numpy()
    assert set(correlations["columns"]) == {*table}
    np.testing.assert_allclose(np.array(correlations["figures"]), expected, atol=1e-9)


def test_distinct_values_are_exact_up_to_a_bound_and_near_beyond(table: dict[str, Any], found: Any) -> None:
    assert found["few"]["distinct"] == {"count": 12, "exact": True}
    distinct = found["normal"]["distinct"]
    assert not distinct["exact"]
    assert distinct["count"] == pytest.approx(ROWS, rel=0.02)
    assert found["times"]["distinct"]["count"] == pytest.approx(len(np.unique(table["times"])), rel=0.02)


def test_frequent_values_are_found_among_too_many_to_count_each() -> None:
    random = np.random.default_rng(0)
    texts = np.where(random.random(200_000) < 0.01, "often", random.integers(0, 1 << 40, 200_000).astype(str))
    values = ps.profile(ps.from_arrays({"t": pa.array(texts)}))["t"]["values"]
    assert values["most_frequent"] == [["often", int((texts == "often").sum())]]
    assert values["others_at_most"] < 100
    assert not values["all"]


@pytest.mark.parametrize("cpus", [1, 5])
def test_figures_depend_on_no_order_threads_or_files(
    table: dict[str, Any], found: Any, tmp_path: Path, cpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.profiling.gathering.usable_cpus", lambda: cpus)
    order = np.random.default_rng(cpus).permutation(ROWS)
    mixed = pa.table({name: column[order] for name, column in table.items()})
    for number, part in enumerate((mixed[:10], mixed[10:60_000], mixed[60_000:])):
        pq.write_table(part, tmp_path / f"{number}.parquet", row_group_size=7_001)
    again = ps.profile(ps.read(tmp_path))
    assert {**again.facts, "digest": ""} == {**found.facts, "digest": ""}
    assert ps.profile(ps.read(tmp_path)).to_json() == again.to_json()


def test_numbers_that_are_too_near_each_other_are_told_to_a_millionth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.profiling.numbers._HELD", 1000)
    values = 1.6e9 + np.random.default_rng(0).random(70_000) * 1e8
    numbers = ps.profile(ps.from_arrays({"x": values}))["x"]["numbers"]
    assert not numbers["quantiles_exact"]
    assert numbers["quantiles"]["0.25"] == pytest.approx(np.quantile(values, 0.25), rel=2e-6)
    assert numbers["outliers"] | {"fences": [], "exact": False} == {"low": 0, "high": 0, "fences": [], "exact": False}


def test_copies_of_rows() -> None:
    rows = {"x": np.array([1.0, 1.0, np.nan, np.nan, 0.0, -0.0]), "t": ["a", "b", "c", "c", "", ""]}
    assert ps.profile(ps.from_arrays(rows)).facts["duplicates"]["rows"] == 2
    swapped = {"one": ["a", "b"], "other": ["b", "a"]}
    assert ps.profile(ps.from_arrays(swapped)).facts["duplicates"]["rows"] == 0
    lists = {"l": pa.array([[1, 2], [2, 1], [1, 2], [], [0]])}
    assert ps.profile(ps.from_arrays(lists)).facts["duplicates"]["rows"] == 1


def test_copies_of_very_many_rows_are_told_by_a_part_of_them() -> None:
    smallest = Smallest(1000, bits=64)
    hashes = np.random.default_rng(0).integers(0, 1 << 64, 50_000, dtype=np.uint64)
    for part in np.split(np.concatenate([hashes, hashes[:25_000]]), 30):
        smallest.add(part)
    assert not smallest.is_exact
    assert smallest.distinct == pytest.approx(50_000, rel=0.15)
    assert smallest.repeats == pytest.approx(25_000, rel=0.2)


def test_nulls_are_counted_whatever_batches_have_in_their_place(tmp_path: Path) -> None:
    columns = {"i": pa.array([1, None, 3]), "t": pa.array(["a", None, ""]), "f": pa.array([None, 0.5, math.nan])}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for nulls in ("error", "arrow"):
        found = ps.profile(ps.read(tmp_path, nulls=nulls))
        assert [found[name]["missing"] for name in "itf"] == [1, 1, 2]
        assert found["t"]["empty"] == 1


def test_whole_numbers_beyond_2_to_the_53_keep_their_bounds() -> None:
    big = {"i": np.array([2**53 + 1, -(2**63), 2**63 - 1]), "u": np.array([2**64 - 1, 0, 1], np.uint64)}
    found = ps.profile(ps.from_arrays(big))
    assert found["i"]["numbers"]["least"] == -(2**63)
    assert found["i"]["numbers"]["greatest"] == 2**63 - 1
    assert found["u"]["numbers"]["greatest"] == 2**64 - 1
    assert found["i"]["distinct"]["count"] == 3


def test_infinite_numbers_are_counted_and_left_out() -> None:
    column = {"x": np.array([np.inf, 1.0, 3.0, -np.inf, np.nan])}
    found = ps.profile(ps.from_arrays(column))["x"]
    assert (found["missing"], found["numbers"]["infinite"], found["numbers"]["mean"]) == (1, 2, 2.0)
    assert found["distinct"]["count"] == 4


def test_no_rows_and_no_values() -> None:
    spec = {"x": Field("float64"), "t": Field("string"), "y": Field("int64")}

    def no_blocks(names: Any) -> Any:
        return iter(())

    facts = facts_of(spec, no_blocks, label="y", decodes=False, digest="", classes=(), progress=lambda rows: None)
    empty = ps.Profile(facts)
    assert "0 rows, 3 columns" in repr(empty)
    assert "<table>" in empty._repr_html_()
    assert empty.compare(empty).is_stable
    missing = ps.profile(
        ps.from_arrays({"x": np.full(3, np.nan), "t": pa.array([None] * 3, pa.string())}, nulls="arrow")
    )
    assert [one["says"] for one in missing.findings if one["column"]] == ["has no value in any row"] * 2
    assert missing.facts["duplicates"]["rows"] == 2


def test_lists_vectors_and_texts_have_lengths() -> None:
    columns = {
        "l": pa.array([[1], [], [1, 2, 3]]),
        "t": ["äö", "", "x"],
        "v": np.zeros((3, 2)),
        "b": pa.array([b"ab", b"", b"c"]),
    }
    found = ps.profile(ps.from_arrays(columns))
    assert found["l"]["lengths"]["mean"] == pytest.approx(4 / 3)
    assert found["t"]["lengths"]["greatest"] == 2
    assert found["b"]["lengths"]["least"] == 0
    assert found["v"]["numbers"]["zeros"] == 6


def test_classes_are_compared() -> None:
    label = ps.profile(ps.from_arrays({"y": [0] * 30 + [1] * 2}), label="y").facts["label"]
    assert label["counts"] == [[0, 30], [1, 2]]
    assert label["most_to_least"] == 15
    assert 0 < label["balance"] < 0.5
    said = ps.profile(ps.from_arrays({"y": [0] * 30 + [1] * 2}), label="y").findings
    assert {"column": "y", "says": "class 0 has 15 times the rows of class 1"} in said


def test_images_by_header_and_decoded(photos: Path, tmp_path: Path) -> None:
    found = ps.profile(ps.read(photos), label="label")
    name = next(name for name, column in found.columns.items() if column["kind"] == "image")
    images = found[name]["images"]
    assert (images["broken"], images["checked_by"], found.rows) == (0, "header", 40)
    assert images["width"]["least"] <= images["width"]["median"] <= images["width"]["greatest"]
    assert dict(found.facts["label"]["counts"]) == {"cats": 20, "dogs": 20}
    files = sorted(photos.rglob("*.jpg"))[:8]
    whole = [path.read_bytes() for path in files]
    broken = [*whole, whole[0][:30], whole[0][: len(whole[0]) // 2]]
    pq.write_table(pa.table({"image": broken}), tmp_path / "images.parquet")
    head = ps.profile(ps.read(tmp_path))["image"]["images"]
    decoded = ps.profile(ps.read(tmp_path), images="decode")["image"]["images"]
    assert [one["row"] for one in head["broken_first"]] == [8]
    assert [one["row"] for one in decoded["broken_first"]] == [8, 9]
    assert "images.parquet" in decoded["broken_first"][0]["where"]


def test_columns_that_verbs_made_are_seen_as_batches_have_them() -> None:
    data = ps.from_arrays({"x": np.arange(20_000)}).map(lambda batch: {"x": batch["x"] * 2})
    found = ps.profile(data.batch(7))
    assert found.rows == 20_000
    assert found["x"]["numbers"]["greatest"] == 39_998


def test_columns_of_another_name_and_rows_of_unknown_number() -> None:
    data = ps.from_arrays({"x": np.arange(100.0), "t": ["a", "b"] * 50})
    found = ps.profile(data.map(lambda batch: {"y": batch["x"].astype(np.float32), "t": batch["t"]}), label="t")
    assert {name: column["kind"] for name, column in found.columns.items()} == {"y": "float", "t": "text"}
    assert ps.profile(data.filter(lambda row: row["x"] >= 40)).rows == 60
    recipe = ps.table.Recipe(ps.table.Standardize(), t=ps.table.OneHot()).fit(data)
    assert ps.profile(data.transform(recipe))["t"]["type"] == "float32(2)"


def test_what_cannot_be_profiled() -> None:
    data = ps.from_arrays({"x": np.arange(70_000.0), "y": [0] * 70_000})
    with pytest.raises(ps.PlanError, match=r"no column 'z'; there are x, y"):
        ps.profile(data, label="z")
    with pytest.raises(ps.PlanError, match=r"label='x'.*more than 65,536 different values"):
        ps.profile(data, label="x")
    with pytest.raises(ps.PlanError, match=r"profile\(list\): takes a dataset"):
        ps.profile([1, 2])
    with pytest.raises(ps.PlanError, match=r"columns=\[\]; name some of x, y"):
        ps.profile(data, columns=[])
    with pytest.raises(ps.PlanError, match=r"images='no'"):
        ps.profile(data, images="no")
    with pytest.raises(ps.PlanError, match=r"spool=True"):
        ps.profile(ps.from_iterable(lambda: iter([{"x": 1}]), samples=1, spool=False))


def test_saved_and_loaded(tmp_path: Path, found: Any) -> None:
    path = tmp_path / "profile.json"
    found.save(path)
    assert ps.Profile.load(path).to_json() == found.to_json()
    with pytest.raises(ps.SourceError, match="no such file"):
        ps.Profile.load(tmp_path / "none.json")
    saved = json.loads(path.read_text())
    del saved["facts"]["columns"]["few"]["missing"]
    for content in ("{", "[]", '{"kind": "other"}', json.dumps(saved)):
        path.write_text(content)
        with pytest.raises(ps.DataError, match=r"profile\.json"):
            ps.Profile.load(path)


def test_progress_ends_at_all_of_both_passes() -> None:
    seen = list[tuple[int, int]]()
    ps.profile(ps.from_arrays({"x": np.arange(70_000.0), "t": ["a"] * 70_000}), progress=lambda *two: seen.append(two))
    assert seen[-1] == (140_000, 140_000)
    assert seen == sorted(seen)


NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64) | st.sampled_from([0.0, -0.0, 2.0**53, 5e-324])
WHOLE = st.none() | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(NUMBERS, WHOLE, TEXTS, st.none() | st.lists(st.integers(0, 5), max_size=3)), min_size=1, max_size=40
    )
)
def test_odd_tables(rows: list[tuple[Any, ...]]) -> None:
    numbers, whole, texts, lists = zip(*rows, strict=True)
    kinds = (pa.float64(), pa.int64(), pa.string(), pa.list_(pa.int64()))
    columns = {
        name: pa.array(values, kind)
        for name, values, kind in zip("nwtl", (numbers, whole, texts, lists), kinds, strict=True)
    }
    found = ps.profile(ps.from_arrays(columns, nulls="arrow"))
    assert json.loads(found.to_json()) == json.loads(json.dumps(found.facts))
    assert found["n"]["missing"] == sum(math.isnan(one) for one in numbers)
    assert found["w"]["distinct"]["count"] == len({one for one in whole if one is not None})
    assert found["t"]["distinct"]["count"] == len({one for one in texts if one is not None})
    finite = np.array([one for one in numbers if math.isfinite(one)])
    if len(finite) and np.abs(finite).max() < 1e150:
        expected = np.quantile(finite, FRACTIONS)
        np.testing.assert_allclose(
            [found["n"]["numbers"]["quantiles"][str(one)] for one in FRACTIONS], expected, rtol=1e-12, atol=1e-300
        )
    assert repr(found)
    assert "<script" not in found._repr_html_()
    assert found.compare(found).is_stable
