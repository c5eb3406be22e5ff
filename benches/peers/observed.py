"""Loops with a known bottleneck in NumPy and Python alone, for what other projects' tools say of them: see benches/bottleneck_peers.py."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Rows = Any
#: Small files on this machine.
SMALL_FILES = 8000


def spin(seconds: float) -> None:
    """Pure Python for so much of the thread's own CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        for _ in range(100):
            pass


@dataclass(frozen=True)
class Sleeps:
    """A step that waits for a GPU. It and what follows are classes, since processes are sent them."""

    seconds: float

    def __call__(self) -> None:
        time.sleep(self.seconds)


@dataclass(frozen=True)
class Spins:
    """A step in Python."""

    seconds: float

    def __call__(self) -> None:
        spin(self.seconds)


def nothing() -> None:
    """No step."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One of the 24 (name, as benches/bottleneck_pipelines.py has it), as far as any library can run it.

    source_s: how long the source takes for a batch. function: what is done with a batch, or with a row. workers: threads or processes that may call it. prefetch: batches made ahead.
    noisy: other programs take the cores. store: what the store is told that the function asks. batches: so many where a tool counts them. is_of_four: one of four processes that train together.
    """

    name: str
    batch: int = 32
    source_s: float = 0.0
    function: Callable[[Rows], Rows] | None = None
    by_row: bool = False
    workers: int = 2
    prefetch: int = 2
    step: Callable[[], None] = nothing
    noisy: bool = False
    store: dict[str, float] = field(default_factory=dict)
    batches: int = 128
    is_of_four: bool = False


class Uneven:
    """Every eighth step is long."""

    def __init__(self, short_s: float, long_s: float) -> None:
        self._short_s, self._long_s, self._count = short_s, long_s, 0

    def __call__(self) -> None:
        self._count += 1
        time.sleep(self._long_s if self._count % 8 == 0 else self._short_s)


@cache
def photographs() -> list[bytes]:
    """JPEGs of 256×256."""
    from PIL import Image

    rng, found = np.random.default_rng(0), list[bytes]()
    for _ in range(64):
        low, out = rng.integers(0, 255, (32, 32, 3), dtype=np.uint8), io.BytesIO()
        Image.fromarray(low).resize((256, 256)).save(out, format="JPEG", quality=90)
        found.append(out.getvalue())
    return found


def decodes(rows: Rows) -> Rows:
    """Each row is a JPEG, made 160×160."""
    from PIL import Image

    found = photographs()
    return np.stack([np.asarray(Image.open(io.BytesIO(found[int(row) % 64])).resize((160, 160))) for row in rows])


def holds(rows: Rows) -> Rows:
    """Holds the interpreter."""
    spin(0.020)
    return rows


def computes(rows: Rows) -> Rows:
    """Holds it for less than the loop does."""
    spin(0.012)
    return rows


def waits(rows: Rows) -> Rows:
    """Waits for something else."""
    time.sleep(0.020)
    return rows


def sorts(rows: Rows) -> Rows:
    """Computes in NumPy, which lets other threads run."""
    np.sort(np.random.default_rng(0).random(3_000_000))
    return rows


def adds(row: Rows) -> Rows:
    """One row, slowly."""
    total = 0
    for number in range(1000):
        total += number
    return row + total // 10


class Loads:
    """The first call takes three seconds."""

    def __init__(self) -> None:
        self._is_loaded = False

    def __call__(self, rows: Rows) -> Rows:
        if not self._is_loaded:
            self._is_loaded = True
            self._load()
        return rows

    def _load(self) -> None:
        time.sleep(3.0)


class Lines(Loads):
    """The first call gets a file of lines from the store, and finds where they begin."""

    def _load(self) -> None:
        self._lines = asked_of_store("text/lines.jsonl").splitlines()


@cache
def _client() -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client("s3", region_name="us-east-1", config=Config(retries={"mode": "standard", "max_attempts": 20}))


def asked_of_store(key: str, **more: str) -> bytes:
    """An object, or the Range of one."""
    found: bytes = _client().get_object(Bucket="data", Key=key, **more)["Body"].read()
    return found


@dataclass(frozen=True, kw_only=True)
class Asks:
    """So many requests to the store for a batch, eight at once. key: of an object, by its number. size: bytes of each, anywhere among the first `of`; 0: whole objects."""

    key: str
    requests: int
    size: int = 0
    of: int = 0

    def __call__(self, rows: Rows) -> Rows:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._ask, rows[:: len(rows) // self.requests]))
        return rows

    def _ask(self, row: Any) -> None:
        number = int(row) * 2_654_435_761 % (self.of // self.size) if self.size else int(row) % 2000
        where = {"Range": f"bytes={number * self.size}-{(number + 1) * self.size - 1}"} if self.size else {}
        asked_of_store(self.key.format(number), **where)


@dataclass(frozen=True)
class Opens:
    """A small file for each row."""

    folder: str = ""

    def __call__(self, rows: Rows) -> Rows:
        for row in rows:
            self.path(row).read_bytes()
        return rows

    def path(self, row: Any) -> Path:
        """Of a file."""
        return Path(self.folder) / f"{int(row) % SMALL_FILES:05}.jpg"

    def write(self) -> None:
        """All files."""
        for number in range(SMALL_FILES):
            self.path(number).write_bytes(b"\xff\xd8\xff" + number.to_bytes(4, "big") * 100)


_TEXT = "Ünïcödé text of which accents are taken away, and whitespace   too. " * 400


def normalizes(rows: Rows) -> Rows:
    """A long text for each row."""
    for _ in rows:
        unicodedata.normalize("NFKD", _TEXT)
    return rows


@dataclass(frozen=True)
class Reads:
    """What a rank's data takes."""

    seconds: float

    def __call__(self, rows: Rows) -> Rows:
        time.sleep(self.seconds)
        return rows


@dataclass(frozen=True)
class Joined:
    """A step behind which all ranks wait for one another."""

    barrier: Any

    def __call__(self) -> None:
        time.sleep(0.020)
        with contextlib.suppress(threading.BrokenBarrierError):
            self.barrier.wait(60)


def of_ranks(context: Any, says: Callable[[Loop], Any], loop: Loop) -> dict[str, Any]:
    """What a tool says in each of four ranks, of which number 2 reads slowly. context: `multiprocessing`'s, or `multiprocessing.dummy` for threads."""
    barrier, told = context.Barrier(4), context.Queue()
    ranks = [replace(loop, function=Reads(0.040 if rank == 2 else 0.001), step=Joined(barrier)) for rank in range(4)]
    running = [context.Process(target=_rank, args=(says, one, barrier, told, at)) for at, one in enumerate(ranks)]
    for one in running:
        one.start()
    found = dict(told.get(timeout=300) for _ in running)
    for one in running:
        one.join()
    return {"ranks": [found[rank] for rank in range(4)]}


def _rank(says: Callable[[Loop], Any], loop: Loop, barrier: Any, told: Any, number: int) -> None:
    found = says(loop)
    barrier.abort()
    told.put((number, found))


def batches(loop: Loop) -> Iterator[Rows]:
    """Numbers of rows, a batch at a time, for ever."""
    first = 0
    while True:
        if loop.source_s:
            time.sleep(loop.source_s)
        yield np.arange(first, first + loop.batch, dtype=np.int64)
        first = (first + loop.batch) % (1 << 16)


def made(loop: Loop, rows: Rows) -> Rows:
    """What the function makes of a batch."""
    if loop.function is None:
        return rows
    return np.stack([loop.function(row) for row in rows]) if loop.by_row else loop.function(rows)


_LARGE = {"key": "large/0.bin", "requests": 1, "size": 2 << 20, "of": 64 << 20}
LOOPS = (
    Loop(
        name="far store, memory=64MB",
        batch=16,
        function=Asks(**_LARGE),
        step=Sleeps(0.040),
        store={"latency_s": 0.8},
        batches=32,
    ),
    Loop(
        name="full line",
        batch=16,
        function=Asks(**_LARGE),
        step=Sleeps(0.020),
        store={"latency_s": 0.01, "bytes_per_s": 32e6},
        batches=64,
    ),
    Loop(
        name="throttled store",
        batch=512,
        function=Asks(key="tokens/0.bin", requests=8, size=64 << 10, of=4 << 20),
        step=Sleeps(0.004),
        store={"latency_s": 0.01, "requests_per_s": 20},
        batches=16,
    ),
    Loop(
        name="small files in a store",
        function=Asks(key="small/{:05}.jpg", requests=32),
        step=Sleeps(0.020),
        store={"latency_s": 0.4},
        batches=16,
    ),
    Loop(
        name="small requests to a store",
        batch=16,
        function=Asks(key="huge/0.bin", requests=16, size=32 << 10, of=8 << 30),
        step=Sleeps(0.010),
        store={"latency_s": 0.4},
        batches=16,
    ),
    Loop(
        name="memory=5MB",
        batch=16,
        function=Asks(**_LARGE),
        workers=1,
        prefetch=1,
        step=Sleeps(0.020),
        store={"latency_s": 0.06},
        batches=64,
    ),
    Loop(
        name="cold index",
        batch=64,
        function=Lines(),
        workers=1,
        step=Sleeps(0.010),
        store={"latency_s": 0.01, "bytes_per_s": 8e6},
    ),
    Loop(name="small local files", batch=1000, function=Opens(), step=Sleeps(0.006)),
    Loop(name="slow iterable", source_s=0.030, workers=1, step=Sleeps(0.015)),
    Loop(name="decoding", batch=64, function=decodes, step=Sleeps(0.015)),
    Loop(name="cpus=1", batch=64, function=decodes, workers=1, step=Sleeps(0.005)),
    Loop(name="an op on text", batch=128, function=normalizes, step=Sleeps(0.006), batches=64),
    Loop(name="noisy neighbour", batch=64, function=decodes, step=Sleeps(0.005), noisy=True),
    Loop(name="function holds the interpreter", function=holds, step=Sleeps(0.005)),
    Loop(name="function waits", function=waits, workers=1, step=Sleeps(0.010)),
    Loop(name="function for each row", batch=1024, function=adds, by_row=True, step=Sleeps(0.010)),
    Loop(name="function on all cores", function=sorts, step=Sleeps(0.006)),
    Loop(name="loop holds the interpreter", function=computes, step=Spins(0.020)),
    Loop(name="batches of eight numbers", batch=8),
    Loop(name="model-bound", batch=64, function=decodes, step=Sleeps(0.150)),
    Loop(name="long start", function=Loads(), workers=1, step=Sleeps(0.010)),
    Loop(name="long steps now and then", step=Uneven(0.010, 0.120)),
    Loop(name="one slow rank of four", workers=1, is_of_four=True),
)


def asked() -> list[Loop]:
    """Those that the command line names behind the seconds; all without a name."""
    return [one for one in LOOPS if one.name in sys.argv[2:] or not sys.argv[2:]]


def tell(context: Any, says: Callable[[Loop], Any]) -> None:
    """Prints what a tool says of each loop that is asked for."""
    for one in asked():
        with tempfile.TemporaryDirectory() as folder:
            loop = one
            if isinstance(one.function, Opens):
                files = Opens(folder)
                files.write()
                loop = replace(one, function=files)
            found = of_ranks(context, says, loop) if loop.is_of_four else says(loop)
        print(json.dumps({"name": one.name, "says": found}), flush=True)
