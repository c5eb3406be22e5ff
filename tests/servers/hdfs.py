"""A real HDFS on loopback: Hadoop's cluster for tests, a name node and two data nodes in one Java process."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hdfs_native import Client, WriteOptions

HERE = Path(__file__).parent / "hadoop"
#: Where scripts/test_servers.sh puts what the cluster needs.
JARS = Path(__file__).parent.parent.parent / "target" / "hadoop"
DATA_NODES = 2
_WRITERS = 8


def why_not() -> str:
    """Why the cluster cannot run here; "" if it can."""
    if shutil.which("java") is None:
        return "Java is not installed"
    return "" if list(JARS.glob("*.jar")) else "Hadoop's files are not here; scripts/test_servers.sh fetches them"


class Hdfs:
    """A cluster with blocks of 1 MiB, each on both data nodes. It starts by itself, and can be used after `wait`."""

    def __init__(self, folder: Path, log: Path) -> None:
        command = [
            "java",
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            f"{JARS}/*",
        ]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, str(HERE / "Cluster.java"), str(folder), str(DATA_NODES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder.parent,
            )
        self._log, self.port = log, 0

    def wait(self) -> None:
        """Until it is ready."""
        said = self._line()
        assert said.startswith("ready "), said + self._log.read_text()
        self.port = int(said.split()[1])

    @property
    def url(self) -> str:
        """What paths begin with."""
        return f"hdfs://127.0.0.1:{self.port}"

    def client(self) -> Client:
        """A client to write with."""
        return Client(self.url)

    def put(self, files: dict[str, bytes]) -> None:
        """Writes files, over those that are there, several at once."""
        client = self.client()

        def write(name: str) -> None:
            for attempt in range(10):  # a busy cluster confirms blocks late, and the client does not wait for it
                try:
                    with client.create(f"/{name}", WriteOptions(overwrite=True, create_parent=True)) as file:
                        file.write(files[name])
                    break
                except RuntimeError:
                    if attempt == 9:
                        raise
                    time.sleep(0.2)

        with ThreadPoolExecutor(_WRITERS) as threads:
            list(threads.map(write, files))

    def stop(self, data_node: int) -> None:
        """Ends a data node."""
        self._tell(f"stop {data_node}")

    def start(self, data_node: int) -> None:
        """Starts it again."""
        self._tell(f"start {data_node}")

    def end(self) -> None:
        """Ends the cluster."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(100)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        assert self._line() == "done", self._log.read_text()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextlib.contextmanager
def hdfs_cluster() -> Iterator[Hdfs]:
    """Starts a cluster, which ends with the context."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-hdfs-"))
    try:
        cluster = Hdfs(folder / "data", folder / "log")
        try:
            yield cluster
        finally:
            cluster.end()
    finally:
        shutil.rmtree(folder)
