"""A real S3 server on the loopback interface: moto's, which speaks the whole protocol over HTTP."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

#: Environment variables by which any client finds the server.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "penstock-tests",
    "AWS_SECRET_ACCESS_KEY": "a-secret-that-must-not-be-shown",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Server:
    """A running server with one bucket, "data"."""

    port: int
    root = "s3://data/"

    @property
    def environment(self) -> dict[str, str]:
        """By which a client finds it, besides CREDENTIALS."""
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    def put(self, files: dict[str, bytes]) -> None:
        """Uploads objects."""
        client = self._client
        for name, content in files.items():
            client.put_object(Bucket="data", Key=name, Body=content)

    def delete(self, *names: str) -> None:
        """Deletes objects."""
        client = self._client
        for name in names:
            client.delete_object(Bucket="data", Key=name)

    def make_bucket(self, name: str) -> None:
        """Another bucket."""
        self._client.create_bucket(Bucket=name)

    @property
    def _client(self) -> Any:
        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}")


@contextlib.contextmanager
def s3_server() -> Iterator[Server]:
    """An S3 of this process, with an empty bucket; CREDENTIALS must be in the environment. One context at a time."""
    port = _port()
    boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}").create_bucket(Bucket="data")
    try:
        yield Server(port)
    finally:
        reset = urllib.request.Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset, timeout=10).close()


@contextlib.contextmanager
def served(files: dict[str, bytes], serve: Callable[[], Any] = s3_server) -> Iterator[Any]:
    """An S3, or what else `serve` begins, with these objects, and an environment by which any client finds it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with serve() as server:
            for name, value in server.environment.items():
                patch.setenv(name, value)
            server.put(files)
            yield server


@functools.cache
def _port() -> int:
    """Where the server listens, which runs as long as this process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    atexit.register(server.stop)
    _, port = server.get_host_and_port()
    return int(port)
