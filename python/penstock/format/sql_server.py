"""A database that answers several threads out of one snapshot, and comes back after its connections are lost."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import DataError, PenstockError, PlanError, ProcessError, SourceError
from penstock.format.sql_dialect import Connection, Lost, Place, Refused, dialect_of

#: Seconds to wait before each further try, once a connection is lost.
_PAUSES_S = (0.0, 0.2, 1.0, 3.0)

Fetch = Callable[[str], pa.Table]


@dataclass(frozen=True)
class Asked:
    """How queries of one snapshot are answered: as a whole, or as they come."""

    ask: Fetch
    stream: Callable[[str], Iterator[pa.RecordBatch]]


class Server:
    """Connections to one database.

    The first one, the keeper, holds the snapshot as long as the server is used; the others take it on and answer `fetch`. After the
    keeper was lost there is a new snapshot, and `recheck` must find the data unchanged in it, or raise.
    """

    def __init__(self, place: Place, connections: int) -> None:
        self.place, self.dialect = place, dialect_of(place)
        self.recheck: Callable[[Asked], None] = lambda _: None
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._free = threading.BoundedSemaphore(connections)
        self._idle: list[Connection] = []
        self._all: list[Connection] = []
        self._file = self._file_now()
        weakref.finalize(self, _close, self._all)
        try:
            self._keeper, self._snapshot = self._keep()
        except (Lost, Refused) as error:
            self.close()
            raise self._unreachable(error) from None

    def close(self) -> None:
        """Ends all connections, and with them the snapshot."""
        with self._lock:
            self._idle.clear()
            _close(self._all)

    def ask(self, sql: str) -> pa.Table:
        """The result of a query on the keeper; PlanError with the server's words if it refuses, SourceError if it is gone."""
        try:
            with self._lock:
                return self._keeper.fetch(sql)
        except Lost as error:  # some drivers connect only now
            raise self._unreachable(error) from None
        except Refused as error:
            raise PlanError(f"{self.place}: {error}") from None

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The result of a query on the keeper as it comes."""
        try:
            yield from self._keeper.batches(sql)
        except (Lost, Refused) as error:
            raise DataError(f"{self.place}: {error}") from None

    def fetch(self, sql: str) -> pa.Table:
        """The result of a query, from any thread; DataError with the server's words if several tries do not bring it."""
        if os.getpid() != self._process:
            raise ProcessError(
                f"{self.place}: connected before a fork, and the connections are the parent's; call read_sql in the child"
            )
        words = ""
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            try:
                return self._answer(sql)
            except Lost as error:
                words = str(error)
            except Refused as error:
                raise DataError(f"{self.place}: {error}") from None
        raise DataError(
            f"{self.place}: {words}; {len(_PAUSES_S)} tries in {sum(_PAUSES_S):.0f} s; start the server again, then resume from "
            f"the last state"
        )

    def _unreachable(self, error: Exception) -> SourceError:
        return SourceError(f"{self.place}: {error}; check address, name and password, and that the server runs")

    def _answer(self, sql: str) -> pa.Table:
        with self._free, self._borrowed() as connection:
            self._check_file()
            table = connection.fetch(sql)
            self._check_file()
            return table

    @contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._another()
        try:
            yield connection
        except BaseException:  # after an error a transaction answers nothing any more
            self._drop(connection)
            raise
        with self._lock:
            if connection in self._all:
                self._idle.append(connection)

    def _another(self) -> Connection:
        """A connection in the keeper's snapshot; a new keeper first if that one is gone."""
        with self._lock:
            try:
                self._keeper.fetch("SELECT 1")
            except (Lost, Refused):
                self._keep_anew()
            connection = self._connect()
            if self.dialect.adopt is not None:
                try:
                    self._begin(connection)
                    connection.fetch(self.dialect.adopt.format(self._snapshot))
                except BaseException:
                    self._drop(connection)
                    raise
            return connection

    def _keep_anew(self) -> None:
        for connection in [*self._all]:
            self._drop(connection)
        self._idle.clear()
        self._keeper, self._snapshot = self._keep()
        try:
            self.recheck(Asked(self._keeper.fetch, self._keeper.batches))
        except (PenstockError, Refused) as error:
            raise DataError(f"{self.place}: the connection was lost, and since then {error}") from None
        except Lost:  # not looked at yet: another try must do it
            self._drop(self._keeper)
            raise

    def _keep(self) -> tuple[Connection, str]:
        keeper = self._connect()
        self._begin(keeper)
        name = "" if self.dialect.export is None else str(keeper.fetch(self.dialect.export).column(0)[0])
        return keeper, name

    def _begin(self, connection: Connection) -> None:
        for statement in self.dialect.begin:
            connection.fetch(statement)

    def _connect(self) -> Connection:
        connection = self.dialect.connect(self.place)
        self._all.append(connection)
        return connection

    def _drop(self, connection: Connection) -> None:
        with self._lock:
            if connection in self._all:
                self._all.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
        with suppress(Lost, Refused):
            connection.close()

    def _file_now(self) -> Any:
        """What tells that a database file was written to: size and time of it and of SQLite's log beside it."""
        if self.dialect.file is None:
            return None
        path = self.dialect.file(self.place)
        return [_stamp(path), _stamp(path + "-wal")]

    def _check_file(self) -> None:
        if self._file_now() != self._file:
            raise DataError(
                f"{self.place}: written to since it was opened; read a copy that nobody changes, or open it again"
            )


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found.st_size else (0, 0, 0)


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        with suppress(Exception):
            connection.close()
    connections.clear()
