"""Writes tests/golden/parquet/<writer>.parquet with Polars, and with arro3-io (the parquet crate of arrow-rs): python tests/golden/make_parquet.py.

Both list the pages in a page index without being asked to; the latter's texts are views in Arrow. Needs polars, arro3-core and arro3-io.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import arro3.core
import arro3.io
import polars as pl

ROOT = Path(__file__).parent / "parquet"
ROWS = 400


def table() -> pl.DataFrame:
    """One row group of several pages; all values follow from the row."""
    rows = range(ROWS)
    return pl.DataFrame(
        {
            "id": rows,
            "name": [f"name {row // 7:03}" for row in rows],
            "half": [row / 2 if row % 9 else None for row in rows],
            "list": [list(range(row % 4)) for row in rows],
            "box": [{"left": row, "text": "y" * (row % 5)} for row in rows],
            "time": [datetime(2024, 1, 1) + timedelta(hours=row) for row in rows],  # noqa: DTZ001
        }
    )


if __name__ == "__main__":
    ROOT.mkdir(exist_ok=True)
    table().write_parquet(ROOT / "polars.parquet", data_page_size=500, row_group_size=ROWS)
    rust = arro3.core.Table(table())
    pages = {"data_page_row_count_limit": 50, "write_batch_size": 10}
    arro3.io.write_parquet(rust, str(ROOT / "arrow-rs.parquet"), **pages, compression="snappy")
