"""The table of workload (tables): 20 columns of numbers and text, some values missing, and a target."""

from __future__ import annotations

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


def table(rows: int) -> pa.Table:
    """Rows by chance, always the same ones."""
    rng = np.random.default_rng(0)
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


def write(data: Data) -> None:
    """One Parquet file."""
    pq.write_table(table(BATCH["tables"]), data.place("tables", "table.parquet"), row_group_size=131_072)
