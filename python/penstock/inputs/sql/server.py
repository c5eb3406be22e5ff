"""A database that answers several threads out of one snapshot, and comes back after its connections are lost."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.errors import DataError, PenstockError, PlanError, ProcessError, SourceError, not_to_be_sent
from penstock.inputs.sql.dialect import Connection, DatabaseUri, Lost, Refused, dialect_of

#: Seconds to wait before each further try, once a connection is lost.
_PAUSES_S = (0.0, 0.2, 1.0, 3.0)

Fetch = Callable[[str], pa.Table]


@dataclass(frozen=True)
class AnswerMode:
    """How queries of one snapshot are answered: as a whole, or as they come."""

    ask: Fetch
    stream: Callable[[str], Iterator[pa.RecordBatch]]


class Server:
    """Connections to one database.

    The first one, the keeper, holds the snapshot as long as the server is used; the others take it on and answer `fetch`. After the
    keeper was lost there is a new snapshot, and `recheck` must find the data unchanged in it, or raise. A connection that a thread
    has borrowed is that thread's alone, to close as well: drivers may crash where another thread closes what is in use.
    """

    def __init__(self, place: DatabaseUri, connections: int) -> None:
        self.place, self.dialect = place, dialect_of(place)
        self.recheck: Callable[[AnswerMode], None] = _anything
        self._connections, self._process = connections, os.getpid()
        self._lock = threading.RLock()
        self._free = threading.BoundedSemaphore(connections)
        self._idle: list[Connection] = []
        self._kept: list[Connection] = []
        self._snapshots = 0
        self._file = self._file_now()
        weakref.finalize(self, _close, self._idle)
        weakref.finalize(self, _close, self._kept)
        try:
            self._keep()
        except (Lost, Refused) as error:
            self.close()
            raise self._unreachable(error) from None

    def __reduce__(self) -> tuple[Callable[..., Server], tuple[Any, ...]]:
        """Another process has connections and a snapshot of its own, in which the data must be unchanged."""
        if self.place.uri != self.place.shown:
            raise not_to_be_sent("the database's URI")
        return _anew, (self.place, self._connections, self.recheck)

    def close(self) -> None:
        """Ends all connections, and with them the snapshot; one that is borrowed ends when it comes back."""
        with self._lock:
            self._snapshots += 1
            _close(self._idle)
            _close(self._kept)

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
            connection = self._idle.pop() if self._idle else self._another()
            snapshot = self._snapshots
        try:
            yield connection
        except BaseException:  # after an error a transaction answers nothing any more
            _close([connection])
            raise
        with self._lock:
            if snapshot == self._snapshots:
                self._idle.append(connection)
                return
        _close([connection])

    def _another(self) -> Connection:
        """A connection in the keeper's snapshot; a new keeper first if that one is gone."""
        try:
            self._keeper.fetch("SELECT 1")
        except (Lost, Refused):
            self._keep_anew()
        adopt = () if self.dialect.adopt is None else (*self.dialect.begin, self.dialect.adopt.format(self._snapshot))
        return self._connect(adopt)

    def _keep_anew(self) -> None:
        _close(self._idle)
        self._keep()
        try:
            self.recheck(AnswerMode(self._keeper.fetch, self._keeper.batches))
        except (
            BaseException
        ) as error:  # a snapshot that was not found to be the same answers nothing; another try looks again
            _close(self._kept)
            if isinstance(error, PenstockError | Refused):
                raise DataError(f"{self.place}: the connection was lost, and since then {error}") from None
            raise

    def _keep(self) -> None:
        """A new keeper with a new snapshot, in place of what there was."""
        _close(self._kept)
        self._snapshots += 1
        self._keeper = self._connect(self.dialect.begin)
        self._kept.append(self._keeper)
        if self.dialect.export is not None:
            self._snapshot = str(self._keeper.fetch(self.dialect.export).column(0)[0])

    def _connect(self, statements: Iterable[str]) -> Connection:
        connection = self.dialect.connect(self.place)
        try:
            for statement in statements:
                connection.fetch(statement)
        except BaseException:
            _close([connection])
            raise
        return connection

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


def _anything(_: AnswerMode) -> None:
    pass


def _anew(place: DatabaseUri, connections: int, recheck: Callable[[AnswerMode], None]) -> Server:
    server = Server(place, connections)
    recheck(AnswerMode(server.ask, server.stream))
    server.recheck = recheck
    return server
