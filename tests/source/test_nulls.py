"""What nulls become: one rule at every door."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.columns.spec import Field

ROWS = 40
#: Every fifth age is missing, every seventh weight; ids and whole have no nulls.
AGES = [None if number % 5 == 1 else number for number in range(ROWS)]
WEIGHTS = [None if number % 7 == 2 else number / 2 for number in range(ROWS)]
CITIES = [None if number % 4 == 3 else f"city {number % 3}" for number in range(ROWS)]
TABLE = pa.table({"id": range(ROWS), "age": pa.array(AGES, pa.int64()), "weight": WEIGHTS, "city": CITIES})

Door = Callable[..., ps.Dataset]


def parquet(folder: Path, **options: Any) -> ps.Dataset:
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=7)
    return ps.read(folder / "t.parquet", **options)


def plain_arrow(folder: Path, **options: Any) -> ps.Dataset:
    feather.write_feather(TABLE, str(folder / "t.arrow"), compression="uncompressed", chunksize=9)
    return ps.read(folder / "t.arrow", **options)


def packed_arrow(folder: Path, **options: Any) -> ps.Dataset:
    feather.write_feather(TABLE, str(folder / "t.feather"), compression="zstd")
    return ps.read(folder / "t.feather", **options)


def jsonl(folder: Path, **options: Any) -> ps.Dataset:
    lines = [json.dumps({name: value for name, value in row.items() if value is not None or row["id"] % 2}) for row in TABLE.to_pylist()]  # fmt: skip
    (folder / "t.jsonl").write_text("\n".join(lines))
    return ps.read(folder / "t.jsonl", **options)


def csv(folder: Path, **options: Any) -> ps.Dataset:
    pd.DataFrame(TABLE.to_pydict()).astype({"age": "Int64"}).to_csv(folder / "t.csv", index=False)
    return ps.read(folder / "t.csv", **options)


def database(folder: Path) -> str:
    path = folder / "t.sqlite"
    if not path.exists():
        with sqlite3.connect(path) as base:
            base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, age INTEGER, weight REAL, city TEXT)")
            base.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [tuple(row.values()) for row in TABLE.to_pylist()])
        base.close()
    return f"sqlite:///{path}"


def drawn_sql(folder: Path, **options: Any) -> ps.Dataset:
    return ps.read_sql(database(folder), "SELECT * FROM t ORDER BY id", **options)


def partitioned_sql(folder: Path, **options: Any) -> ps.Dataset:
    return ps.read_sql(database(folder), "SELECT * FROM t", partition="id", **options)


def in_pandas(_: Path, **options: Any) -> ps.Dataset:
    weights = pd.array(WEIGHTS, dtype="Float64")
    return ps.from_arrays(pd.DataFrame({"id": range(ROWS), "age": pd.array(AGES, dtype="Int64"), "weight": weights, "city": CITIES}), **options)  # fmt: skip


def in_polars(_: Path, **options: Any) -> ps.Dataset:
    return ps.from_arrays(pl.DataFrame(TABLE.to_pydict()), **options)


def in_arrow(_: Path, **options: Any) -> ps.Dataset:
    return ps.from_arrays(TABLE, **options)


def in_dicts(_: Path, **options: Any) -> ps.Dataset:
    return ps.from_arrays(TABLE.to_pylist(), **options)


FILES: list[Door] = [parquet, plain_arrow, packed_arrow, jsonl, csv, drawn_sql, partitioned_sql]
DOORS: list[Door] = [*FILES, in_pandas, in_polars, in_arrow, in_dicts]
#: Of these the first records say that columns have nulls, and where there is a rule, later ones may have some in any column of numbers.
LINES = (jsonl, csv)
doors = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
files = pytest.mark.parametrize("door", FILES, ids=lambda door: door.__name__)


def all_of(dataset: ps.Dataset, **options: Any) -> dict[str, Any]:
    with ps.Loader(dataset.batch(len(dataset)), **options) as loader:
        return dict(next(iter(loader)))


def batches(dataset: ps.Dataset, size: int = 8, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(dataset.batch(size), **options) as loader:
        return [dict(batch) for batch in loader]


# The rules


@doors
def test_nan(door: Door, tmp_path: Path) -> None:
    """Numbers with nulls come as floats with NaN; columns that can have none keep their type, and text keeps Arrow's nulls."""
    dataset = door(tmp_path, nulls="nan")
    batch, whole = all_of(dataset), "float64" if door in LINES else "int64"
    assert [batch[name].dtype for name in ("id", "age", "weight")] == [whole, "float64", "float64"]
    assert [None if np.isnan(age) else age for age in batch["age"]] == AGES
    assert [None if np.isnan(weight) else weight for weight in batch["weight"]] == WEIGHTS
    assert batch["city"].to_pylist() == ([city or "" for city in CITIES] if door is csv else CITIES)
    assert {name: field.dtype for name, field in dataset.spec.items()} == {"id": whole, "age": "float64", "weight": "float64", "city": "string"}  # fmt: skip


@doors
def test_mask(door: Door, tmp_path: Path) -> None:
    """A column that says which values are there stands behind each that has nulls, where 0 is in their place."""
    batch = all_of(door(tmp_path, nulls="mask"))
    ids = ["id", "id_valid"] if door in LINES else ["id"]
    assert list(batch) == [*ids, "age", "age_valid", "weight", "weight_valid", "city"]
    assert batch["age"].dtype == np.int64
    assert batch["age"].tolist() == [age or 0 for age in AGES]
    assert batch["age_valid"].tolist() == [age is not None for age in AGES]
    assert batch["weight_valid"].tolist() == [weight is not None for weight in WEIGHTS]
    assert batch["age"].flags.writeable


@doors
def test_arrow(door: Door, tmp_path: Path) -> None:
    """Columns with nulls come as Arrow arrays, in every batch, and frames have real nulls."""
    dataset = door(tmp_path, nulls="arrow")
    for batch in batches(dataset, 1):
        assert isinstance(batch["age"], pa.Array)
        assert isinstance(batch["id"], pa.Array if door in LINES else np.ndarray)
    assert all_of(dataset)["age"].to_pylist() == AGES
    assert dataset.spec["age"] == Field("int64", nullable=True)
    frame = next(iter(ps.Loader(dataset.batch(ROWS), structure="polars")))
    assert frame["age"].to_list() == AGES
    assert frame["age"].dtype == pl.Int64


@files
def test_an_error_says_where_and_what_to_do(door: Door, tmp_path: Path) -> None:
    """The default is an error in the batch that needs a null; the data opens, other columns are read, and rows without nulls too."""
    dataset = door(tmp_path)
    assert len(dataset) == ROWS
    assert "id" in dataset.explain()
    assert all_of(dataset.select("id"))["id"].tolist() == list(range(ROWS))
    with pytest.raises(ps.DataError, match=r"1.*column 'age' is null; give it a value .*default=.*is_not_null\(\).*'nan'.*'mask'.*'arrow'"):  # fmt: skip
        all_of(dataset.select("age"))
    there = all_of(dataset.filter(ps.col("age").is_not_null()).select("id", "age"))
    assert there["age"].dtype == np.int64
    assert there["age"].tolist() == [age for age in AGES if age is not None]


@pytest.mark.parametrize("door", [parquet, jsonl])
def test_rows_with_nulls_are_bad_rows(door: Door, tmp_path: Path) -> None:
    dataset = door(tmp_path).select("id", "age").batch(8, steps=4)
    with pytest.warns(match="column 'age' is null"), ps.Loader(dataset, on_error="skip") as loader:
        ids = np.concatenate([batch["id"] for batch in loader])
    assert len({*ids.tolist()}) == 32
    assert all(AGES[number] is not None for number in ids.tolist())


def test_from_arrays_says_at_once_what_it_cannot_hold() -> None:
    with pytest.raises(
        ps.PlanError, match="column 'age' has 8 nulls; fill or drop them first, or say what they become: nulls='nan'"
    ):
        ps.from_arrays(TABLE)


@pytest.mark.parametrize("structure", ["arrow", "pandas", "polars"])
def test_frames_hold_nulls_without_being_told(structure: Any, tmp_path: Path) -> None:
    """A frame has a place for a null, so that it is no error there, unless a function gets the column before."""
    dataset = parquet(tmp_path)
    frame = next(iter(ps.Loader(dataset.batch(ROWS), structure=structure)))
    found = frame.column("age").to_pylist() if structure == "arrow" else frame["age"].astype(object).where(frame["age"].notna(), None).tolist() if structure == "pandas" else frame["age"].to_list()  # fmt: skip
    assert [None if age is None or age != age else age for age in found] == AGES
    with pytest.raises(ps.DataError, match="column 'age' is null"):
        next(iter(ps.Loader(dataset.batch(ROWS).map(lambda batch: batch), structure=structure)))


@pytest.mark.parametrize("nulls", ["error", "arrow"])
def test_dtypes_of_pandas_do_not_depend_on_the_batch(nulls: Any, tmp_path: Path) -> None:
    """Whole numbers and truth values that may be null are pandas' nullable types, in batches without a null too."""
    ints = {name: pa.array([1, None, 3, 4], getattr(pa, name)()) for name in ("int8", "int32", "int64", "uint8", "uint64")}  # fmt: skip
    table = pa.table(ints | {"t": [True, None, False, True], "f": pa.array([1, None, 3, 4], pa.float32()), "id": range(4)})  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    with ps.Loader(ps.read(tmp_path / "t.parquet", nulls=nulls).batch(2), structure="pandas") as loader:
        frames = list(loader)
    names = {"int8": "Int8", "int32": "Int32", "int64": "Int64", "uint8": "UInt8", "uint64": "UInt64", "t": "boolean", "f": "float32", "id": "int64"}  # fmt: skip
    for frame in frames:
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == names
    assert frames[0]["int32"].isna().tolist() == [False, True]
    assert frames[1]["uint64"].tolist() == [3, 4]


def test_xgboost_and_lightgbm_get_nan(tmp_path: Path) -> None:
    from penstock.features import matrix_of

    for nulls in ("nan", "arrow"):
        matrix = matrix_of(all_of(parquet(tmp_path, nulls=nulls)), ["age", "weight"])
        assert np.isnan(matrix[:, 0]).tolist() == [age is None for age in AGES]
        assert np.isnan(matrix[:, 1]).tolist() == [weight is None for weight in WEIGHTS]


# Types


KINDS = {
    "bool": pa.array([True, None, False]),
    "int8": pa.array([1, None, 3], pa.int8()),
    "uint64": pa.array([1, None, 3], pa.uint64()),
    "float16": pa.array(np.array([1, 2, 3], np.float16), mask=np.array([False, True, False])),
    "float32": pa.array([1, None, 3], pa.float32()),
    "date": pa.array([1, None, 3], pa.date32()),
    "time": pa.array([1, None, 3], pa.timestamp("s")),
    "decimal": pa.array([1, None, 3], pa.decimal128(5, 2)),
    "pair": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
    "dictionary": pa.array([1, None, 3]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", [False, True])
def test_types(kind: str, memory: bool, tmp_path: Path) -> None:
    """Whole numbers, truth values and times become float64, floats keep their type; masks have the shape of their column."""
    table = pa.table({"x": KINDS[kind]})
    feather.write_feather(table, str(tmp_path / "t.arrow"))

    def opened(nulls: Any) -> dict[str, Any]:
        return all_of(ps.from_arrays(table, nulls=nulls) if memory else ps.read(tmp_path / "t.arrow", nulls=nulls))

    floats, masked, arrow = opened("nan")["x"], opened("mask"), opened("arrow")["x"]
    assert floats.dtype == (kind if kind.startswith("float") else "float64")
    missing = [[False] * 2, [True] * 2, [False, True]] if kind == "pair" else [False, True, False]
    assert np.isnan(floats).tolist() == missing
    assert (~masked["x_valid"]).tolist() == missing
    assert masked["x"][np.array(missing)].tolist() == [0] * int(np.sum(missing))
    assert arrow.is_null().to_pylist() == [False, True, False]


def test_lists_keep_nulls(tmp_path: Path) -> None:
    lists = [[1, 2], None, [3, None], []]
    pq.write_table(pa.table({"x": lists}), tmp_path / "t.parquet")
    for nulls in ("nan", "mask", "arrow"):
        assert all_of(ps.read(tmp_path / "t.parquet", nulls=nulls))["x"].to_pylist() == lists
    with pytest.raises(ps.DataError, match="row 1: column 'x' is null"):
        all_of(ps.read(tmp_path / "t.parquet"))
    with pytest.raises(ps.DataError, match="row 2: column 'x' has a null in a list"):
        all_of(ps.read(tmp_path / "t.parquet").filter(ps.col("x").is_not_null()))


def test_fields_of_structs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"box": [{"w": 1, "h": 2}, None, {"w": None, "h": 3}]}), tmp_path / "t.parquet")
    batch = all_of(ps.read(tmp_path / "t.parquet", nulls="mask"))
    assert batch["box.w_valid"].tolist() == [True, False, False]
    assert batch["box.h_valid"].tolist() == [True, False, True]


def test_whole_numbers_that_no_float_holds(tmp_path: Path) -> None:
    """A number above 2**53 is not rounded without a word."""
    for numbers, where in (([2**53 + 1, None], "row 0"), ([None, -(2**53) - 1], "row 1")):
        pq.write_table(pa.table({"x": numbers}), tmp_path / "t.parquet")
        with pytest.raises(ps.DataError, match=rf"{where}: column 'x' is -?9007199254740993, .*choose nulls='mask'"):
            all_of(ps.read(tmp_path / "t.parquet", nulls="nan"))
        assert all_of(ps.read(tmp_path / "t.parquet", nulls="mask"))["x"].tolist() == [
            number or 0 for number in numbers
        ]
    held = [2**54, -(2**53), -(2**63), 2**53 + 2, 0, 7, None]
    assert all_of(ps.from_arrays(pa.table({"x": held}), nulls="nan"))["x"].tolist()[:-1] == held[:-1]
    for lost in (2**54 + 1, 2**63 - 1, -(2**63) + 1):
        with pytest.raises(ps.DataError, match=rf"column 'x' is {lost}, .*does not hold exactly"):
            all_of(ps.from_arrays(pa.table({"x": [*held, lost]}), nulls="nan"))
    unsigned = pa.array([2**63, None, 2**64 - 2048], pa.uint64())
    assert all_of(ps.from_arrays(pa.table({"x": unsigned}), nulls="nan"))["x"][2] == float(2**64 - 2048)


def test_types_are_those_of_the_whole_dataset(tmp_path: Path) -> None:
    """A column that may have nulls and has none stays as it is; one null in the last file makes floats of all."""
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": [3, 4]}), tmp_path / "1.parquet")
    assert [batch["x"].dtype for batch in batches(ps.read(tmp_path, nulls="nan"), 2)] == ["int64", "int64"]
    pq.write_table(pa.table({"x": [3, None]}), tmp_path / "1.parquet")
    assert [batch["x"].dtype for batch in batches(ps.read(tmp_path, nulls="nan"), 2)] == ["float64", "float64"]
    pq.write_table(pa.table({"x": [3, 4]}), tmp_path / "1.parquet", write_statistics=False)
    assert ps.read(tmp_path, nulls="nan").spec["x"].dtype == "float64"  # where files do not say it, there may be some


def test_one_column_says_otherwise(tmp_path: Path) -> None:
    """Column(nulls=…) is for one column, whether its data shows nulls or not; `...` keeps all others."""
    pq.write_table(TABLE, tmp_path / "t.parquet")
    columns = [ps.Column(feature="age", nulls="mask"), ps.Column(feature="id", nulls="nan"), ...]
    batch = all_of(ps.read(tmp_path / "t.parquet", columns=columns, nulls="nan"))
    assert list(batch) == ["id", "age", "age_valid", "weight", "city"]
    assert batch["id"].dtype == np.float64
    assert np.isnan(batch["weight"]).any()
    with pytest.raises(ps.PlanError, match=r"default= and nulls= both"):
        ps.Column(feature="age", nulls="nan", default=0)


def test_other_columns_stay_where_one_gets_a_default(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    path = tmp_path / "t.parquet"
    for columns in (
        [ps.Column(feature="age", default=-1), ...],
        {"age": ps.Column(feature="age", default=-1), ...: ...},
    ):
        dataset = ps.read(path, columns=columns, nulls="nan")
        assert list(dataset.spec) == ["id", "age", "weight", "city"]
        assert all_of(dataset)["age"].tolist() == [-1 if age is None else age for age in AGES]
    assert list(ps.read(path, columns={"years": "age", ...: ...}).spec) == ["id", "years", "weight", "city"]
    assert list(ps.read(path, columns=["id", ps.Column(feature="age", default=-1)]).spec) == ["id", "age"]


def test_names_that_are_taken(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, None], "x_valid": [1, 2]}), tmp_path / "t.parquet")
    with pytest.raises(ps.PlanError, match="nulls='mask' adds a column 'x_valid', and there is one already; rename it"):
        ps.read(tmp_path / "t.parquet", nulls="mask")
    with pytest.raises(ps.PlanError, match="nulls='zero'; choose 'error', 'nan'"):
        ps.read(tmp_path / "t.parquet", nulls="zero")  # type: ignore[arg-type]


def late(folder: Path, name: str) -> Path:
    """3,000 whole numbers and truth values, and then a null of each."""
    rows = [{"x": number, "t": number % 2 == 0} for number in range(3000)] + [{"x": None, "t": None}]
    path = folder / name
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path, write_statistics=False)
    elif name.endswith("csv"):
        pd.DataFrame(rows).astype({"x": "Int64", "t": "boolean"}).to_csv(path, index=False)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


lates = pytest.mark.parametrize("name", ["late.jsonl", "late.csv", "late.parquet"])


@lates
def test_nulls_that_nothing_tells_of(name: str, tmp_path: Path) -> None:
    """Where there is a rule, nulls may come after all that says of what there is; a column that is told apart keeps its type, and has an error."""
    path = late(tmp_path, name)
    missing = [False] * 3000 + [True]
    for columns in (None, [ps.Column(feature="x", nulls="nan"), ps.Column(feature="t", nulls="nan")]):
        floats = all_of(ps.read(path, columns=columns, nulls="error" if columns else "nan"))
        assert [np.isnan(floats[column]).tolist() for column in ("x", "t")] == [missing, missing]
    masked = all_of(ps.read(path, nulls="mask"))
    assert [(~masked[column]).tolist() for column in ("x_valid", "t_valid")] == [missing, missing]
    assert (masked["x"].dtype, masked["t"].dtype) == ("int64", "bool")
    assert all_of(ps.read(path, nulls="arrow"))["x"].to_pylist() == [*range(3000), None]
    told = ps.read(path, columns=[ps.Column(feature="x", nulls="error"), ...], nulls="nan")
    assert all_of(told.take(3000))["x"].dtype == np.int64
    with pytest.raises(ps.DataError, match=r"(record|row) 3,000.*x.* is null"):
        all_of(told)


@lates
@pytest.mark.parametrize("nulls", ["error", "nan"])
def test_expressions_see_nulls_that_nothing_tells_of(name: str, nulls: Any, tmp_path: Path) -> None:
    data = ps.read(late(tmp_path, name), nulls=nulls)
    for there in (ps.col("x").is_not_null(), ps.col("x") >= 0, ps.col("t") | ~ps.col("t")):
        assert all_of(data.filter(there))["x"].tolist() == list(range(3000))
    assert len(data.filter(ps.col("x").is_null())) == 1
    assert len(data.filter(ps.col("x").fill_null(-1) < 0)) == 1
    with pytest.raises(ps.PlanError, match=r"missing in 1 of 3,001 rows, first in row 3,000; leave these"):
        data.sort("x")


def test_expressions_see_nulls_of_databases(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.sqlite") as base:
        base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER)")
        base.executemany("INSERT INTO t VALUES (?, ?)", [(number, number or None) for number in range(3000, -1, -1)])
        base.execute("UPDATE t SET x = NULL WHERE id = 3000")
        base.execute("UPDATE t SET x = 1 WHERE id = 0")
    base.close()
    data = ps.read_sql(f"sqlite:///{tmp_path}/t.sqlite", "SELECT * FROM t", partition="id")
    assert len(data.filter(ps.col("x").is_not_null())) == 3000


# With all that plans do


PLANS: dict[str, Callable[[ps.Dataset], ps.Dataset]] = {
    "shuffled": lambda data: data.shuffle(seed=3),
    "single rows": lambda data: data.shuffle(seed=3, mode="global"),
    "mapped": lambda data: data.shuffle(seed=3).map(lambda batch: batch),
    "cached": lambda data: data.cache().shuffle(seed=3),
    "filtered": lambda data: data.filter((ps.col("id") >= 8) | ps.col("city").is_null()).shuffle(seed=1),
    "selected": lambda data: data.select("age", "id").shuffle(seed=1),
    "sliced": lambda data: data.take(24).skip(8),
    "concat": lambda data: ps.concat([data, data]),
    "repeat": lambda data: data.repeat(2),
    "mix": lambda data: ps.mix([data, data], weights=[1, 1]),
    "flat": lambda data: data.filter(lambda batch: batch["id"] % 3 > 0),
}


@pytest.mark.parametrize("nulls", ["nan", "mask", "arrow"])
@pytest.mark.parametrize("plan", PLANS)
def test_plans(plan: str, nulls: Any, tmp_path: Path) -> None:
    """Whatever a plan does with rows, an id has its own age and null, on any number of ranks, after a restart and in `batch_at`."""
    steps = {"steps": 3} if plan == "flat" else {}
    made = PLANS[plan](parquet(tmp_path, nulls=nulls)).batch(8, **steps)

    def rows(loader: Any) -> list[tuple[Any, ...]]:
        return [row for batch in loader for row in pairs(batch)]

    def pairs(batch: dict[str, Any]) -> list[tuple[int, Any]]:
        ages = batch["age"].to_pylist() if nulls == "arrow" else batch["age"].tolist()
        if nulls == "mask" and "age_valid" in batch:
            ages = [age if there else None for age, there in zip(ages, batch["age_valid"].tolist(), strict=True)]
        return list(zip(batch["id"].tolist(), [None if age != age else age for age in ages], strict=True))

    if plan == "selected" and nulls == "mask":
        return  # the mask is not selected
    with ps.Loader(made) as loader:
        found = rows(loader)
        first = found[8:16] if steps else pairs(loader.batch_at(0, 1))
    assert all(age == AGES[number] for number, age in found)
    assert first == found[8:16]
    parts = [[pairs(batch) for batch in ps.Loader(made, rank=rank, world_size=2)] for rank in range(2)]
    assert [row for step in zip(*parts, strict=True) for part in step for row in part] == found
    with ps.Loader(made) as loader:
        batch = iter(loader)
        next(batch)
        state = loader.state_dict()
        del batch
    with ps.Loader(made) as again:
        again.load_state_dict(state)
        assert rows(again) == found[8:]


def test_concat_of_some_with_nulls_and_some_without(tmp_path: Path) -> None:
    """Text joins whether it has nulls or not; numbers of which one side has NaN say what differs, and one column's rule makes them alike."""
    pq.write_table(pa.table({"x": [1, 2], "t": ["a", "b"]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": [3, None], "t": ["c", None]}), tmp_path / "1.parquet")
    without, having = (ps.read(tmp_path / f"{number}.parquet", nulls="nan") for number in range(2))
    assert all_of(ps.concat([without.select("t"), having.select("t")]))["t"].to_pylist() == ["a", "b", "c", None]
    with pytest.raises(ps.PlanError, match=r"column 'x' is int64 in dataset 0 .* and float64 in dataset 1"):
        all_of(ps.concat([without, having]))
    alike = ps.read(tmp_path / "0.parquet", columns=[ps.Column(feature="x", nulls="nan"), ...])
    np.testing.assert_array_equal(all_of(ps.concat([alike, having]))["x"], [1, 2, 3, np.nan])
    zipped = all_of(ps.zip([having, ps.read(tmp_path / "0.parquet", columns={"y": "x"})]).filter(ps.col("t").is_null()))
    assert zipped["y"].tolist() == [2]


@pytest.mark.slow
@pytest.mark.parametrize("isolation", [None, "process"])
def test_processes(isolation: Any, tmp_path: Path) -> None:
    data = parquet(tmp_path, nulls="arrow").map(lambda batch: {"n": batch["age"].is_null().to_numpy(zero_copy_only=False)}, workers="process")  # fmt: skip
    found = np.concatenate([batch["n"] for batch in batches(data, isolation=isolation)])
    assert found.tolist() == [age is None for age in AGES]


def test_datasets_travel(tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(parquet(tmp_path, nulls="mask")))
    assert all_of(again)["age_valid"].tolist() == [age is not None for age in AGES]


def test_filters_of_parquet_and_nulls(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=4)
    dataset = ps.read(tmp_path / "t.parquet", filters=[("age", ">", 20)], nulls="nan")
    assert all_of(dataset)["id"].tolist() == [age for age in AGES if age is not None and age > 20]


def test_row_groups_that_hold_nothing_but_nulls(tmp_path: Path) -> None:
    """Bounds that files say rule out no row that an expression is true of."""
    pq.write_table(
        pa.table({"x": pa.array([None] * 4 + [1, 2, None, 4], pa.int64())}), tmp_path / "t.parquet", row_group_size=4
    )
    dataset = ps.read(tmp_path / "t.parquet", nulls="nan")
    assert len(dataset.filter(ps.col("x").is_null())) == 5
    assert len(dataset.filter(ps.col("x") > 1)) == 2
    assert len(dataset.filter(ps.col("x").fill_null(9) > 4)) == 5
    assert len(dataset.filter((ps.col("x") > 1) | ps.col("x").is_null())) == 7
