"""SQL queries on real databases: a PostgreSQL server, SQLite and DuckDB files."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.inputs.sql.dialect import DIALECTS, DatabaseUri, Lost, SqlDialect, quoted
from penstock.inputs.sql.key_ranges import Query, find_ranges
from penstock.inputs.sql.server import AnswerMode, Server
from servers.postgres import PASSWORD, QUOTED_PASSWORD, Postgres, find_binaries
from support import promises as contracts

ROWS = 61


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed; scripts/test_servers.sh does it")
    server = Postgres(binaries)
    yield server
    server.remove()


def run_postgres(server: Postgres, *statements: str) -> None:
    """Runs statements; a lock that a source of an earlier test still holds fails the test instead of hanging it."""
    with closing(adbc_driver_postgresql.dbapi.connect(server.uri, autocommit=True)) as connection:
        for statement in ("SET lock_timeout = '20s'", *statements):
            with connection.cursor() as cursor:
                cursor.execute(statement)


def run_sqlite(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def run_duckdb(path: Path, *statements: str) -> None:
    with closing(duckdb.connect(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)


NUMBERS = """WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < 60)"""

#: Ends all other connections.
KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)

#: The keys run 7, 10, 13, …; every value tells its row's place.
TABLE = (
    "DROP TABLE IF EXISTS samples",
    "CREATE TABLE samples (key BIGINT PRIMARY KEY, id BIGINT, x DOUBLE PRECISION, word VARCHAR(99), half INTEGER)",
    f"INSERT INTO samples {NUMBERS} SELECT 7 + 3 * i, i, i / 4.0, 'it''s \\ ' || (1000 + i), i / 2 FROM numbers",
)


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgresql", marks=pytest.mark.servers)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the table `samples`."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        run_postgres(server, KILL, *TABLE)
        return str(server.uri)
    path = tmp_path / f"data.{request.param}"
    {"sqlite": run_sqlite, "duckdb": run_duckdb}[request.param](path, *TABLE)
    return f"{request.param}:///{path}"


def change(uri: str, request: pytest.FixtureRequest, *statements: str) -> None:
    if uri.startswith("postgresql"):
        run_postgres(request.getfixturevalue("postgres"), *statements)
    else:
        path = Path(DatabaseUri(uri).path)
        (run_sqlite if uri.startswith("sqlite") else run_duckdb)(path, *statements)


def natural(dataset: ps.Dataset, **batch: Any) -> dict[str, Any]:
    with ps.Loader(dataset.batch(16, **batch), to="numpy") as loader:
        return contracts.join([contracts.keep(batch) for batch in loader])


@pytest.mark.parametrize("key", ["key", "id", "word", None])
def test_rows_come_in_the_order_of_the_key(uri: str, key: str | None) -> None:
    found = natural(ps.read_sql(uri, "SELECT * FROM samples ORDER BY key; ", partition=key))
    assert list(found) == ["key", "id", "x", "word", "half"]
    assert found["id"].tolist() == list(range(ROWS))
    assert found["x"].tolist() == [number / 4 for number in range(ROWS)]
    assert found["word"].to_pylist() == [f"it's \\ {1000 + number}" for number in range(ROWS)]


@pytest.mark.slow
def test_promises(uri: str) -> None:
    dataset = ps.read_sql(uri, "SELECT id, word FROM samples", partition="id", connections=2).shuffle(
        seed=1, block_rows=7
    )
    contracts.resume_is_exact(dataset.batch(16, pad=True), epochs=1)
    contracts.ranks_share_every_epoch(dataset.batch(16, lanes=2), "id", epochs=1)


def test_any_run_of_rows_is_one_query(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.inputs.sql.source._BLOCK_ROWS", 40)  # a key every 5 rows
    for key, ties in (("word", False), ("half", True)):
        source = ps.read_sql(uri, "SELECT * FROM samples", partition=key, ties=ties).source
        assert len(source.ranges.keys) > 10
        for first in (0, 1, 4, 5, 29, 30, 31, 59, 60):
            for rows in {1, 5, 6, ROWS - first} & set(range(ROWS - first + 1)):
                assert source.load(first, rows)["id"].tolist() == list(range(first, first + rows))


def test_only_the_asked_columns_leave_the_server(uri: str) -> None:
    columns = {"number": ps.Column(feature="id", dtype="float32"), "word": "word"}
    dataset = ps.read_sql(uri, "SELECT * FROM samples", partition="key", columns=columns)
    found = natural(dataset)
    assert list(found) == ["number", "word"]
    assert found["number"].dtype == np.float32
    assert dataset.source.schema.names == ["id", "word"]
    with pytest.raises(ps.PlanError, match="no column 'wurd'; there are key, id, x, word, half; did you mean 'word'"):
        ps.read_sql(uri, "SELECT * FROM samples", partition="key", columns=["wurd"])


def test_names_are_quoted(uri: str, request: pytest.FixtureRequest) -> None:
    name = 'odd "name"; DROP TABLE samples; --'
    change(
        uri, request, "DROP TABLE IF EXISTS odd",
        f"CREATE TABLE odd ({quoted(name)} VARCHAR(99), {quoted('select')} INTEGER)",
        "INSERT INTO odd VALUES ('\\', 1), ('''', 0), ('é; --', 2)",
    )  # fmt: skip
    found = natural(ps.read_sql(uri, "SELECT * FROM odd -- all of it", partition=name))
    assert sorted(found["select"].tolist()) == [0, 1, 2]
    assert set(found[name].to_pylist()) == {"\\", "'", "é; --"}


# Keys that cannot be


def test_keys_that_repeat(uri: str) -> None:
    with pytest.raises(ps.PlanError, match=r"30 of 61 rows repeat a value of 'half'.*ties=True"):
        ps.read_sql(uri, "SELECT * FROM samples", partition="half")
    digests = set()
    for order in ("key", "key DESC"):
        dataset = ps.read_sql(uri, f"SELECT half, id, word FROM samples ORDER BY {order}", partition="half", ties=True)
        assert natural(dataset)["id"].tolist() == list(range(ROWS))
        digests.add(dataset.source.ranges.digest)
    assert len(digests) == 1


def test_keys_that_are_null(uri: str, request: pytest.FixtureRequest) -> None:
    change(uri, request, "UPDATE samples SET id = NULL WHERE id < 4")
    with pytest.raises(ps.PlanError, match=r'4 of 61 rows have no \'id\'.*WHERE "id" IS NOT NULL'):
        ps.read_sql(uri, "SELECT * FROM samples", partition="id")


def test_keys_of_other_types(uri: str) -> None:
    with pytest.raises(ps.PlanError, match=r"partition='x' is (double|decimal.*); partition by a column of integers"):
        ps.read_sql(uri, "SELECT * FROM samples", partition="x")
    with pytest.raises(ps.PlanError, match=r"partition: no column 'kee'; there are key, id, .*; did you mean 'key'"):
        ps.read_sql(uri, "SELECT * FROM samples", partition="kee")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DATE"])
@pytest.mark.parametrize("uri", ["duckdb", "postgresql"], indirect=True)
def test_keys_of_time(uri: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.inputs.sql.source._BLOCK_ROWS", 16)
    query = f"SELECT CAST(TIMESTAMP '1969-12-01 00:00:00.000001' + id * INTERVAL '25 hours' AS {kind}) AS at, id FROM samples"
    found = natural(ps.read_sql(uri, query, partition="at").shuffle(seed=1, block_rows=5))
    assert sorted(found["id"].tolist()) == list(range(ROWS))
    assert found["at"].dtype == np.int64


# Data that changes


def test_one_snapshot_is_read(postgres: Postgres) -> None:
    run_postgres(postgres, KILL, *TABLE)
    dataset = ps.read_sql(postgres.uri, "SELECT * FROM samples", partition="key").shuffle(seed=1, block_rows=4).batch(8)
    with ps.Loader(dataset, prefetch=1) as loader:
        passing = iter(loader)
        found = [next(passing)["id"].tolist()]
        run_postgres(postgres, "DELETE FROM samples WHERE id % 2 = 0", "UPDATE samples SET id = -id")
        found += [batch["id"].tolist() for batch in passing]
        assert sorted(number for batch in found for number in batch) == list(range(ROWS))
        state = loader.state_dict()
    other = ps.read_sql(postgres.uri, "SELECT * FROM samples", partition="key").shuffle(seed=1, block_rows=4).batch(8)
    with pytest.raises(ps.StateError, match="the state belongs to other data: 61 samples"):
        ps.Loader(other).load_state_dict(state)


def test_a_file_that_is_written_to_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite"
    run_sqlite(path, *TABLE)
    dataset = ps.read_sql(f"sqlite:///{path}", "SELECT * FROM samples", partition="key")
    run_sqlite(path, "UPDATE samples SET x = 7")
    with pytest.raises(ps.DataError, match=r"data\.sqlite: written to since it was opened; read a copy"):
        natural(dataset)


def test_a_state_knows_the_data_again(uri: str, request: pytest.FixtureRequest) -> None:
    def digest(**options: Any) -> str:
        return ps.read_sql(uri, "SELECT * FROM samples", partition="key", **options).source.manifest.digest

    assert digest() == digest()
    before, checked = digest(), digest(checksum=True)
    assert before != checked == digest(checksum=True)
    assert digest(columns=["id"]) != before
    change(uri, request, "UPDATE samples SET x = 7 WHERE id = 30")
    assert digest() == before, "values are no part of the fingerprint"
    assert digest(checksum=True) != checked
    change(uri, request, "DELETE FROM samples WHERE id = 30")
    assert digest() != before


# Servers that fail


def test_killed_connections_come_back(postgres: Postgres) -> None:
    run_postgres(postgres, KILL, *TABLE)
    source = ps.read_sql(postgres.uri, "SELECT * FROM samples", partition="key").source
    assert source.load(3, 2)["id"].tolist() == [3, 4]
    run_postgres(postgres, KILL)
    assert source.load(5, 2)["id"].tolist() == [5, 6]
    run_postgres(postgres, "DELETE FROM samples WHERE id = 30")
    assert source.load(29, 3)["id"].tolist() == [29, 30, 31], "the second snapshot"
    run_postgres(postgres, KILL)
    for _ in range(2):
        with pytest.raises(
            ps.DataError, match=r"the connection was lost, and since then the data was changed; open it again"
        ):
            source.load(5, 2)


@dataclass
class Watched:
    """A connection that tells what is done with it, and may wait inside a query or be lost."""

    entered: threading.Event
    waits: threading.Event
    said: list[str] = field(default_factory=list)
    lost: bool = False

    def fetch(self, sql: str) -> pa.Table:
        if self.lost:
            raise Lost("gone")
        if sql == "wait":
            self.entered.set()
            self.waits.wait(60)
        self.said.append(sql)
        return pa.table({"a": [1]})

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        yield from self.fetch(sql).to_batches()

    def close(self) -> None:
        self.said.append("close")


def test_a_connection_in_use_is_closed_by_its_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Watched] = []
    entered, goes_on = threading.Event(), threading.Event()

    def connect(_: DatabaseUri) -> Watched:
        made.append(Watched(entered, goes_on))
        return made[-1]

    monkeypatch.setitem(DIALECTS, "watched", SqlDialect(name="Watched", connect=connect))
    server = Server(DatabaseUri("watched://here"), 2)
    answers: list[pa.Table] = []
    slow = threading.Thread(target=lambda: answers.append(server.fetch("wait")))
    slow.start()
    assert entered.wait(60)
    keeper, used = made
    keeper.lost = True
    server.fetch("other")
    assert keeper.said[-1] == "close"
    assert used.said == [], "another thread is inside"
    goes_on.set()
    slow.join()
    assert len(answers) == 1
    assert used.said == ["wait", "close"], "its snapshot is not the one that holds now"
    server.fetch("again")
    assert made[-1].said == ["other", "again"]


def test_a_server_that_goes_and_comes_back(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    run_postgres(postgres, KILL, *TABLE)
    monkeypatch.setattr("penstock.inputs.sql.server._PAUSES_S", (0.0, 0.01))
    dataset = ps.read_sql(postgres.uri, "SELECT * FROM samples", partition="key").shuffle(seed=1, block_rows=5).batch(8)
    wanted = natural_of(dataset)
    postgres.stop()
    try:
        with pytest.raises(ps.DataError, match=r"127\.0\.0\.1.*2 tries in 0 s; start the server again, then resume"):
            natural_of(dataset)
        with pytest.raises(ps.SourceError, match=r"Connection refused.*check address, name and password"):
            ps.read_sql(postgres.uri, "SELECT 1 AS a")
    finally:
        postgres.start()
    assert natural_of(dataset) == wanted


def natural_of(dataset: ps.Dataset) -> list[list[int]]:
    with ps.Loader(dataset, to="numpy") as loader:
        return [batch["id"].tolist() for batch in loader]


@pytest.mark.parametrize(
    ("query", "words"),
    [("SELECT nope FROM samples", "nope"), ("SELEC 1", "(?i)syntax error"), ("SELECT * FROM nowhere", "nowhere")],
)
def test_a_wrong_query_is_told_in_the_servers_words(uri: str, query: str, words: str) -> None:
    with pytest.raises(ps.PlanError, match=words):
        ps.read_sql(uri, query, partition="id")


def test_a_query_that_fails_in_mid_run(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    run_postgres(postgres, KILL, *TABLE)
    query = "SELECT key, id FROM samples WHERE id < 40 OR 1 / (id - 50) = 0"
    with pytest.raises(ps.PlanError, match="division by zero"):
        ps.read_sql(postgres.uri, query, partition="key")
    monkeypatch.setattr("penstock.inputs.sql.source._LOOK_AT", 10)
    source = ps.read_sql(postgres.uri, "SELECT key, 1000 / (id - 50) AS x FROM samples", partition="key").source
    for first in (45, 45, 0):
        with pytest.raises(ps.DataError, match="division by zero") if first else nullcontext():
            assert source.load(first, 10)["x"][0] == -20


def test_values_that_do_not_fit_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite"
    run_sqlite(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, x)", f"INSERT INTO t {NUMBERS} SELECT i, i FROM numbers")
    run_sqlite(path, "UPDATE t SET x = 1.5 WHERE id = 60")
    dataset = ps.read_sql(f"sqlite:///{path}", "SELECT * FROM t", partition="id")
    assert dataset.spec["x"].dtype == "float64"
    run_sqlite(path, "UPDATE t SET x = NULL WHERE id = 60")
    with pytest.raises(ps.DataError, match=r"data\.sqlite, row 60: column 'x' is null; give it a value with columns="):
        natural(ps.read_sql(f"sqlite:///{path}", "SELECT * FROM t", partition="id"))


# Secrets


def test_the_password_is_never_shown(postgres: Postgres, capfd: pytest.CaptureFixture[str]) -> None:
    run_postgres(postgres, KILL, *TABLE)
    dataset = ps.read_sql(postgres.uri + "?application_name=hidden7", "SELECT * FROM samples", partition="key")
    plan = dataset.shuffle(seed=1).batch(8)
    with ps.Loader(plan) as loader:
        told = [json.dumps(loader.state_dict()), loader.report(), str(loader.stats())]
    told += [repr(thing) for thing in (dataset, dataset.source, dataset.source.server.place, dataset.nodes)]
    told += [plan.explain(), dataset.source.manifest.digest, dataset.source.manifest.place(3)]
    wrong = postgres.uri.replace(QUOTED_PASSWORD, QUOTED_PASSWORD + "x")
    for uri in (
        wrong,
        postgres.uri + "?nonsense=1",
        postgres.uri + "?sslmode=nonsense",
        postgres.uri.replace("postgresql", "mysql"),
    ):
        with pytest.raises(ps.PenstockError) as caught:
            ps.read_sql(uri, "SELECT 1 AS a")
        assert caught.value.__cause__ is None
        told.append(str(caught.value))
    with pytest.raises(ps.PlanError) as caught:
        ps.read_sql(postgres.uri, "SELECT nope")
    told.append(str(caught.value))
    told += list(capfd.readouterr())
    for text in told:
        assert PASSWORD not in text
        assert QUOTED_PASSWORD not in text
        assert "hidden7" not in text
    assert f"postgresql://tester@127.0.0.1:{postgres.port}/postgres" in dataset.source.manifest.place(3)


def test_words_are_scrubbed() -> None:
    place = DatabaseUri("postgresql://me:p%40ss@host/base?sslpassword=other")
    assert place.shown == "postgresql://me@host/base"
    words = f"cannot open {place.uri} with p@ss, p%40ss,\n or other"
    assert place.scrubbed(words) == "cannot open postgresql://me@host/base with ***, ***, or ***"


# Places


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_sqlite(tmp_path / "a b%.db", *TABLE)
    monkeypatch.chdir(tmp_path)
    for uri in ("sqlite:///a b%25.db", f"sqlite:///{tmp_path}/a b%25.db", f"sqlite://{tmp_path}/a b%25.db"):
        assert len(ps.read_sql(uri, "SELECT * FROM samples", partition="key")) == ROWS
    with pytest.raises(
        ps.SourceError, match=r"sqlite:///none\.db: no file 'none\.db'; an absolute path takes four strokes"
    ):
        ps.read_sql("sqlite:///none.db", "SELECT 1 AS a")
    assert not Path("none.db").exists()
    with pytest.raises(ps.PlanError, match=r"parameters after '\?' are not understood"):
        ps.read_sql("sqlite:///a.db?mode=rw", "SELECT 1 AS a")
    with pytest.raises(ps.PlanError, match="'oracle' is no database that is known; a URI begins with postgresql, "):
        ps.read_sql("oracle://x", "SELECT 1 AS a")
    (tmp_path / "text.db").write_text("no database at all" * 100)
    for scheme in ("sqlite", "duckdb"):
        with pytest.raises(ps.PenstockError, match=r"text\.db: .*not a (valid DuckDB )?database"):
            ps.read_sql(f"{scheme}:///text.db", "SELECT 1 AS a")


def test_an_empty_result(uri: str) -> None:
    with pytest.raises(ps.SourceError, match="the query gives no row"):
        ps.read_sql(uri, "SELECT * FROM samples WHERE id < 0", partition="id")


@pytest.mark.parametrize("value", ["it's", "\\", "a\\'b", "é", ""])
def test_text_is_written_so_that_it_comes_back(uri: str, value: str) -> None:
    literal = DIALECTS[DatabaseUri(uri).scheme].literal(value)
    found = ps.read_sql(uri, f"SELECT CAST({literal} AS VARCHAR(9)) AS a")
    assert natural(found)["a"].to_pylist() == [value]


def test_types_of_postgresql(postgres: Postgres) -> None:
    query = """SELECT 1::smallint AS small, 2.5::real AS real, 1.25::numeric(9, 2) AS number, true AS flag, 'x'::bytea AS data,
        '{"a": 1}'::jsonb AS json, 'b5cf9dd0-33e2-4a7c-9a3c-0c9d5e3a1f00'::uuid AS uuid, ARRAY[1, 2] AS list"""
    found = natural(ps.read_sql(postgres.uri, query, columns=None))
    assert found["small"].dtype == np.int16
    assert found["real"].dtype == np.float32
    assert found["number"].to_pylist() == ["1.25"]
    assert found["flag"].tolist() == [True]
    assert found["data"].to_pylist() == [b"x"]
    assert json.loads(found["json"][0].as_py()) == {"a": 1}
    assert found["uuid"][0].as_py().hex() == "b5cf9dd033e24a7c9a3c0c9d5e3a1f00"
    assert found["list"].to_pylist() == [[1, 2]]
    typed = ps.read_sql(postgres.uri, query, columns={"number": ps.Column(feature="number", dtype="float64")})
    assert natural(typed)["number"].tolist() == [1.25]


def test_large_results_are_regrouped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.duckdb"
    run_duckdb(path, "CREATE TABLE t AS SELECT i AS id, repeat('x', i % 100) AS word FROM range(300000) r(i)")
    dataset = ps.read_sql(f"duckdb:///{path}", "SELECT * FROM t ORDER BY id")
    assert len(dataset) == 300_000
    source = dataset.source
    ids: list[pa.Array] = [
        source.load(first, min(10_007, 300_000 - first))["id"] for first in range(0, 300_000, 10_007)
    ]
    assert np.array_equal(np.concatenate(ids), np.arange(300_000))


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run_sqlite(tmp_path / "a.db", *TABLE)
    original: Callable[..., Any] = __import__

    def refuse(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("adbc_driver_sqlite"):
            raise ImportError(name)
        return original(name, *more, **named)

    monkeypatch.setattr("builtins.__import__", refuse)
    with pytest.raises(ps.SourceError, match=r"adbc-driver-sqlite is not installed; pip install adbc-driver-sqlite"):
        ps.read_sql(f"sqlite:///{tmp_path}/a.db", "SELECT 1 AS a")


@pytest.mark.parametrize(("step", "cut"), [(1, 100), (3, 1), (7, 5), (1_000, 8)])
def test_keys_are_counted_here_as_the_database_counts_them(tmp_path: Path, step: int, cut: int) -> None:
    path = tmp_path / "keys.sqlite"
    keys = ", ".join(f"({number * number % 23 - 4})" for number in range(ROWS))
    run_sqlite(path, "CREATE TABLE t (k INTEGER)", f"INSERT INTO t VALUES {keys}")
    server = Server(DatabaseUri(f"sqlite:///{path}"), 1)

    def in_pieces(sql: str) -> Iterator[pa.RecordBatch]:
        yield from server.ask(sql).to_batches(max_chunksize=cut)

    here, there = (
        find_ranges(
            AnswerMode(server.ask, in_pieces), Query("SELECT k FROM t", "k", ("k",), True, collated), step, server.place
        )
        for collated in (False, True)
    )
    server.close()
    assert (here.keys, here.before.tolist(), here.rows, here.last) == (
        there.keys,
        there.before.tolist(),
        there.rows,
        there.last,
    )
    assert here.digest == there.digest


def test_whole_numbers_and_nested_types_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    run_duckdb(path)
    query = """SELECT 18446744073709551615::UBIGINT AS large, 7::HUGEINT AS small, [DATE '2024-01-02'] AS days,
        [{'a': 1, 'b': TIMESTAMP '2024-01-02'}] AS boxes, MAP {'k': 2} AS map"""
    (batch,) = ps.Loader(ps.read_sql(f"duckdb:///{path}", query).batch(1))
    assert {name: column.tolist() for name, column in batch.items()} == {
        "large": [2**64 - 1],
        "small": [7.0],
        "days": [[19_724]],
        "boxes.a": [[1]],
        "boxes.b": [[1_704_153_600_000_000]],
        "map.key": [["k"]],
        "map.value": [[2]],
    }
    huge = "SELECT unnest([1::HUGEINT, 9007199254740993::HUGEINT]) AS x"
    with pytest.raises(ps.DataError, match=r"row 1: column 'x' is 9007199254740993, a whole number of more digits"):
        ps.read_sql(f"duckdb:///{path}", huge)
    (batch,) = ps.Loader(
        ps.read_sql(f"duckdb:///{path}", huge, columns={"x": ps.Column(feature="x", dtype="int64")}).batch(2)
    )
    assert batch["x"].tolist() == [1, 9007199254740993]
