"""A real S3 server on this machine, behind a line as slow as the one to a distant store: for benches/s3.py.

The server is s3s-fs (crates.io), installed on first use; the line is rust/examples/slow_line.rs, which also keeps objects in memory, so
that the server's own work takes no CPU from what is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from work import REPOSITORY, work_folder

VERSION = "0.14.1"
BUCKET = "bench"
SIGNED_FOR = timedelta(hours=12)
#: What clients look for a store's address under.
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT_URL")
KEYS = {"AWS_ACCESS_KEY_ID": "penstock-bench", "AWS_SECRET_ACCESS_KEY": "penstock-bench", "AWS_REGION": "us-east-1"}


def server_binary() -> Path:
    """The S3 server; installed if it is not there."""
    root = work_folder() / "s3s"
    binary = root / "bin" / "s3s-fs"
    if not binary.exists():
        command = ["cargo", "install", "--quiet", "s3s-fs", "--version", VERSION, "--features", "binary", "--root"]
        subprocess.run([*command, str(root)], check=True)
    return binary


def line_binary() -> Path:
    """The slow line, built from this repository."""
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--no-default-features", "--example", "slow_line"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    return target / "release" / "examples" / "slow_line"


@dataclass(frozen=True)
class Store:
    """A running server, reached through the line at `port`."""

    port: int
    line: subprocess.Popen[str]

    @property
    def environment(self) -> dict[str, str]:
        """How any client finds it."""
        endpoint = f"http://127.0.0.1:{self.port}"
        more = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_ALLOW_HTTP": "true"}
        return KEYS | dict.fromkeys(ENDPOINTS, endpoint) | more

    def shape(self, latency_ms: float, megabytes_per_s: float) -> None:
        """Each request waits, each connection has this rate; 0 is none."""
        self._say(f"line {latency_ms} {megabytes_per_s}")

    def counts(self) -> dict[str, int]:
        """Requests, bytes and connections since the last call."""
        found: dict[str, int] = json.loads(self._say("counts"))
        return found

    def open(self) -> S3Store:
        """The bucket, for this process."""
        config: Any = {"endpoint": self.environment["AWS_ENDPOINT_URL"], "allow_http": "true"}
        named = {key.lower(): value for key, value in KEYS.items()}
        return S3Store(BUCKET, config=named | config, client_options={"timeout": timedelta(minutes=10)})

    def keep(self, prefix: str) -> int:
        """Has the line keep all objects below a prefix, and their listings folder by folder; gives the objects' bytes."""
        self.shape(0, 0)
        store = self.open()
        next(iter(obstore.list(store, prefix=prefix, chunk_size=1000)))
        top = obstore.list_with_delimiter(store, prefix=prefix)
        below = [
            one for folder in top["common_prefixes"] for page in obstore.list(store, prefix=folder) for one in page
        ]
        found = [one["path"] for one in [*top["objects"], *below]]
        with ThreadPoolExecutor(8) as threads:
            return sum(threads.map(lambda path: len(obstore.get(store, path).bytes()), found))

    def _say(self, command: str) -> str:
        assert self.line.stdin is not None
        assert self.line.stdout is not None
        self.line.stdin.write(command + "\n")
        self.line.stdin.flush()
        return self.line.stdout.readline()


@contextlib.contextmanager
def store(root: Path) -> Iterator[Store]:
    """Serves the folders below `root` as buckets while the context lasts."""
    port = _free_port()
    keys = ["--access-key", KEYS["AWS_ACCESS_KEY_ID"], "--secret-key", KEYS["AWS_SECRET_ACCESS_KEY"]]
    quiet = os.environ | {"RUST_LOG": "error"}
    server = subprocess.Popen(
        [str(server_binary()), "--host", "127.0.0.1", "--port", str(port), *keys, str(root)],
        env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    line = subprocess.Popen([str(line_binary()), str(port)], **pipes)
    try:
        assert line.stdout is not None
        _wait_for(port)
        yield Store(int(line.stdout.readline()), line)
    finally:
        for process in (line, server):
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"no server came up at port {port}")
