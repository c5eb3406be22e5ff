"""Blocks of columns: every row once, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps


def test_every_row_comes_once(tmp_path: Path) -> None:
    for number in range(3):
        table = pa.table({"x": np.arange(1000) + 1000 * number, "t": [f"row {row}" for row in range(1000)]})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=300)
    blocks = ps.read(tmp_path).shuffle(seed=0).blocks(["x"])
    found = np.concatenate([block.columns["x"] for block in blocks])
    assert (blocks.rows, found.tolist()) == (3000, [*range(3000)])
    (first, *_) = ps.read(tmp_path).filter(ps.col("x") >= 1500).blocks(["t", "x"])
    assert first.columns["t"][0].as_py() == "row 500"
    assert first.place(0)[0].endswith("1.parquet, record 500")


def test_chosen_rows_have_their_own_digest() -> None:
    data = ps.from_arrays({"x": np.arange(100)})
    assert data.blocks(["x"]).digest == data.shuffle(seed=1).blocks(["x"]).digest
    assert data.blocks(["x"]).digest != data.take(50).blocks(["x"]).digest
    again = data.sample(30, weights=np.arange(100) + 1, replacement=True)
    found = np.concatenate([block.columns["x"] for block in again.blocks(["x"])])
    assert sorted(found) == sorted(again.head(30)["x"])


def test_what_is_refused() -> None:
    data = ps.from_arrays({"x": np.arange(100)})
    with pytest.raises(ps.PlanError, match="no column 'y'"):
        data.blocks(["y"])
    with pytest.raises(ps.PlanError, match=r"map\(…\) stands before it"):
        data.map(dict).blocks(["x"])


def test_parts_of_files_come_as_batches_have_them(tmp_path: Path) -> None:
    table = pa.table(
        {
            "row": np.arange(1000),
            "x": pa.array([None if row % 7 == 0 else row for row in range(1000)], pa.int32()),
            "t": pa.array([None if row % 5 == 0 else f"text {row % 3}" for row in range(1000)]),
            "l": pa.array([[row, row + 1][: row % 3] for row in range(1000)]),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=128, write_page_index=True)
    for rule in ("nan", "mask", "arrow"):
        data = ps.read(tmp_path / "rows.parquet", nulls=rule)
        wanted, names = data.head(1000), [*data.spec]
        for rows in (np.arange(1000), np.arange(0, 1000, 3), np.arange(130, 400)):
            chosen = data.filter(ps.col("row").is_in(rows.tolist()))
            blocks = list(chosen.blocks(names))
            for name in names:
                found = pa.concat_arrays([pa.array(one.columns[name], from_pandas=True) for one in blocks])
                assert found.equals(pa.array(wanted[name], from_pandas=True).take(pa.array(rows))), (rule, name)
    assert sum(len(block.ids) for block in data.take(300).blocks(["x"])) == 300
