"""The table of workload (tables): 20 columns of numbers and text, some values missing, and a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import BATCH

from work import Data

FLOATS = [f"f{number}" for number in range(8)]
INTEGERS = [f"i{number}" for number in range(4)]
SKEWED = ["s0", "s1"]
#: Columns of text, and how many categories each has.
WIDTHS = {"c0": 4, "c1": 8, "c2": 12, "c3": 24, "k0": 1_000, "k1": 10_000}
CATEGORIES, CODES = ["c0", "c1", "c2", "c3"], ["k0", "k1"]


def table(rows: int, seed: int = 0) -> pa.Table:
    """Rows by chance, always the same ones."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for number, name in enumerate(FLOATS):
        columns[name] = pa.array(rng.normal(number, 1 + number, rows), mask=rng.random(rows) < 0.05)
    for name in INTEGERS:
        columns[name] = rng.integers(0, 10_000, rows, dtype=np.int32)
    for name in SKEWED:
        columns[name] = rng.lognormal(1, 1, rows)
    for name, width in WIDTHS.items():
        texts = pa.array([f"{name} category {number}" for number in range(width)])
        columns[name] = texts.take(pa.array(rng.integers(0, width, rows)))
    columns["y"] = rng.integers(0, 2, rows)
    return pa.table(columns)


def place(data: Data) -> Path:
    """Where the file lies."""
    return data.place("tables", "table.parquet")


def write(data: Data) -> None:
    """One Parquet file, for all workloads; a million rows after the other, since more of them fill the memory."""
    if place(data).exists():
        return
    made = place(data).with_suffix(".new")
    with pq.ParquetWriter(made, table(0).schema) as writer:
        for first in range(0, BATCH["tables-recipe"], 1_000_000):
            rows = table(min(1_000_000, BATCH["tables-recipe"] - first), seed=first)
            writer.write_table(rows, row_group_size=131_072)
    made.replace(place(data))


def one_row(data: Data) -> dict[str, Any]:
    """The first row of the file."""
    (row,) = next(pq.ParquetFile(place(data)).iter_batches(1)).to_pylist()
    return {name: value for name, value in row.items() if name != "y"}
