"""Apache Arrow's example server of Flight SQL on loopback, as scripts/test_servers.sh builds it: SQLite, in memory."""

from __future__ import annotations

import re
import subprocess
from contextlib import closing
from pathlib import Path

import adbc_driver_flightsql.dbapi

PROGRAM = Path(__file__).parent.parent.parent / "target/flightsql/sqlite_flightsql_server"


class FlightSql:
    """A server with one database, without users."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    @property
    def uri(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """At the port that it had before, with an empty database."""
        self._process = subprocess.Popen(
            [str(PROGRAM), "-host", "127.0.0.1", "-port", str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", said)
        assert found is not None, said
        self.port = int(found[1])

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, *statements: str) -> None:
        """Runs statements, in the types that the server knows."""
        with closing(adbc_driver_flightsql.dbapi.connect(self.uri, autocommit=True)) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement.replace("BIGINT", "INTEGER").replace("DOUBLE PRECISION", "REAL"))
