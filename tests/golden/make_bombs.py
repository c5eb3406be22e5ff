"""Writes tests/golden/bombs: files of a few hundred bytes whose making takes gigabytes: python tests/golden/make_bombs.py."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent / "bombs"
NULLS = 200_000_000


def main() -> None:
    """One row: a list of nulls."""
    FOLDER.mkdir(exist_ok=True)
    lists = pa.ListArray.from_arrays(pa.array([0, NULLS], pa.int32()), pa.nulls(NULLS, pa.int64()))
    pq.write_table(pa.table({"x": lists}), FOLDER / "list-of-nulls.parquet")


if __name__ == "__main__":
    main()
