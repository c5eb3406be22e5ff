"""Parquet files in folders that hold a column's value, as pyarrow writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError
from penstock.format.parquet.files import ParquetFiles
from support.tables import rows_of

ROWS = pa.table(
    {
        "id": list(range(40)),
        "year": [2020 + number % 3 for number in range(40)],
        "place": [["a/b", "ö=1", "c d"][number // 14] for number in range(40)],
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pads.write_dataset(
        ROWS, tmp_path / "by", format="parquet", partitioning=["year", "place"], partitioning_flavor="hive"
    )
    return tmp_path / "by"


def same(found: dict[str, Any], wanted: pa.Table) -> None:
    """Whether a batch has the rows of a table, in whatever order."""
    rows = zip(found["id"].tolist(), found["year"].tolist(), found["place"].to_pylist(), strict=True)
    assert sorted(rows) == sorted(zip(*(wanted[name].to_pylist() for name in ("id", "year", "place")), strict=True))


def test_folders_are_columns(folder: Path) -> None:
    dataset = ps.read(folder)
    assert {name: str(field) for name, field in dataset.source.spec.items()} == {
        "id": "int64",
        "year": "int64",
        "place": "string",
    }
    same(rows_of(dataset), ROWS)
    same(rows_of(ps.read(str(folder / "**" / "*.parquet"))), ROWS)


@pytest.mark.parametrize(
    "filters",
    [
        [("year", "==", 2021)],
        [("year", ">", 2020), ("id", "<", 20)],
        [[("place", "==", "a/b")], [("year", "in", [2022]), ("id", ">=", 30)]],
        [[("place", "==", "a/b")], [("id", "==", 39)]],
        (pc.field("year") == 2021) & (pc.field("id") > 5),
        [("year", "==", 2020), ("place", "==", "c d"), ("id", ">", 38)],
    ],
)
def test_filters_of_folders_are_exact(folder: Path, filters: Any) -> None:
    same(rows_of(ps.read(folder, filters=filters)), ROWS.filter(pq.filters_to_expression(filters)))


def test_files_in_other_folders_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    table = ParquetFiles.table

    def noted(files: ParquetFiles, shard: int, *rest: Any) -> pa.Table:
        read.append(files.shards.path(shard))
        return table(files, shard, *rest)

    monkeypatch.setattr(ParquetFiles, "table", noted)
    found = rows_of(ps.read(folder, columns=["id"], filters=[("year", "==", 2021), ("id", ">=", 0)]))
    assert sorted(found["id"].tolist()) == list(range(1, 40, 3))
    assert read
    assert all("/year=2021/" in path for path in read)


def test_the_folder_of_nulls(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "part": ["007", None, "x"]})
    pq.write_to_dataset(table, tmp_path / "by", partition_cols=["part"])
    with pytest.raises(DataError, match="part"):
        rows_of(ps.read(tmp_path / "by"))
    found = rows_of(ps.read(tmp_path / "by", columns={"id": "id", "part": ps.Column(feature="part", default="none")}))
    assert dict(zip(found["id"].tolist(), found["part"].to_pylist(), strict=True)) == {1: "007", 2: "none", 3: "x"}


def test_what_the_files_hold_themselves_counts(tmp_path: Path) -> None:
    (tmp_path / "id=9").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "id=9" / "0.parquet")
    assert rows_of(ps.read(tmp_path))["id"].tolist() == [1, 2]
    with pytest.raises(PlanError, match="yeer"):
        ps.read(tmp_path, filters=[("yeer", "==", 1)])


def test_folders_of_different_columns(folder: Path) -> None:
    (folder / "month=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "month=1" / "0.parquet")
    with pytest.raises(
        DataError, match=r"month=1.*columns \['month'\].*in those of \['year', 'place'\]|year=.*\['month'\]"
    ):
        ps.read(folder)
