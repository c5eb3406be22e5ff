"""Parquet by writers of other languages (tests/golden/make_writers.py), column by column: the values that Polars reads, or an error that says why not."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from support.tables import rows_of

FOLDER = Path(__file__).parent.parent / "golden" / "writers"
FILES = sorted(FOLDER.glob("*.parquet"))
COLUMNS = [(path, name) for path in FILES for name in ps.read(path).spec]
ROWS = 40
#: What Polars gives as a value of another type, by the type that pyarrow sees.
SAME: dict[str, Any] = {
    "extension<arrow.uuid>": lambda value: str(UUID(bytes=value)),
    "extension<arrow.json>": lambda value: value.decode() if isinstance(value, bytes) else value,
    "binary": lambda value: value.encode() if isinstance(value, str) else value,  # Parquet's ENUM
    "time32[ms]": lambda value: value // 1_000_000,
    "time64[us]": lambda value: value // 1_000,
}


def wanted(path: Path, name: str) -> list[Any]:
    """The column by Polars; times as the numbers that they are stored as."""
    column, *fields = name.split(".")
    series = pl.read_parquet(path, columns=[column])[column]
    if series.dtype != pl.Categorical and not isinstance(series.dtype, (pl.Decimal, pl.Enum)):
        series = series.to_physical()
    same = SAME.get(str(pq.read_schema(path).field(column).type), lambda value: value)
    return [_plain(_field(row, fields), same) for row in series.to_list()]


def _field(row: Any, fields: list[str]) -> Any:
    for field in fields:
        row = None if row is None else [one[field] for one in row] if isinstance(row, list) else row[field]
    return row


def _plain(value: Any, same: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one, same) for one in value]
    return value if value is None else float(value) if isinstance(value, Decimal) else same(value)


def has_null(value: Any) -> bool:
    return value is None or (isinstance(value, list) and any(map(has_null, value)))


@pytest.mark.parametrize(("path", "name"), COLUMNS, ids=[f"{path.stem}-{name}" for path, name in COLUMNS])
def test_each_column_is_read_right_or_refused(path: Path, name: str) -> None:
    expected = wanted(path, name)
    assert len(expected) == ROWS
    if has_null(expected):
        with pytest.raises(ps.DataError, match=rf"{path.name}, row group 0, row \d+: column '{name}' .*null"):
            rows_of(ps.read(path, columns=[name]))
        return
    column = rows_of(ps.read(path, columns=[name]))[name]
    found = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    assert found == pytest.approx(expected, rel=1e-15) if isinstance(expected[0], float) else found == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nulls_get_the_value_that_is_asked_for(path: Path) -> None:
    half = ps.read(path, columns={"half": ps.Column(feature="half", default=-1.0)})
    expected = [-1.0 if value is None or np.isnan(value) else value for value in wanted(path, "half")]
    assert rows_of(half)["half"].tolist() == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_types_are_tried(path: Path) -> None:
    """A file that was written anew with fewer columns would test less."""
    assert len(ps.read(path).spec) >= (10 if path.stem == "fastparquet" else 22)
