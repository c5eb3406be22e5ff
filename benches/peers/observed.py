"""Loops with a known bottleneck in NumPy and Python alone, for what other projects' tools say of them: see benches/bottleneck_peers.py."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Rows = Any


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
    noisy: other programs take the cores.
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
            time.sleep(3.0)
        return rows


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


LOOPS = (
    Loop(name="slow iterable", source_s=0.030, workers=1, step=Sleeps(0.015)),
    Loop(name="decoding", batch=64, function=decodes, step=Sleeps(0.015)),
    Loop(name="cpus=1", batch=64, function=decodes, workers=1, step=Sleeps(0.005)),
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
)


def asked() -> list[Loop]:
    """Those that the command line names behind the seconds; all without a name."""
    return [one for one in LOOPS if one.name in sys.argv[2:] or not sys.argv[2:]]
