"""What the pipelines of benches/bottlenecks.py read, and what they do with a batch; and the ten loops that no faster data would make faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

Batch = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A pipeline to run. step: what the consumer does with each batch."""

    dataset: ps.Dataset
    options: dict[str, Any] = field(default_factory=dict)
    step: Callable[[Batch], object] = lambda _: None


# The loop


def sleeps(seconds: float) -> Callable[[Batch], None]:
    """A step that waits for a GPU."""
    return lambda _: time.sleep(seconds)


def uneven(short_s: float, long_s: float) -> Callable[[Batch], None]:
    """Every eighth step is long."""
    count = 0

    def step(_: Batch) -> None:
        nonlocal count
        count += 1
        time.sleep(long_s if count % 8 == 0 else short_s)

    return step


def spin(seconds: float) -> None:
    """Pure Python for so much of the thread's own CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        for _ in range(100):
            pass


# What is read


def numbers(rows: int = 1 << 16) -> ps.Dataset:
    """Rows in memory."""
    return ps.from_arrays({"x": np.arange(rows)}).shuffle(seed=0)


def heavy() -> ps.Dataset:
    """Rows of 256 KB in memory: a batch of 32 is 8 MB, and made by itself."""
    return ps.from_arrays({"x": np.zeros((256, 1 << 18), dtype=np.uint8)})


def tokens() -> ps.Dataset:
    """Windows of 1 KB in the store, mixed."""
    return ps.read("s3://data/tokens/", format="tokens", dtype="uint16", window=512).shuffle(seed=0)


def sparse() -> ps.Dataset:
    """Windows of 32 KB of a file in the store that is much larger than what is read of it."""
    return ps.read("s3://data/huge/", format="tokens", dtype="uint16", window=1 << 14).cache_local(0)


def large(rows: int) -> ps.Dataset:
    """Batches of windows of 128 KB in the store."""
    return ps.read("s3://data/large/", format="tokens", dtype="uint16", window=1 << 16).batch(rows)


def photos(folder: Path, count: int = 256, side: int = 256) -> str:
    """A folder of JPEGs."""
    from PIL import Image

    where = folder / "photos" / "a"
    if not where.exists():
        where.mkdir(parents=True)
        rng = np.random.default_rng(0)
        for number in range(count):
            low = rng.integers(0, 255, (side // 8, side // 8, 3), dtype=np.uint8)
            Image.fromarray(low).resize((side, side)).save(where / f"{number}.jpg", quality=90)
    return str(where.parent)


def decoded(folder: Path) -> ps.Dataset:
    """JPEGs, decoded and cropped."""
    crop = [ps.image.Decode(), ps.image.RandomResizedCrop(160)]
    return ps.read(photos(folder)).shuffle(seed=0).transform(image=crop)


# Functions


def holds(batch: Batch) -> Batch:
    """Holds the interpreter."""
    spin(0.02)
    return batch


def waits(batch: Batch) -> Batch:
    """Waits for something else."""
    time.sleep(0.02)
    return batch


def whole(batch: Batch) -> Batch:
    """A batch at once."""
    return {"x": batch["x"] + 49_950}


# Loops that no faster data would make faster


def _model_bound() -> Iterator[tuple[str, Callable[[Path], Made]]]:
    yield "decoding, 80 ms a step", lambda folder: Made(dataset=decoded(folder).batch(16), step=sleeps(0.08))
    yield "in memory, 2 ms a step", lambda _: Made(dataset=numbers().batch(32), step=sleeps(0.002))
    yield "in memory, 20 ms a step", lambda _: Made(dataset=numbers().batch(32), step=sleeps(0.02))
    yield "a function that waits", lambda _: Made(dataset=numbers().map(waits).batch(32), step=sleeps(0.03))
    yield "a function in Python", lambda _: Made(dataset=numbers().map(holds).batch(32), step=sleeps(0.06))
    yield "processes", lambda _: Made(dataset=numbers().map(holds, workers="process").batch(32), step=sleeps(0.05))
    yield (
        "isolated, a loop in Python",
        lambda _: Made(dataset=numbers().batch(32), options={"isolation": "process"}, step=lambda _: spin(0.02)),
    )
    yield (
        "a matrix on the CPU",
        lambda _: Made(dataset=numbers().batch(512), step=lambda _: np.linalg.svd(np.ones((160, 160)))),
    )
    yield (
        "memory=64MB",
        lambda folder: Made(dataset=decoded(folder).batch(16), options={"memory": "64MB"}, step=sleeps(0.08)),
    )
    yield (
        "prefetch=1",
        lambda _: Made(dataset=numbers().map(whole).batch(32), options={"prefetch": 1}, step=sleeps(0.02)),
    )


#: Loops that no faster data would make faster.
MODEL_BOUND = dict(_model_bound())
