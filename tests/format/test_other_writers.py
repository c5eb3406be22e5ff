"""Tables that other libraries than pyarrow write: Polars, and arrow-rs by way of arro3. Values are compared with their own reading."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arro3.io
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from support.cases import MemoryStorage
from support.tables import rows_of

ROWS = 40
NEW_YEAR = dt.datetime(2024, 1, 1)  # noqa: DTZ001
FRAME = pl.DataFrame(
    {
        "id": range(ROWS),
        "text": [f"a longer text than a view holds inline {number}" if number % 3 else "s" for number in range(ROWS)],
        "data": [b"\xff" * (number % 20) for number in range(ROWS)],
        "words": [[f"a word longer than twelve bytes {n}" for n in range(number % 4)] for number in range(ROWS)],
        "numbers": [list(range(number % 4)) for number in range(ROWS)],
        "pair": pl.Series([[number, -number] for number in range(ROWS)], dtype=pl.Array(pl.Int32, 2)),
        "box": [{"left": number, "name": f"box {number}"} for number in range(ROWS)],
        "boxes": [[{"left": n, "label": f"label {n}"} for n in range(number % 3)] for number in range(ROWS)],
        "category": pl.Series(["abc"[number % 3] for number in range(ROWS)], dtype=pl.Categorical),
        "enum": pl.Series(["xyz"[number % 3] for number in range(ROWS)], dtype=pl.Enum(["x", "y", "z"])),
        "when": [NEW_YEAR + dt.timedelta(hours=number) for number in range(ROWS)],
        "days": [[NEW_YEAR.date()] * (number % 3) for number in range(ROWS)],
        "flag": [number % 2 == 0 for number in range(ROWS)],
        "large": pl.Series([2**64 - 1 - number for number in range(ROWS)], dtype=pl.UInt64),
    }
)


def wanted(frame: pl.DataFrame) -> dict[str, list[Any]]:
    """The rows as Polars gives them; times as the numbers that they are stored as, structs taken apart."""
    return {
        **{name: frame[name].to_list() for name in ("id", "text", "data", "words", "numbers", "flag", "large")},
        **{name: frame[name].cast(pl.String).to_list() for name in ("category", "enum")},
        "pair": frame["pair"].to_list(),
        "box.left": frame["box"].struct.field("left").to_list(),
        "box.name": frame["box"].struct.field("name").to_list(),
        "boxes.left": [[box["left"] for box in boxes] for boxes in frame["boxes"].to_list()],
        "boxes.label": [[box["label"] for box in boxes] for boxes in frame["boxes"].to_list()],
        "when": frame["when"].to_physical().to_list(),
        "days": frame["days"].cast(pl.List(pl.Int32)).to_list(),
    }


def check(batch: dict[str, Any], frame: pl.DataFrame) -> None:
    expected = wanted(frame)
    assert batch.keys() == expected.keys()
    for name, values in expected.items():
        column = batch[name]
        assert (column.to_pylist() if isinstance(column, pa.Array) else column.tolist()) == values, name


LEVELS = {"oldest": pl.CompatLevel.oldest(), "newest": pl.CompatLevel.newest()}
POLARS = pytest.mark.parametrize(
    ("stream", "packing", "level"),
    [
        (stream, packing, level)
        for stream in (False, True)
        for packing in ("uncompressed", "lz4", "zstd")
        for level in LEVELS
    ],
)


def write_polars(path: Path, frame: pl.DataFrame, *, stream: bool, packing: str, level: str) -> Path:
    write: Callable[..., Any] = frame.write_ipc_stream if stream else frame.write_ipc
    write(path, compression=packing, compat_level=LEVELS[level])
    return path


@POLARS
def test_polars(tmp_path: Path, stream: bool, packing: str, level: str) -> None:
    path = write_polars(tmp_path / "x.arrow", FRAME, stream=stream, packing=packing, level=level)
    read_again = (pl.read_ipc_stream if stream else pl.read_ipc)(path)
    assert read_again.equals(FRAME)
    dataset = ps.read(path)
    check(rows_of(dataset), read_again)
    for batch in ps.Loader(dataset.shuffle(seed=1, block_rows=4).batch(16)):
        check(batch, FRAME[batch["id"].tolist()])


@POLARS
def test_polars_several_batches(tmp_path: Path, stream: bool, packing: str, level: str) -> None:
    """Frames of several chunks; words of a category differ from one to the next."""
    frame = pl.concat([FRAME[:7], FRAME[7:9], FRAME[9:]], rechunk=False)
    path = write_polars(tmp_path / "x.arrow", frame, stream=stream, packing=packing, level=level)
    check(rows_of(ps.read(path)), frame)
    storage = MemoryStorage({"memory://x.arrow": path.read_bytes()})
    check(rows_of(ps.read("memory://", storage=storage)), frame)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FRAME.columns)
def test_polars_columns_alone(tmp_path: Path, level: str, name: str) -> None:
    path = write_polars(tmp_path / "x.arrow", FRAME, stream=False, packing="zstd", level=level)
    alone = write_polars(tmp_path / "y.arrow", FRAME.select(name), stream=False, packing="lz4", level=level)
    expected = {key: values for key, values in wanted(FRAME).items() if key.split(".")[0] == name}
    for dataset in (ps.read(path, columns=list(expected)), ps.read(alone)):
        batch = rows_of(dataset)
        assert {key: column.tolist() for key, column in batch.items()} == expected


def test_views_that_lie_in_a_file_are_not_kept_for_every_batch(tmp_path: Path) -> None:
    """What must be made of a mapped batch is bounded as decoded batches are; plain numbers stay where they lie."""
    frame = FRAME.select("id", "text")
    path = write_polars(tmp_path / "x.arrow", frame, stream=False, packing="uncompressed", level="newest")
    assert not ps.read(path).source.batches.is_plain(0)
    assert ps.read(path, columns=["id"]).source.batches.is_plain(0)
    old = write_polars(tmp_path / "y.arrow", frame, stream=False, packing="uncompressed", level="oldest")
    assert ps.read(old).source.batches.is_plain(0)


@pytest.mark.parametrize("cut", [1, 10, 40, 400, 2_000])
def test_polars_cut(tmp_path: Path, cut: int) -> None:
    path = write_polars(tmp_path / "x.arrow", FRAME, stream=False, packing="lz4", level="newest")
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ps.DataError, match=r"x\.arrow: .*write it again"):
        ps.read(path)


RUST = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "text": pa.array(FRAME["text"].to_list(), pa.string_view()),
        "data": pa.array(FRAME["data"].to_list(), pa.binary_view()),
        "words": pa.array(FRAME["words"].to_list(), pa.list_(pa.string_view())),
        "word": pa.array(FRAME["category"].to_list()).dictionary_encode(),
        "pair": pa.array(FRAME["pair"].to_list(), pa.list_(pa.int32(), 2)),
        "box": pa.array(FRAME["box"].to_list(), pa.struct([("left", pa.int64()), ("name", pa.string_view())])),
        "days": pa.array(FRAME["days"].to_list(), pa.list_(pa.date32())),
    }
)


def check_rust(batch: dict[str, Any], read_again: pa.Table) -> None:
    expected = wanted(FRAME)
    for name, values in (("word", expected["category"]), *expected.items()):
        if name in batch:
            column = batch[name]
            assert (column.to_pylist() if isinstance(column, pa.Array) else column.tolist()) == values, name
    assert set(batch) == {"id", "text", "data", "words", "word", "pair", "box.left", "box.name", "days"}
    for name in ("text", "data", "words", "word"):
        assert batch[name].to_pylist() == read_again[name].to_pylist()


@pytest.mark.parametrize("packing", [None, "lz4", "zstd"])
@pytest.mark.parametrize("stream", [False, True])
def test_arrow_rs(tmp_path: Path, stream: bool, packing: str | None) -> None:
    path = tmp_path / "x.arrow"
    batches = RUST.to_batches(max_chunksize=16)
    reader = pa.RecordBatchReader.from_batches(RUST.schema, batches)
    (arro3.io.write_ipc_stream if stream else arro3.io.write_ipc)(reader, path, compression=packing)
    read_again = pa.table((arro3.io.read_ipc_stream if stream else arro3.io.read_ipc)(path).read_all())
    dataset = ps.read(path)
    check_rust(rows_of(dataset), read_again)
    storage = MemoryStorage({"memory://x.arrow": path.read_bytes()})
    check_rust(rows_of(ps.read("memory://", storage=storage)), read_again)


def test_arrow_rs_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    arro3.io.write_parquet(RUST, path)
    read_again = pa.table(arro3.io.read_parquet(path).read_all())
    check_rust(rows_of(ps.read(path)), read_again)
    kept = rows_of(ps.read(path, filters=[("text", "==", "s"), ("id", ">", 9)], columns=["id", "words"]))
    assert kept["id"].tolist() == [number for number in range(10, ROWS) if number % 3 == 0]


@pytest.mark.parametrize("packing", ["uncompressed", "zstd"])
def test_polars_parquet(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "x.parquet"
    FRAME.write_parquet(path, compression=packing, row_group_size=16)
    check(rows_of(ps.read(path)), pl.read_parquet(path))
    kept = rows_of(ps.read(path, filters=[("box.left", ">", 30), ("category", "==", "a")]))
    check(kept, FRAME.filter((pl.col("id") > 30) & (pl.col("category").cast(pl.String) == "a")))


def test_hive_folders_of_views(tmp_path: Path) -> None:
    for part, first in (("a", 0), ("b", 20)):
        folder = tmp_path / f"part={part}"
        folder.mkdir()
        arro3.io.write_parquet(RUST.select(["id", "text"]).slice(first, 20), folder / "x.parquet")
    batch = rows_of(ps.read(tmp_path, filters=[("part", "==", "b")]))
    assert batch["part"].to_pylist() == ["b"] * 20
    assert batch["text"].to_pylist() == RUST["text"].to_pylist()[20:]


def test_files_of_several_writers_are_one_dataset(tmp_path: Path) -> None:
    """Text in three layouts: a batch holds all of them."""
    frame = FRAME.select("id", "text", "words")
    frame[:10].write_parquet(tmp_path / "0.parquet")
    pq.write_table(pa.table(frame[10:20]).cast(_plain(frame)), tmp_path / "1.parquet")
    arro3.io.write_parquet(RUST.select(["id", "text", "words"]).slice(20), tmp_path / "2.parquet")
    batch = rows_of(ps.read(tmp_path))
    assert batch["id"].tolist() == list(range(ROWS))
    assert batch["text"].to_pylist() == frame["text"].to_list()
    assert batch["words"].to_pylist() == frame["words"].to_list()


def _plain(frame: pl.DataFrame) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("text", pa.string()), ("words", pa.list_(pa.string()))])


def test_views_in_memory() -> None:
    batch = rows_of(ps.from_arrays({"text": RUST["text"], "data": RUST["data"].combine_chunks(), "n": np.arange(ROWS)}))
    assert batch["text"].to_pylist() == FRAME["text"].to_list()
    assert batch["data"].to_pylist() == FRAME["data"].to_list()
