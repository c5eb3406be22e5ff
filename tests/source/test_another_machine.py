"""A dataset that comes from another machine, where copies of its files have other times and inodes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import penstock as ps
from penstock.core.files.shards import from_another_machine

ROWS = np.arange(1000)
TABLE = pa.table({"x": ROWS})
WRITERS: dict[str, Callable[[Path], object]] = {
    "npy": lambda path: np.save(path, ROWS),
    "parquet": lambda path: pa.parquet.write_table(TABLE, path),
    "arrow": lambda path: pa.feather.write_feather(TABLE, path, compression="uncompressed"),
    "csv": lambda path: pa.csv.write_csv(TABLE, path),
}


def rows(data: ps.Dataset) -> list[int]:
    with ps.Loader(data.batch(100)) as loader:
        return [row for batch in loader for column in batch.values() for row in column.tolist()]


@pytest.mark.parametrize("format_name", WRITERS)
def test_copies_of_files_have_other_times(tmp_path: Path, format_name: str) -> None:
    path = tmp_path / f"rows.{format_name}"
    WRITERS[format_name](path)
    sent = pickle.dumps(ps.read(path))
    os.utime(path, (1e9, 1e9))
    with pytest.raises(ps.DataError, match="since it was"):
        rows(pickle.loads(sent))
    with from_another_machine():
        came = pickle.loads(sent)
    assert rows(came) == ROWS.tolist()
    os.truncate(path, path.stat().st_size - 8)
    with from_another_machine():
        came = pickle.loads(sent)
    with pytest.raises(ps.DataError):
        rows(came)
