"""What users have in memory: frames, lists of dicts, times, categories, bfloat16 and ragged rows, through a loader."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from support.files import listed

ROWS = 24


def through(given: Any, *, to: str = "numpy") -> dict[str, list[Any]]:
    """All rows, shuffled by a loader, in their first order again."""
    plan = ps.from_arrays(given).shuffle(seed=2).batch(8)
    with ps.Loader(plan, to=to) as loader:
        ids, rows = [], []
        for step, batch in enumerate(loader):
            ids += loader.sample_ids(0, step).tolist()
            rows += zip(*(listed(column) for column in batch.values()), strict=True)
            names = list(batch)
    ordered = [row for _, row in sorted(zip(ids, rows, strict=True), key=lambda pair: pair[0])]
    return dict(zip(names, map(list, zip(*ordered, strict=True)), strict=True))


def as_file(table: pa.Table, path: Path) -> dict[str, list[Any]]:
    """What the same types are in an Arrow file; Parquet cannot store all of them."""
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    (batch,) = ps.Loader(ps.read(path).batch(table.num_rows))
    return {name: listed(column) for name, column in batch.items()}


def frame_columns() -> dict[str, Any]:
    days = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    return {
        "number": np.arange(ROWS),
        "real": np.linspace(0, 1, ROWS, dtype=np.float32),
        "flag": np.arange(ROWS) % 2 == 0,
        "text": [f"text {number}" for number in range(ROWS)],
        "when": days,
    }


def test_pandas_frames() -> None:
    columns = frame_columns()
    frame = pd.DataFrame(columns)
    frame["kind"] = pd.Categorical(["b", "a", "c"] * 8)
    frame["objects"] = np.array(columns["text"], dtype=object)
    frame["whole"] = pd.array(range(ROWS), dtype="Int64")
    frame["zone"] = columns["when"].tz_localize("Europe/Zurich")
    frame["span"] = columns["when"] - columns["when"][0]
    found = through(frame)
    assert list(found) == list(frame.columns)
    assert found["number"] == found["whole"] == list(range(ROWS))
    assert found["real"] == columns["real"].tolist()
    assert found["flag"] == columns["flag"].tolist()
    assert found["text"] == found["objects"] == columns["text"]
    assert found["kind"] == ["b", "a", "c"] * 8
    assert found["when"] == columns["when"].to_numpy().view(np.int64).tolist()
    assert found["zone"] == [
        moment.value // int(1e9 / 10 ** (3 * unit)) for moment in frame["zone"] for unit in [_unit(frame["zone"])]
    ]
    assert found["span"] == frame["span"].to_numpy().view(np.int64).tolist()
    assert ps.from_arrays(frame).spec["real"] == Field("float32")


def _unit(series: pd.Series) -> int:
    return ["s", "ms", "us", "ns"].index(series.dt.unit)


def test_a_shuffled_pandas_frame_is_taken_in_its_order() -> None:
    frame = pd.DataFrame({"x": np.arange(ROWS)}).sample(frac=1, random_state=1)
    assert through(frame)["x"] == frame["x"].tolist()
    assert through({"y": frame["x"][5:]})["y"] == frame["x"].tolist()[5:]


def test_polars_frames() -> None:
    columns = frame_columns()
    frame = pl.DataFrame(
        {
            **{name: columns[name] for name in ("number", "real", "flag", "text")},
            "when": pl.Series([dt.datetime(2024, 1, 1, hour, tzinfo=dt.UTC) for hour in range(ROWS)]),
            "day": pl.Series([dt.date(2024, 1, 1 + day) for day in range(ROWS)]),
            "kind": pl.Series(["b", "a", "c"] * 8, dtype=pl.Categorical),
            "named": pl.Series(["b", "a", "c"] * 8, dtype=pl.Enum(["a", "b", "c"])),
            "lists": [[number] * (number % 3) for number in range(ROWS)],
            "boxes": pl.Series(
                [[[1.0, 2.0]] * (row % 3) for row in range(ROWS)], dtype=pl.List(pl.Array(pl.Float32, 2))
            ),
            "pair": pl.Series([[row, row + 1] for row in range(ROWS)], dtype=pl.Array(pl.Int16, 2)),
        }
    )
    found = through(frame)
    assert list(found) == frame.columns
    for name in ("number", "flag", "text", "kind", "named", "lists", "boxes", "pair"):
        assert found[name] == frame[name].to_list()
    assert found["when"] == frame["when"].to_physical().to_list()
    assert found["day"] == frame["day"].to_physical().to_list()
    spec = ps.from_arrays(frame).spec
    assert (spec["boxes"], spec["pair"], spec["lists"]) == (
        Field("float32", (None, 2)), Field("int16", (2,)), Field("int64", (None,))
    )  # fmt: skip
    assert through({"k": frame["kind"], "t": frame["text"]}) == {"k": found["kind"], "t": found["text"]}
    with pytest.raises(ps.PlanError, match=r"LazyFrame is a query that has not run; call \.collect\(\) first"):
        ps.from_arrays(frame.lazy())


def test_lists_of_dicts() -> None:
    rows = [{"x": number, "text": f"t{number}", "box": np.full((number % 3, 4), number)} for number in range(ROWS)]
    found = through(rows)
    assert found["x"] == list(range(ROWS))
    assert found["text"] == [f"t{number}" for number in range(ROWS)]
    assert found["box"] == [row["box"].tolist() for row in rows]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
def test_times_of_every_unit_are_counted_in_it(kind: str, unit: str) -> None:
    column = np.arange(ROWS).astype(f"{kind}[{unit}]").astype(np.dtype(f"{kind}[{unit}]").newbyteorder(">"))
    assert ps.from_arrays({"x": column}).spec["x"] == Field("int64")
    assert through({"x": column})["x"] == list(range(ROWS))


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Tokyo"),
        pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
        pa.duration("s"), pa.duration("ns"), pa.decimal128(12, 2), pa.decimal256(40, 3), pa.float16(),
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()), pa.large_string(), pa.binary(3),
        pa.string_view(), pa.list_(pa.string()), pa.list_(pa.list_(pa.int16(), 2)), pa.list_(pa.list_(pa.float32())),
    ],
    ids=str,
)  # fmt: skip
def test_arrow_types_are_what_they_are_in_files(kind: pa.DataType, tmp_path: Path) -> None:
    column = _values_of(kind)
    found = through({"x": column})["x"]
    stored = column.cast(pa.large_string()) if pa.types.is_string_view(kind) else column
    assert found == as_file(pa.table({"x": stored}), tmp_path / "x.arrow")["x"]
    assert ps.from_arrays({"x": column}).spec == ps.read(tmp_path / "x.arrow").spec


def _values_of(kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return _values_of(kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_list(kind) and pa.types.is_nested(kind.value_type):
        return pa.array([[[row, 2]] * (row % 3) for row in range(ROWS)], kind)
    if pa.types.is_list(kind):
        return pa.array([[f"text {row}"] * (row % 3) for row in range(ROWS)], kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.array([f"text {row % 5}" for row in range(ROWS)], kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([b"%03d" % row for row in range(ROWS)], kind)
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return pa.array(range(ROWS)).cast(pa.float64()).cast(kind)
    if pa.types.is_date64(kind):
        return pa.array(np.arange(ROWS) * 86_400_000).cast(kind)
    step = 1_000_000_000 if kind == pa.timestamp("ns", "Asia/Tokyo") else 1
    numbers = pa.array(np.arange(ROWS) * step)
    return numbers.cast(pa.int32()).cast(kind) if kind.bit_width == 32 else numbers.cast(kind)


def test_bfloat16_of_ml_dtypes_and_torch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    values = np.linspace(-3, 3, ROWS * 2).reshape(ROWS, 2)
    given = {
        "a": values.astype(ml_dtypes.bfloat16),
        "b": torch.tensor(values, dtype=torch.bfloat16),
        "c": torch.tensor(values).T.to(torch.bfloat16).T,
    }
    dataset = ps.from_arrays(given)
    assert set(dataset.spec.values()) == {Field("bfloat16", (2,))}
    (batch,) = ps.Loader(dataset.batch(ROWS))
    (tensors,) = ps.Loader(dataset.batch(ROWS), to="torch")
    for name in given:
        assert batch[name].dtype == ml_dtypes.bfloat16
        assert np.array_equal(batch[name], given["a"])
        assert tensors[name].dtype == torch.bfloat16
        assert torch.equal(tensors[name], given["b"])
    numbers = {"a": given["a"].view(np.uint16)}
    assert ps.from_arrays(numbers).source.manifest.digest != ps.from_arrays({"a": given["a"]}).source.manifest.digest


# Ragged columns


def boxes(row: int) -> np.ndarray:
    return np.arange(4 * (row % 4), dtype=np.float32).reshape(-1, 4) + row


def as_array(row: Any) -> np.ndarray:
    """One row of a ragged column, as docs/formats.md shows."""
    return row.values.flatten().to_numpy().reshape(-1, 4)  # noqa: PD011 - of Arrow, not of pandas


class Detection:
    """As torchvision's datasets of boxes are; the first image has none."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"id": number, "boxes": boxes(number)}


COLUMNS = {"id": "id", "boxes": ps.Column(feature="boxes", dtype="float32", shape=(None, 4))}


@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize("source", ["arrays", "rows", "objects", "iterable", "stream", "parquet"])
def test_boxes_are_delivered_as_lists_of_four(source: str, to: str, tmp_path: Path) -> None:
    items = [Detection()[number] for number in range(ROWS)]
    if source == "arrays":
        dataset = ps.from_arrays({"id": np.arange(ROWS), "boxes": [item["boxes"] for item in items]})
    elif source == "rows":
        dataset = ps.from_arrays(items)
    elif source == "objects":
        dataset = ps.from_dataset(Detection(), columns=COLUMNS)
    elif source == "parquet":
        kind = pa.list_(pa.list_(pa.float32(), 4))
        table = pa.table({"id": range(ROWS), "boxes": pa.array([item["boxes"].tolist() for item in items], kind)})
        pq.write_table(table, tmp_path / "a.parquet")
        dataset = ps.read(tmp_path / "a.parquet")
    else:
        dataset = ps.from_iterable(items, columns=COLUMNS, samples=ROWS, spool=source == "iterable")
    assert dataset.spec["boxes"] == Field("float32", (None, 4))
    plan = dataset.batch(5) if source == "stream" else dataset.shuffle(seed=1).batch(5)
    seen = []
    for batch in ps.Loader(plan, to=to):
        column = batch["boxes"]
        assert column.type == pa.large_list(pa.list_(pa.float32(), 4))
        arrays = [as_array(row) for row in column]
        for number, array in zip(batch["id"].tolist(), arrays, strict=True):
            assert array.dtype == np.float32
            assert np.array_equal(array, boxes(number))
            seen.append(number)
    assert sorted(seen) == list(range(ROWS))


def test_boxes_survive_functions() -> None:
    """A function by rows that leaves them alone, one that makes others, and one by batches that pads them."""
    dataset = ps.from_dataset(Detection(), columns=COLUMNS)

    def shifted(row: dict[str, Any]) -> dict[str, Any]:
        flat = np.array(row["boxes"], np.float32).reshape(-1)
        return {**row, "moved": pa.FixedSizeListArray.from_arrays(pa.array(flat + 1), 4)}

    def padded(batch: dict[str, Any]) -> dict[str, Any]:
        out = np.zeros((len(batch["id"]), 3, 4), np.float32)
        for row, found in enumerate(batch["moved"]):
            out[row, : len(found)] = as_array(found)
        return {**batch, "padded": out}

    for batch in ps.Loader(dataset.map_rows(shifted).map(padded).batch(4)):
        kind = pa.large_list(pa.list_(pa.float32(), 4))
        assert (batch["boxes"].type, batch["moved"].type) == (kind, kind)
        for row, number in enumerate(batch["id"].tolist()):
            expected = boxes(number)
            assert batch["boxes"][row].as_py() == expected.tolist()
            assert batch["moved"][row].as_py() == (expected + 1).tolist()
            assert np.array_equal(batch["padded"][row, : len(expected)], expected + 1)


def test_a_list_that_a_function_changed_in_place_is_delivered_changed() -> None:
    def grow(row: dict[str, Any]) -> dict[str, Any]:
        row["x"].append(7)
        return row

    dataset = ps.from_arrays({"x": pa.array([[1], [2, 3]], pa.list_(pa.int16()))})
    (batch,) = ps.Loader(dataset.map_rows(grow).batch(2))
    assert batch["x"].type == pa.large_list(pa.int16())
    assert batch["x"].to_pylist() == [[1, 7], [2, 3, 7]]


def test_rows_of_several_kinds_are_refused() -> None:
    dataset = ps.from_arrays({"id": np.arange(2), "x": [[1], [2, 3]]})
    lists = dataset.map_rows(lambda row: {"x": row["x"] if row["id"] else [9]}).batch(2)
    assert next(iter(ps.Loader(lists)))["x"].to_pylist() == [[9], [2, 3]]
    mixed = dataset.map_rows(lambda row: {"x": row["x"] if row["id"] else ["a"]}).batch(2)
    with pytest.raises(ps.PlanError, match="column 'x' has lists that are no int64, as other rows are"):
        list(ps.Loader(mixed))
    with pytest.raises(ps.PlanError, match="column 'x' is int64 in row 1 and ndarray in row 0; return pyarrow arrays"):
        list(ps.Loader(dataset.map_rows(lambda row: {"x": row["x"] if row["id"] else np.ones(1)}).batch(2)))
    with pytest.raises(ps.PlanError, match="pad the rows to one shape"):
        list(ps.Loader(dataset.map_rows(lambda row: {"x": np.zeros((2, row["id"] + 1))}).batch(2)))


def test_boxes_that_are_not_as_they_should_be() -> None:
    with pytest.raises(
        ps.DataError, match=r"sample 1: 'boxes' is float32\(1, 4\) where the first item has float32\(0, 4\)"
    ) as raised:
        list(ps.Loader(ps.from_dataset(Detection()).batch(4)))
    assert "give the column a shape of (None, 4) with columns={…: penstock.Column(…)}" in str(raised.value)
    for shape, message in (
        ((4, None), r"the shape \(4, None\): only the first axis can vary"),
        ((None, None), r"the shape \(None, None\): only the first axis can vary"),
        ((None, 5), r"'boxes' of the first item is float32\(0, 4\), and float32\(\?, 5\) is asked for"),
        ((None,), r"is float32\(0, 4\), and float32\(\?\) is asked for"),
    ):
        with pytest.raises(ps.PlanError, match=message):
            ps.from_dataset(Detection(), columns={"boxes": ps.Column(feature="boxes", shape=shape)})


# What is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            pd.DataFrame({"x": [1, 2]}, index=pd.Index([5, 6], name="id")),
            r"the index 'id' is no column; .*reset_index\(\)",
        ),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "several columns are named 'x'"),
        (pd.DataFrame([[1, 2]]), r"a column is named 0, a int; name columns by text: frame\.columns = "),
        (pd.DataFrame(), "no columns"),
        (pd.DataFrame({"x": []}), "the columns have no rows"),
        (pd.DataFrame({"x": ["a", None]}), "'x' has 1 nulls; fill or drop"),
        (pd.DataFrame({"x": pd.Series(["a", float("nan")], dtype=object)}), "'x' has 1 nulls; fill or drop"),
        (pd.DataFrame({"x": pd.array([1, None], dtype="Int64")}), "'x' has 1 nulls; fill or drop"),
        (pd.DataFrame({"x": pd.Series([1, pd.NA], dtype=object)}), "'x' has 1 nulls; fill or drop"),
        (pd.DataFrame({"x": pd.to_datetime(["2024-01-01", None])}), r"'x' has 1 missing times \(NaT\)"),
        (pd.DataFrame({"x": pd.to_datetime(["2024-01-01", None]).tz_localize("UTC")}), "'x' has 1 nulls"),
        (pd.DataFrame({"x": pd.Categorical(["a", None])}), "'x' has 1 nulls"),
        (pl.DataFrame({"x": [1, None]}), "'x' has 1 nulls"),
        (pl.DataFrame({"x": []}), "no rows|null"),
        (pl.DataFrame({"x": [{"a": 1}]}), "'x' has Arrow type struct"),
        (pa.table([[1], [2]], names=["x", "x"]), "several columns are named 'x'"),
        ([], "an empty list; pass a dict of columns"),
        ([{"x": 1}, {"y": 1}], r"row 1 has the keys \['y'\], and row 0 has \['x'\]"),
        ([{"x": 1}, {}], r"row 1 has the keys \[\]"),
        ([{"x": 1}, 2], "from_arrays: list; pass a dict of columns"),
        (pd.Series([1, 2]), "from_arrays: Series; pass a dict of columns"),
        (np.zeros((2, 2)), "from_arrays: ndarray; pass a dict of columns"),
        ({"x": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]}, "'x' has 1 nulls"),
    ],
)
def test_what_is_refused_with_the_way_out(given: Any, message: str) -> None:
    with pytest.raises((ps.PlanError, ps.SourceError), match=message):
        ps.from_arrays(given)


def test_nan_is_a_number() -> None:
    found = through(pd.DataFrame({"x": np.where(np.arange(ROWS) == 3, np.nan, 1.0), "i": np.arange(ROWS)}))
    assert np.isnan(found["x"][3])


def test_frames_need_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "polars", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    assert through({"x": [[1], [2, 3]] * 4})["x"] == [[1], [2, 3]] * 4
