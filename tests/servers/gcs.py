"""A server of Google Cloud Storage's protocols on loopback: fake-gcs-server, as scripts/test_servers.sh builds it, in memory."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from servers.free_port import free_port

PROGRAM = Path(__file__).parent.parent.parent / "target/gcs/fake-gcs-server"


def why_not() -> str:
    """Why the server cannot run here; "" if it can."""
    return (
        ""
        if PROGRAM.exists()
        else "the server of Google Cloud Storage is not built; scripts/test_servers.sh does it where Go is"
    )


@dataclass(frozen=True)
class Gcs:
    """A running server with one bucket, "data". It asks nobody for credentials."""

    port: int
    root = "gs://data/"

    @property
    def environment(self) -> dict[str, str]:
        """By which a client finds it."""
        return {"GOOGLE_BASE_URL": f"http://127.0.0.1:{self.port}", "GOOGLE_SKIP_SIGNATURE": "true"}

    def put(self, files: dict[str, bytes]) -> None:
        """Uploads objects."""
        for name, content in files.items():
            self._ask("POST", f"/upload/storage/v1/b/data/o?uploadType=media&name={quote(name, safe='')}", content)

    def delete(self, name: str) -> None:
        """Deletes an object."""
        self._ask("DELETE", f"/storage/v1/b/data/o/{quote(name, safe='')}")

    def make_bucket(self) -> None:
        """The bucket."""
        self._ask("POST", "/storage/v1/b?project=tests", json.dumps({"name": "data"}).encode())

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        url = f"http://127.0.0.1:{self.port}{path}"
        urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=10).close()


@contextlib.contextmanager
def gcs_server() -> Iterator[Gcs]:
    """Runs a server while the context lasts."""
    port = free_port()
    command = [str(PROGRAM), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    process = subprocess.Popen(
        [*command, "-public-host", "127.0.0.1", "-log-level", "warn"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=PROGRAM.parent,
    )
    try:
        server = Gcs(port)
        _until_it_answers(server, process)
        yield server
    finally:
        process.kill()
        process.wait(10)


def _until_it_answers(server: Gcs, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1000):
        assert process.poll() is None, "the server has ended"
        with contextlib.suppress(ConnectionRefusedError, urllib.error.URLError):
            server.make_bucket()
            return
        time.sleep(0.01)
    raise AssertionError("the server does not answer")
