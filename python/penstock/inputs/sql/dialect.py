"""What differs from one database to the next: how one connects, holds a snapshot, and writes values into a query.

Every connection gives Arrow tables: PostgreSQL and SQLite through their ADBC drivers, DuckDB by itself.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa

from penstock.core.errors import PlanError, SourceError
from penstock.core.installing import pip_install


class Lost(Exception):
    """The connection is gone or never came: worth another try. The text is the server's, without secrets."""


class Refused(Exception):
    """The server understood and said no; another try would end alike. The text is the server's, without secrets."""


class Connection(Protocol):
    """One connection, used by one thread at a time. Its methods raise Lost and Refused."""

    def fetch(self, sql: str) -> pa.Table:
        """The whole result."""

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The result as it comes."""

    def close(self) -> None:
        """Ends it."""


@dataclass(frozen=True, kw_only=True)
class SqlDialect:
    """One kind of database.

    begin: statements that begin a snapshot on the first connection. export: the query whose first value names that snapshot;
    adopt: a statement with which another connection takes it on. escape: whether text is written as E'…'. file: the path that a URI
    means, for databases that are one file.
    """

    name: str
    connect: Callable[[DatabaseUri], Connection]
    begin: tuple[str, ...] = ()
    export: str | None = None
    adopt: str | None = None
    escape: bool = False
    file: Callable[[DatabaseUri], str] | None = None

    def literal(self, value: Any) -> str:
        """A key as it is written in a query: DIALECTS["sqlite"].literal("it's") == "'it''s'"."""
        if isinstance(value, dt.datetime):
            return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} '{value.isoformat(' ')}'"
        if isinstance(value, dt.date):
            return f"DATE '{value.isoformat()}'"
        if isinstance(value, str):
            if "\0" in value:
                raise PlanError(f"the key {value!r} holds a zero byte, which no query can; partition by another column")
            text = value.replace("'", "''")
            return "E'" + text.replace("\\", "\\\\") + "'" if self.escape else f"'{text}'"
        return str(int(value))


def quoted(name: str) -> str:
    """A column's name as it is written in a query: quoted('a"b') == '"a""b"'."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, repr=False)
class DatabaseUri:
    """A database's URI, which may hold a password and is never shown."""

    uri: str

    @property
    def scheme(self) -> str:
        """What the URI begins with: "postgresql"."""
        return urlsplit(self.uri).scheme

    def __repr__(self) -> str:
        return self.shown

    @property
    def shown(self) -> str:
        """The URI without user's password and parameters."""
        parts = urlsplit(self.uri)
        user, _, host = parts.netloc.rpartition("@")
        netloc = f"{user.partition(':')[0]}@{host}" if user else host
        return f"{parts.scheme}://{netloc}{parts.path}"

    def scrubbed(self, words: str) -> str:
        """A message without the URI's secrets."""
        parts = urlsplit(self.uri)
        secrets = {value for name, value in parse_qsl(parts.query) if name.lower() not in ("sslmode", "dbname", "host")}
        secrets |= {parts.password or "", unquote(parts.password or "")}
        words = words.replace(self.uri, self.shown)
        for secret in sorted(secrets, key=len, reverse=True):
            words = words.replace(secret, "***") if secret else words
        return " ".join(words.split())

    @property
    def path(self) -> str:
        """The file of a URI like SQLAlchemy's: sqlite:///here.db is relative, sqlite:////tmp/here.db is absolute."""
        parts = urlsplit(self.uri)
        if parts.query:
            raise PlanError(
                f"{self.shown}: parameters after '?' are not understood for {parts.scheme}; leave them away"
            )
        path = unquote(parts.path)
        relative = path.removeprefix("/") if parts.netloc == "" and path.startswith("/") else path
        found = next((place for place in (relative, path) if os.path.isfile(place)), None)
        if found is None:
            raise SourceError(
                f"{self.shown}: no file {relative!r}; an absolute path takes four strokes, {parts.scheme}:////…"
            )
        return "/" + os.path.abspath(found).lstrip("/")


# Connections


@dataclass(frozen=True)
class _Adbc:
    """A connection of Python's ADBC driver manager, in autocommit mode."""

    connection: Any
    place: DatabaseUri
    options: tuple[tuple[str, str], ...] = ()

    @contextmanager
    def _cursor(self, sql: str) -> Iterator[Any]:
        with _told(self.place), self.connection.cursor() as cursor:
            if self.options:
                cursor.adbc_statement.set_options(**dict(self.options))
            cursor.execute(sql)
            yield cursor

    def fetch(self, sql: str) -> pa.Table:
        with self._cursor(sql) as cursor:
            return cursor.fetch_arrow_table()

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        with self._cursor(sql) as cursor:
            yield from cursor.fetch_record_batch()

    def close(self) -> None:
        with _told(self.place):
            self.connection.close()


@dataclass(frozen=True)
class _DuckDB:
    """A connection of the duckdb package."""

    connection: Any
    place: DatabaseUri

    def fetch(self, sql: str) -> pa.Table:
        with _told(self.place):
            return self.connection.sql(sql).to_arrow_table()

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        with _told(self.place):
            yield from self.connection.sql(sql).to_arrow_reader(1 << 16)

    def close(self) -> None:
        self.connection.close()


@contextmanager
def _told(place: DatabaseUri) -> Iterator[None]:
    """A driver's errors as Lost or Refused, by the names that PEP 249 gives them."""
    try:
        yield
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "DatabaseError" not in kinds and "InterfaceError" not in kinds:
            raise
        state = str(getattr(error, "sqlstate", None) or "")
        lost = "OperationalError" in kinds or state.startswith(("08", "57P", "53", "40"))
        raise (Lost if lost else Refused)(place.scrubbed(str(error))) from None


def _driver(module: str, package: str) -> Any:
    try:
        return __import__(module, fromlist=["connect"])
    except ImportError:
        raise SourceError(f"{package} is not installed; {pip_install(package)}") from None


def _connect_postgresql(place: DatabaseUri) -> Connection:
    driver = _driver("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql")
    with _told(place):
        return _Adbc(driver.connect(place.uri, autocommit=True), place)


def _connect_sqlite(place: DatabaseUri) -> Connection:
    driver = _driver("adbc_driver_sqlite.dbapi", "adbc-driver-sqlite")
    with _told(place):
        connection = driver.connect(f"file:{quote(place.path)}?mode=ro", autocommit=True)
    return _Adbc(connection, place, (("adbc.sqlite.query.batch_rows", str(1 << 16)),))


def _connect_duckdb(place: DatabaseUri) -> Connection:
    driver = _driver("duckdb", "duckdb")
    with _told(place):
        return _DuckDB(driver.connect(place.path, read_only=True), place)


def _path_of(place: DatabaseUri) -> str:
    return place.path


_POSTGRESQL = SqlDialect(
    name="PostgreSQL",
    connect=_connect_postgresql,
    begin=("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    export="SELECT pg_export_snapshot() AS snapshot",
    adopt="SET TRANSACTION SNAPSHOT '{}'",
    escape=True,
)

DIALECTS = {
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "sqlite": SqlDialect(name="SQLite", connect=_connect_sqlite, file=_path_of),
    "duckdb": SqlDialect(name="DuckDB", connect=_connect_duckdb, file=_path_of),
}


def dialect_of(place: DatabaseUri) -> SqlDialect:
    """The kind of database that a URI names; PlanError if none is known."""
    if place.scheme not in DIALECTS:
        raise PlanError(
            f"read_sql: {place.scheme!r} is no database that is known; a URI begins with {', '.join(DIALECTS)}"
        )
    return DIALECTS[place.scheme]
