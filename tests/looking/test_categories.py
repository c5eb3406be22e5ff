"""Categories keep their codes: beside pandas, Arrow and Polars, whatever parts the data lies in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

pd = pytest.importorskip("pandas")

NAMES = ["owl", "dog", "日本", "", "cat"]


def frame(seed: int = 0, rows: int = 100, names: Any = NAMES, *, ordered: bool = False) -> Any:
    codes = np.random.default_rng(seed).integers(-1, len(names) - 1, rows)  # the last one is in no row
    return pd.DataFrame({"kind": pd.Categorical.from_codes(codes, names, ordered=ordered), "x": np.arange(rows)})


def codes(data: ps.Dataset, rows: int = 100) -> Any:
    return data.with_columns(code=ps.col("kind").cat.codes()).select("code").head(rows)["code"].tolist()


def written(path: Path, some: Any, kind: str) -> None:
    if kind == "parquet":
        some.to_parquet(path, row_group_size=23)
        return
    table = pa.Table.from_pandas(some, preserve_index=False)
    new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with new(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=23)


KINDS = ["parquet", "arrow", "stream"]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_codes_of_files_are_those_of_pandas(tmp_path: Path, kind: str, *, ordered: bool) -> None:
    some = frame(ordered=ordered)
    written(tmp_path / f"a.{'parquet' if kind == 'parquet' else 'arrow'}", some, kind)
    data = ps.read(tmp_path, nulls="arrow")
    assert data.categories("kind") == NAMES
    assert codes(data) == some["kind"].cat.codes.tolist()


def test_codes_of_a_frame() -> None:
    some = frame()
    assert codes(ps.from_arrays(some, nulls="arrow")) == some["kind"].cat.codes.tolist()


def test_missing_values_need_no_rule(tmp_path: Path) -> None:
    """Codes are -1 there, so that no null reaches a batch."""
    some = frame()
    written(tmp_path / "a.parquet", some, "parquet")
    data = ps.read(tmp_path).with_columns(kind=ps.col("kind").cat.codes())
    assert data.spec["kind"].dtype == "int64"
    with ps.Loader(data.batch(10)) as loader:
        assert [code for batch in loader for code in batch["kind"].tolist()] == some["kind"].cat.codes.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_several_files_of_the_same_categories(tmp_path: Path, kind: str) -> None:
    for number in range(3):
        written(tmp_path / f"{number}.{'parquet' if kind == 'parquet' else 'arrow'}", frame(number, ordered=True), kind)
    wanted = [code for number in range(3) for code in frame(number)["kind"].cat.codes.tolist()]
    data = ps.read(tmp_path, nulls="arrow")
    assert codes(data, 300) == wanted
    shuffled = data.with_columns(code=ps.col("kind").cat.codes()).select("code", "kind").shuffle(seed=1)
    batch = shuffled.head(300)
    place = {name: code for code, name in enumerate(NAMES)}
    assert batch["code"].tolist() == [place.get(name, -1) for name in batch["kind"].to_pylist()]
    assert sorted(batch["code"].tolist()) == sorted(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_other_categories_are_joined_as_arrow_joins_them(tmp_path: Path, kind: str) -> None:
    suffix = "parquet" if kind == "parquet" else "arrow"
    parts = [frame(0, names=["b", "a", "c"]), frame(1, names=["c", "z", "a", "y"])]
    for number, some in enumerate(parts):
        written(tmp_path / f"{number}.{suffix}", some, kind)
    tables = [pa.Table.from_pandas(some) for some in parts]
    whole = pa.concat_tables(tables).unify_dictionaries()["kind"].combine_chunks()
    assert ps.read(tmp_path).categories("kind") == whole.dictionary.to_pylist() == ["b", "a", "c", "z", "y"]
    assert codes(ps.read(tmp_path), 200) == whole.indices.fill_null(-1).to_pylist()


def test_parts_written_in_other_orders_have_the_same_codes(tmp_path: Path) -> None:
    """A writer that knew no categories gave each file a dictionary of its own; the first file's order holds."""
    for number, texts in enumerate([["b", "a"], ["a", "b"], ["c", "b"]]):
        table = pa.table({"kind": pa.array(texts).dictionary_encode(), "x": [0, 1]})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    assert codes(ps.read(tmp_path), 6) == [0, 1, 1, 0, 2, 0]


def test_ordered_categories_that_differ_are_an_error(tmp_path: Path) -> None:
    frame(0, names=["S", "M", "L"], ordered=True).to_parquet(tmp_path / "0.parquet")
    frame(0, names=["S", "M", "L", "XL"], ordered=True).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ps.PlanError, match=r"ordered, and differ.*0\.parquet.*1\.parquet.*codes\("):
        codes(ps.read(tmp_path))
    with pytest.raises(ps.PlanError, match="ordered, and differ"):
        ps.read(tmp_path).categories("kind")


def test_text_beside_categories_is_an_error(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "0.parquet")
    frame().astype({"kind": "string"}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ps.PlanError, match=r"1\.parquet holds plain values, and .*0\.parquet categories"):
        codes(ps.read(tmp_path))


def test_a_row_group_of_nulls_and_one_category(tmp_path: Path) -> None:
    kind = pd.Categorical.from_codes([-1] * 10 + [0] * 10, ["only"])
    pd.DataFrame({"kind": kind}).to_parquet(tmp_path / "a.parquet", row_group_size=10)
    assert codes(ps.read(tmp_path), 20) == [-1] * 10 + [0] * 10


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 7],
        [0.5, -1.5, 2.0],
        [True, False],
        pd.to_datetime(["2024-02-29", "1969-01-01"]),
    ],
)
def test_categories_that_are_no_text(values: Any) -> None:
    kind = pd.Categorical.from_codes([0, 1, -1, 0], values)
    some = pd.DataFrame({"kind": kind})
    assert codes(ps.from_arrays(some, nulls="arrow"), 4) == [0, 1, -1, 0]


def test_dictionaries_of_arrow_with_a_null_and_a_value_twice() -> None:
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None]), pa.array(["b", None, "a", "b"]))
    data = ps.from_arrays(pa.table({"kind": dictionary}), nulls="arrow")
    assert data.categories("kind") == ["b", "a"]
    assert codes(data, 5) == [0, -1, 1, 0, -1]


def test_polars_enums_and_categories(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    some = pl.DataFrame({"kind": pl.Series(["b", None, "a", "b"], dtype=pl.Enum(["z", "b", "a"]))})
    some.write_parquet(tmp_path / "a.parquet")
    some.write_ipc(tmp_path / "a.arrow", compat_level=pl.CompatLevel.oldest())
    physical = some["kind"].to_physical().cast(pl.Int64).fill_null(-1).to_list()
    for data in (
        ps.from_arrays(some, nulls="arrow"),
        ps.from_arrays({"kind": some["kind"]}, nulls="arrow"),
        ps.read(tmp_path / "a.parquet"),
        ps.read(tmp_path / "a.arrow"),
    ):
        assert data.categories("kind") == ["z", "b", "a"]
        assert codes(data, 4) == physical


def test_codes_in_filter_and_sort_and_larger_expressions(tmp_path: Path) -> None:
    some = frame(names=["S", "M", "L", "XL"], ordered=True)
    some.to_parquet(tmp_path / "a.parquet")
    data, code = ps.read(tmp_path), ps.col("kind").cat.codes()
    large = data.filter(code >= 1).select("x").head(100)["x"].tolist()
    assert large == some[some["kind"].cat.codes >= 1]["x"].tolist()
    ordered = data.sort(code, descending=True).select("x").head(100)["x"].tolist()
    assert ordered == some.assign(c=-some["kind"].cat.codes).sort_values("c", kind="stable")["x"].tolist()
    later = data.with_columns(c=code * 2 + 1).filter(ps.col("c") > 1).select("c").head(100)["c"].tolist()
    assert later == [one * 2 + 1 for one in some["kind"].cat.codes.tolist() if one > 0]


def test_codes_behind_other_verbs(tmp_path: Path) -> None:
    some = frame()
    some.to_parquet(tmp_path / "a.parquet")
    wanted = some["kind"].cat.codes.tolist()
    data = ps.read(tmp_path)
    assert codes(data.rename({"kind": "was"}).rename({"was": "kind"})) == wanted
    assert codes(ps.read(tmp_path, columns={"kind": "kind"})) == wanted
    assert codes(ps.read(tmp_path, columns={"kind": "kind", "n": "x"}).take(10).select("kind"), 10) == wanted[:10]
    assert codes(ps.read(tmp_path, filters=[("x", ">=", 90)]), 10) == wanted[90:]
    data = ps.read(tmp_path, nulls="arrow")  # behind joins and functions nulls are what the rule made of them
    assert codes(ps.concat([data, data]), 200) == wanted * 2
    extra = ps.from_arrays({"y": np.arange(100)})
    assert codes(ps.zip([extra, data])) == wanted
    assert codes(data.filter(lambda batch: batch["x"] >= 0, columns="x").batch(100)) == wanted


def test_what_has_no_categories_is_an_error(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "a.parquet")
    data = ps.read(tmp_path, nulls="arrow")
    kind, x = ps.col("kind"), ps.col("x")
    for make, says in [
        (lambda: data.with_columns(c=x.cat.codes()), "'x': there are none in .* plain values; say which"),
        (lambda: data.with_columns(c=kind.str.upper().cat.codes()), "what is computed has no categories"),
        (lambda: data.fill_null({"kind": "?"}).with_columns(c=kind.cat.codes()), "it is computed by with_columns"),
        (lambda: data.map(dict).with_columns(c=kind.cat.codes()), "comes of map"),
        (lambda: data.with_columns(c=ps.col("kinds").cat.codes()), "no column 'kinds'.*did you mean"),
        (lambda: data.categories("kinds"), "no column 'kinds'"),
        (lambda: data.categories(3), "pass the name of a column"),
        (lambda: data.split({"a": 0.5, "b": 0.5}, by=kind.cat.codes()), "make a column first"),
        (lambda: ps.from_arrays({"kind": ["a"]}).categories("kind"), "there are none"),
        (lambda: ps.from_arrays({"kind": ["a"]}).transform(kind=ps.table.Ordinal()).categories("kind"), "of transform"),
    ]:
        with pytest.raises(ps.PlanError, match=says):
            make()


def test_a_category_that_a_file_gets_later_is_an_error_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame(names=["a", "b", "c"]).to_parquet(path)
    given = ps.read(path).with_columns(code=ps.col("kind").codes(ps.read(path).categories("kind")[:1]).fill_null(-1))
    with pytest.raises(ps.DataError, match="none of 1 categories"):
        given.head(100)
