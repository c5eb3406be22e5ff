"""What is special about Flight SQL: no snapshot, a server that goes away, its types. The common cases are in test_sql.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from servers.flight_sql import FlightSql
from support import promises as contracts

ROWS = 5000
QUERY = "SELECT * FROM numbered"

NUMBERS = f"WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < {ROWS - 1})"
TABLE = (
    "DROP TABLE IF EXISTS numbered",
    "CREATE TABLE numbered (id INTEGER PRIMARY KEY, x REAL, word VARCHAR(99))",
    f"INSERT INTO numbered {NUMBERS} SELECT i, i / 8.0, 'row ' || i FROM numbers",
)


@pytest.fixture
def numbered(flight_sql: FlightSql) -> FlightSql:
    """The server with a table of several record batches."""
    flight_sql.run(*TABLE)
    return flight_sql


@pytest.mark.parametrize("key", ["id", "word", None])
def test_every_row_comes_once_out_of_several_record_batches(
    numbered: FlightSql, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.inputs.sql.source._BLOCK_ROWS", 700)
    plan = ps.read_sql(numbered.uri, QUERY, partition=key).shuffle(seed=1).batch(64, lanes=4)
    seen: dict[int, tuple[float, str]] = {}
    for rank in range(2):
        with ps.Loader(plan, to="numpy", rank=rank, world_size=2) as loader:
            for batch in loader:
                for number, x, word in zip(batch["id"].tolist(), batch["x"], batch["word"].to_pylist(), strict=True):
                    assert number not in seen
                    seen[number] = (float(x), word)
    assert len(seen) == ROWS
    assert all(value == (number / 8, f"row {number}") for number, value in seen.items())


def test_rows_that_go_in_mid_run_are_missed(numbered: FlightSql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.inputs.sql.source._BLOCK_ROWS", 700)
    source = ps.read_sql(numbered.uri, QUERY, partition="id").source
    assert source.load(700, 700)["id"].tolist() == list(range(700, 1400))
    numbered.run("DELETE FROM numbered WHERE id = 800")
    with pytest.raises(
        ps.DataError,
        match=r"row 696: 782 rows came where there were 783 when the query was opened; the data was changed",
    ):
        source.load(700, 700)
    assert source.load(1400, 700)["id"].tolist() == list(range(1400, 2100)), "other ranges are as they were"
    numbered.run("INSERT INTO numbered VALUES (800, 7.0, 'other')")
    assert source.load(800, 1)["x"].tolist() == [7.0], "values are not held by a snapshot"


def test_a_server_that_goes_and_comes_back(numbered: FlightSql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.inputs.sql.server._PAUSES_S", (0.0, 0.01))
    source = ps.read_sql(numbered.uri, QUERY, partition="id").source
    assert source.load(5, 2)["id"].tolist() == [5, 6]
    numbered.stop()
    try:
        with pytest.raises(ps.DataError, match=r"127\.0\.0\.1.*2 tries in 0 s; start the server again, then resume"):
            source.load(5, 2)
        with pytest.raises(ps.SourceError, match=r"grpc://127\.0\.0\.1.*check address, name and password"):
            ps.read_sql(numbered.uri, QUERY)
    finally:
        numbered.start()
    with pytest.raises(ps.DataError, match=r"the connection was lost, and since then .*no such table: numbered"):
        source.load(5, 2)
    numbered.run(*TABLE)
    assert source.load(5, 2)["id"].tolist() == [5, 6]


def test_types_and_nulls(numbered: FlightSql) -> None:
    numbered.run(
        "DROP TABLE IF EXISTS kinds",
        "CREATE TABLE kinds (id INTEGER PRIMARY KEY, small MEDIUMINT, half FLOAT, data BLOB, word TEXT)",
        "INSERT INTO kinds VALUES (1, 2, 0.5, x'00ff', 'é'), (2, NULL, NULL, x'', NULL)",
    )
    query = "SELECT * FROM kinds"
    with pytest.raises(ps.DataError, match=r"row 1: column 'small' is null; give it a value with columns="):
        rows(ps.read_sql(numbered.uri, query, partition="id"))
    columns: dict[str, Any] = {
        "small": ps.Column(feature="small", default=-1),
        "half": ps.Column(feature="half", default=0.0),
        "data": "data",
        "word": ps.Column(feature="word", default="none"),
    }
    found = rows(ps.read_sql(numbered.uri, query, partition="id", columns=columns))
    assert found["small"].dtype == np.int32
    assert found["small"].tolist() == [2, -1]
    assert found["half"].dtype == np.float32
    assert found["half"].tolist() == [0.5, 0.0]
    assert found["data"].to_pylist() == [b"\0\xff", b""]
    assert found["word"].to_pylist() == ["é", "none"]


def test_addresses(numbered: FlightSql) -> None:
    address = numbered.uri.removeprefix("grpc://")
    assert len(ps.read_sql(f"grpc+tcp://{address}", QUERY, partition="id")) == ROWS
    with pytest.raises(ps.PlanError, match="what follows host and port is not understood for Flight SQL"):
        ps.read_sql(f"{numbered.uri}/base?token=hidden7", QUERY)
    with pytest.raises(ps.PenstockError) as caught:  # the server knows no users
        ps.read_sql(f"grpc://me:hidden7@{address}", QUERY)
    assert "Flight" in str(caught.value)
    assert "hidden7" not in str(caught.value)


def rows(dataset: ps.Dataset) -> dict[str, Any]:
    with ps.Loader(dataset.batch(16), to="numpy") as loader:
        return contracts.join([contracts.keep(batch) for batch in loader])
