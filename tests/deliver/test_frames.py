"""Batches as frames: Arrow's, pandas' and Polars', with the values of NumPy's and, where they can, its memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock as ps
from penstock.deliver.arrow import record_batch_of
from penstock.deliver.pandas import data_frame_of

FRAMES = {"arrow": pa.RecordBatch, "pandas": pd.DataFrame, "polars": pl.DataFrame}


def plan(folder: Path) -> ps.Dataset:
    lines = [
        {"id": row, "x": row / 2, "ok": row % 3 == 0, "text": f"é{row}", "tags": [row] * (row % 3)} for row in range(40)
    ]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    images = ps.from_arrays({"image": np.arange(40 * 12, dtype=np.uint8).reshape(40, 2, 6)})
    return ps.zip([ps.read(folder / "t.jsonl"), images]).shuffle(seed=0).batch(8)


@pytest.mark.parametrize("structure", FRAMES)
def test_the_values_of_numpy(structure: Any, tmp_path: Path) -> None:
    with ps.Loader(plan(tmp_path)) as loader:
        wanted = [
            {
                name: np.array(column).tolist() if name != "tags" else column.to_pylist()
                for name, column in batch.items()
            }
            for batch in loader
        ]
    with ps.Loader(plan(tmp_path), structure=structure) as loader:
        kept = list(loader)
    assert len(kept) == len(wanted) == 5
    for frame, batch in zip(kept, wanted, strict=True):
        assert type(frame) is FRAMES[structure]
        for name, values in batch.items():
            column = frame.column(name) if structure == "arrow" else frame[name]
            if structure == "arrow" and name == "image":
                assert column.to_numpy_ndarray().tolist() == values
            else:
                found = column.to_pylist() if structure == "arrow" else column.to_list()
                assert [one.tolist() if hasattr(one, "tolist") else one for one in found] == values


def test_memory_is_shared() -> None:
    columns = {"x": np.arange(5, dtype=np.float32), "image": np.zeros((5, 2, 6), np.uint8)}
    batch = record_batch_of(columns)
    assert batch.column(0).buffers()[1].address == columns["x"].ctypes.data
    assert batch.column(1).storage.flatten().buffers()[1].address == columns["image"].ctypes.data
    assert np.shares_memory(data_frame_of(columns)["x"].to_numpy(), columns["x"])


def test_batch_at_and_states(tmp_path: Path) -> None:
    with ps.Loader(plan(tmp_path), structure="polars") as loader:
        third = list(loader)[2]
        assert loader.batch_at(0, 2).equals(third)


def test_what_is_no_frame() -> None:
    with pytest.raises(ps.PlanError, match=r"'x', bfloat16 of shape .*nothing that Arrow has"):
        record_batch_of({"x": np.ones(3, ml_dtypes.bfloat16)})
    torch_plan = ps.from_arrays({"x": np.arange(8)}).batch(4)
    for structure in FRAMES:
        with pytest.raises(ps.PlanError, match="made of NumPy's arrays"):
            next(iter(ps.Loader(torch_plan, to="torch", structure=structure)))  # type: ignore[call-overload]
    with pytest.raises(ps.PlanError, match="did you mean 'pandas'"):
        ps.Loader(torch_plan, structure="panda")  # type: ignore[arg-type]
