"""How fast files of HDFS come in: penstock's storage and others' sequential reads of the same files, on Hadoop's cluster for tests.

python benches/hdfs_read.py [--json]; scripts/test_servers.sh fetches what the cluster needs. All sides take turns, one
behind the other, and another one begins in each round; the figure is the median, in MB/s of file contents.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import penstock as ps
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.stores.hdfs import HdfsStore
from servers.hdfs import Hdfs, hdfs_cluster, why_not

STEP_BYTES = 8 << 20


def penstock(url: str) -> int:
    """A loader over all files: windows of tokens, 1 MB in a batch."""
    dataset = ps.read(url, format="tokens", dtype="uint16", window=8_000).cache_local(None)
    with ps.Loader(dataset.batch(64), epochs=1) as loader:
        return sum(batch["tokens"].nbytes for batch in loader)


def penstock_storage(url: str) -> int:
    """Our storage alone, without its cache: a call for each file, which it splits and reads in parallel; two calls at once."""
    store, path = HdfsStore.open(url)
    storage = RemoteStorage(store)
    shards = storage.list(path)

    def read(shard: int) -> int:
        size = int(shards.sizes[shard])
        numbers = [np.array([number], dtype=np.int64) for number in (shard, 0, size, 0)]
        storage.read(shards, numbers[0], numbers[1], numbers[2], np.empty(size, dtype=np.uint8), numbers[3])
        return size

    with ThreadPoolExecutor(2) as threads:
        return sum(threads.map(read, range(len(shards))))


def fsspec_file(filesystem: Any, name: str) -> int:
    """One file, read from front to back."""
    total = 0
    with filesystem.open(name, "rb") as file:
        while piece := file.read(STEP_BYTES):
            total += len(piece)
    return total


def fsspec_sequential(url: str) -> int:
    """hdfs-native's own fsspec file system, file after file."""
    filesystem, path = _fsspec(url)
    return sum(fsspec_file(filesystem, name) for name in sorted(filesystem.find(path)))


def fsspec_parallel(url: str) -> int:
    """The same, several files at once."""
    filesystem, path = _fsspec(url)
    with ThreadPoolExecutor(8) as threads:
        return sum(threads.map(lambda name: fsspec_file(filesystem, name), sorted(filesystem.find(path))))


def arrow_sequential(url: str) -> int:
    """pyarrow.fs over it, file after file."""
    from pyarrow import fs

    filesystem, path = _fsspec(url)
    arrow, total = fs.PyFileSystem(fs.FSSpecHandler(filesystem)), 0
    for name in sorted(filesystem.find(path)):
        with arrow.open_input_stream(name, buffer_size=0) as stream:
            while piece := stream.read(STEP_BYTES):
                total += len(piece)
    return total


def _fsspec(url: str) -> tuple[Any, str]:
    from hdfs_native.fsspec import HdfsFileSystem

    host, _, path = url.removeprefix("hdfs://").partition("/")
    name, port = host.split(":")
    return HdfsFileSystem(name, int(port), skip_instance_cache=True), f"/{path}"


SIDES: dict[str, Callable[[str], int]] = {
    "penstock, a loader": penstock,
    "penstock, storage alone": penstock_storage,
    "hdfs-native fsspec, sequential": fsspec_sequential,
    "hdfs-native fsspec, 8 files at once": fsspec_parallel,
    "pyarrow.fs over fsspec, sequential": arrow_sequential,
}


def fill(cluster: Hdfs, files: int, file_bytes: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(files):
        cluster.put({f"bench/{number}.bin": rng.bytes(file_bytes)})


def measure(url: str, total: int, rounds: int) -> dict[str, dict[str, float]]:
    """Of each side: MB/s, and seconds of this process's CPU for 1 GB."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in SIDES}
    names = list(SIDES)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            began_at, cpu = time.perf_counter(), time.process_time()
            assert SIDES[name](url) == total, name
            if number:  # the first round warms the servers up
                seconds[name].append((time.perf_counter() - began_at, time.process_time() - cpu))
    return {
        name: {
            "rate": round(total / statistics.median(wall for wall, _ in found) / 1e6, 1),
            "cpu_s_per_gb": round(statistics.median(cpu for _, cpu in found) / total * 1e9, 2),
        }
        for name, found in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=32, help="of each file")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    total = arguments.files * arguments.megabytes * 1_000_000
    with hdfs_cluster() as cluster, tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        cluster.wait()
        fill(cluster, arguments.files, arguments.megabytes * 1_000_000)
        found = measure(f"{cluster.url}/bench", total, arguments.rounds)
    if arguments.json:
        print(json.dumps({"unit": "MB/s", "bytes": total, "sides": found}))
        return
    base = found["hdfs-native fsspec, sequential"]["rate"]
    for name, figures in found.items():
        print(
            f"{name:40} {figures['rate']:8.1f} MB/s {figures['rate'] / base:6.2f} × {figures['cpu_s_per_gb']:6.2f} CPU s/GB"
        )


if __name__ == "__main__":
    main()
