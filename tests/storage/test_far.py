"""Training from a store that is far away: what it tells, and how it ends while requests hang."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.storage import open_storage
from servers.s3 import Server, served
from support.faulty_proxy import Faults, proxy
from support.seams import is_awaited

ROWS = 4_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    rng, table = np.random.default_rng(0), pa.BufferOutputStream()
    files = {f"tokens/{number}.bin": rng.bytes(2 * ROWS * 100) for number in range(4)}
    files |= {f"small/{number % 2}/{number:03}.jpg": b"\xff\xd8\xff" + rng.bytes(500) for number in range(200)}
    pq.write_table(pa.table({"x": np.arange(10_000)}), table, row_group_size=100)
    with served(files | {"table/a.parquet": table.getvalue().to_pybytes()}) as found:
        yield found


@pytest.fixture
def through(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Faults], None]]:
    """Sends what follows through a proxy."""
    with pytest.MonkeyPatch.context() as patch:
        proxies = []

        def begin(faults: Faults) -> None:
            proxies.append(proxy(server.port, faults))
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxies[-1].__enter__()}")

        yield begin
        for each in proxies:
            each.__exit__(None, None, None)


def tokens() -> ps.Dataset:
    return ps.read("s3://data/tokens/", format="tokens", dtype="uint16", window=100).cache_local(0)


def test_what_the_store_did_is_counted_as_the_proxy_counts(through: Callable[[Faults], None]) -> None:
    faults = Faults(latency_s=0.01)
    through(faults)
    dataset = ps.read("s3://data/small/").cache_local(0).shuffle(seed=0).batch(50)
    before = sum(faults.counts.values())
    with ps.Loader(dataset, prefetch=1) as loader:
        for _ in loader:
            pass
        told = loader.stats()["storage"]
        made = sum(faults.counts.values()) - before
    assert 200 <= told["requests"] <= made
    assert told["bytes"] == 503 * (told["requests"] - told["retries"])
    assert 0.01 <= told["latency_p50_s"] <= told["latency_p95_s"] <= told["latency_p99_s"]
    assert told["file_bytes"] == 503
    assert "storage: " in loader.report()


def test_small_files_are_reported(through: Callable[[Faults], None]) -> None:
    through(Faults(latency_s=0.02))
    loader = ps.Loader(ps.read("s3://data/small/").cache_local(0).shuffle(seed=0).batch(50))
    for _ in range(2):
        for _ in loader:
            pass
    assert "there are too many small files: a request reads 1 KB" in loader.report()
    assert "combine them" in loader.stats()["verdict"]
    loader.close()


def test_local_files_have_no_store_to_tell_of(tmp_path: Path) -> None:
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    loader = ps.Loader(ps.read(str(tmp_path), format="tokens", dtype="uint16", window=10).batch(10))
    for _ in loader:
        pass
    assert loader.stats()["storage"] is None
    assert "storage: " not in loader.report()


@pytest.mark.parametrize("shuffled", [True, False])
def test_the_order_is_the_same_from_afar(through: Callable[[Faults], None], tmp_path: Path, shuffled: bool) -> None:
    through(Faults(latency_s=0.005))
    rng = np.random.default_rng(0)
    for number in range(4):
        (tmp_path / f"{number}.bin").write_bytes(rng.bytes(2 * ROWS * 100))
    near = ps.read(str(tmp_path), format="tokens", dtype="uint16", window=100)
    plans = [each.shuffle(seed=1, block_rows=50) if shuffled else each for each in (near, tokens())]
    for a, b in zip(ps.Loader(plans[0].batch(64)), ps.Loader(plans[1].batch(64)), strict=True):
        assert (a["tokens"] == b["tokens"]).all()


@pytest.mark.parametrize("kind", ["files", "blocks", "columns"])
def test_requests_that_hang_hold_nobody(through: Callable[[Faults], None], kind: str) -> None:
    faults = Faults(stall_s=60.0, kinds=("stall",))
    through(faults)
    opened = {
        "files": lambda: ps.read("s3://data/small/"),
        "blocks": tokens,
        "columns": lambda: ps.read("s3://data/table/"),
    }[kind]()
    loader = ps.Loader(opened.cache_local(0).shuffle(seed=0).batch(8))
    faults.share, others = 1.0, set(threading.enumerate())

    def close() -> None:
        while not (faults.counts["stall"] and is_awaited(loader)):
            time.sleep(0.01)
        time.sleep(0.2)
        loader.close()

    threading.Thread(target=close).start()
    began_at = time.monotonic()
    with pytest.raises(ps.ProcessError, match="closed while a batch was awaited"):
        next(iter(loader))
    loader.close()
    assert time.monotonic() - began_at < 40
    left = set(threading.enumerate()) - others
    assert not [each.name for each in left if each.name.startswith("penstock-read")]


PASSING = """
import sys, penstock as ps
loader = ps.Loader(ps.read("s3://data/small/").cache_local(0).batch(8))
print("opened", flush=True)
sys.stdin.readline()
try:
    for _ in loader:
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
OPENING = """
import sys, penstock as ps
print("opened", flush=True)
sys.stdin.readline()
ps.read("s3://data/small/")
"""


@pytest.mark.parametrize("script", [PASSING, OPENING], ids=["passing", "opening"])
def test_ctrl_c_while_requests_hang_ends_the_process(through: Callable[[Faults], None], script: str) -> None:
    faults = Faults(kinds=("stall",), stall_s=60.0)
    through(faults)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "opened\n"
    faults.share = 1.0
    process.stdin.write("\n")
    process.stdin.flush()
    while not faults.counts["stall"]:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.1)
    began_at = time.monotonic()
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=100)
    assert time.monotonic() - began_at < 40
    assert (said, process.returncode) == (("interrupted\n", 0) if script == PASSING else ("", -signal.SIGINT))
    assert "Fatal" not in errors


def test_the_end_of_the_process_waits_for_no_store(through: Callable[[Faults], None]) -> None:
    through(Faults(latency_s=0.2))
    script = """
import penstock as ps
loader = ps.Loader(ps.read("s3://data/small/").cache_local(0).batch(8))
next(iter(loader))
print("done", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=110, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def http_threads() -> int:
    found = 0
    for task in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # of a thread that has just ended
            found += task.read_text() == "penstock-http\n"
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="nobody tells the names of native threads")
def test_many_requests_share_few_threads(through: Callable[[Faults], None]) -> None:
    faults = Faults(kinds=("stall",), stall_s=1.0)
    through(faults)
    storage, where = open_storage("s3://data/small")
    shards = storage.list(where)
    zero = np.zeros(len(shards), dtype=np.int64)
    out = np.zeros(503 * len(shards), dtype=np.uint8)
    gc.collect()  # runners of tests before
    end = time.monotonic() + 20
    while http_threads() and time.monotonic() < end:
        time.sleep(0.05)
    before, faults.share = http_threads(), 1.0
    reading = threading.Thread(
        target=lambda: storage.remote.read(
            shards, np.arange(len(shards)), zero, zero + 503, out, 503 * np.arange(len(shards))
        )
    )
    reading.start()
    while faults.counts["stall"] < 100 and reading.is_alive():
        time.sleep(0.01)
    assert 1 <= http_threads() - before <= 9, "8 at most that make requests, one that looks names up"
    faults.share = 0.0
    reading.join()
    assert out.reshape(-1, 503)[:, :3].tolist() == [[0xFF, 0xD8, 0xFF]] * len(shards)
