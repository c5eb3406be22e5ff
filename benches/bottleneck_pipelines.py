"""Pipelines whose bottleneck is known, and the same with the remedy: for benches/bottlenecks.py."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from bottleneck_store import SMALL, WINDOW

HERE = Path(__file__).parent
Batch = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A pipeline to run. step: what the consumer does with each batch. close: what ends with it."""

    dataset: ps.Dataset
    options: dict[str, Any] = field(default_factory=dict)
    step: Callable[[Batch], object] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """rule: what the verdict must name. make: (whether the remedy is applied, a folder) → what is run. store: what the store is told."""

    name: str
    rule: str
    make: Callable[[bool, Path], Made]
    remedy: str
    store: dict[str, float] = field(default_factory=dict)
    around: Callable[[bool], Any] = lambda _: contextlib.nullcontext()


def sleeps(seconds: float) -> Callable[[Batch], None]:
    """A step that waits for a GPU."""
    return lambda _: time.sleep(seconds)


def spin(seconds: float) -> None:
    """Pure Python for so much of the thread's own CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        for _ in range(100):
            pass


# What is read


def numbers(rows: int = 1 << 16, batch: int = 32) -> ps.Dataset:
    """Rows in memory."""
    return ps.from_arrays({"x": np.arange(rows)}).shuffle(seed=0)


def tokens(where: str = "tokens", **shuffle: Any) -> ps.Dataset:
    """Windows of tokens in the store."""
    data = ps.read(f"s3://data/{where}/", format="tokens", dtype="uint16", window=WINDOW)
    return data.shuffle(seed=0, **shuffle) if shuffle else data.shuffle(seed=0)


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


def heavy() -> ps.Dataset:
    """Rows of 256 KB in memory: a batch of 32 is 8 MB, and made by itself."""
    return ps.from_arrays({"x": np.zeros((256, 1 << 18), dtype=np.uint8)})


def decoded(folder: Path) -> ps.Dataset:
    """JPEGs, decoded and cropped."""
    crop = [ps.image.Decode(), ps.image.RandomResizedCrop(160)]
    return ps.read(photos(folder)).shuffle(seed=0).transform(image=crop)


# The store


def few_requests(is_better: bool, _: Path) -> Made:
    data = ps.read("s3://data/large/", format="tokens", dtype="uint16", window=1 << 16).cache_local(0).batch(16)
    return Made(dataset=data, options={} if is_better else {"prefetch": 1}, step=sleeps(0.040))


def saturated_line(is_better: bool, folder: Path) -> Made:
    data = tokens()
    return Made(dataset=_kept(data, folder, is_better).batch(256), step=sleeps(0.010))


def throttled(is_better: bool, folder: Path) -> Made:
    return Made(dataset=_kept(tokens(), folder, is_better).batch(256), step=sleeps(0.004))


def _kept(data: ps.Dataset, folder: Path, is_better: bool) -> ps.Dataset:
    """Through a cache on the disk that has everything, or through none."""
    if not is_better:
        return data.cache_local(0)
    data = data.cache_local("1GB", str(folder / "cache"))
    with ps.Loader(data.batch(256), epochs=1) as loader:
        for _ in loader:
            pass
    return data


def small_files(is_better: bool, _: Path) -> Made:
    where = "s3://data/packed/small.tar" if is_better else "s3://data/small/"
    return Made(dataset=ps.read(where).cache_local(0).shuffle(seed=0).batch(64), step=sleeps(0.003))


def memory_budget(is_better: bool, _: Path) -> Made:
    data = ps.read("s3://data/large/", format="tokens", dtype="uint16", window=1 << 16).cache_local(0).batch(16)
    return Made(dataset=data, options={} if is_better else {"memory": "5MB"}, step=sleeps(0.020))


def download(is_better: bool, folder: Path) -> Made:
    os.environ["PENSTOCK_CACHE_DIR"] = os.environ["XDG_CACHE_HOME"] = str(folder / "derived")
    if is_better:
        ps.read("s3://data/text/lines.jsonl.gz")
    return Made(dataset=ps.read("s3://data/text/lines.jsonl.gz").shuffle(seed=0).batch(64), step=sleeps(0.005))


# Files of this machine, and streams


def small_local_files(is_better: bool, folder: Path) -> Made:
    where, packed = folder / "small" / "a", folder / "small.tar"
    if not where.exists():
        where.mkdir(parents=True)
        with tarfile.open(packed, "w") as tar:
            for number in range(SMALL):
                content = b"\xff\xd8\xff" + number.to_bytes(4, "big") * 100
                (where / f"{number:05}.jpg").write_bytes(content)
                entry = tarfile.TarInfo(f"{number:05}.jpg")
                entry.size = len(content)
                tar.addfile(entry, BytesIO(content))
    data = ps.read(str(packed if is_better else where.parent)).shuffle(seed=0).batch(2048)
    return Made(dataset=data, step=sleeps(0.003))


def slow_source(is_better: bool, _: Path) -> Made:
    def rows() -> Iterator[Batch]:
        for number in range(1 << 16):
            if not is_better and number % 32 == 0:
                time.sleep(0.015)
            yield {"x": number}

    return Made(dataset=ps.from_iterable(rows, samples=1 << 16, spool=False).batch(32), step=sleeps(0.008))


# Cores


def decode(is_better: bool, folder: Path) -> Made:
    if is_better:
        small = ps.read(photos(folder)).transform(image=[ps.image.Decode(), ps.image.Resize(160)]).cache()
        return Made(dataset=small.shuffle(seed=0).batch(64), step=sleeps(0.010))
    return Made(dataset=decoded(folder).batch(64), step=sleeps(0.010))


def fixed_cpus(is_better: bool, folder: Path) -> Made:
    return Made(dataset=decoded(folder).batch(64), options={} if is_better else {"cpus": 1}, step=sleeps(0.002))


def busy_cpus(is_better: bool, _: Path) -> Made:
    text = "Ünïcödé text of which accents are taken away, and whitespace   too. " * 400
    data = ps.from_arrays({"text": [text] * 512, "x": np.arange(512)}).shuffle(seed=0)
    if not is_better:
        data = data.transform(text=ps.text.Normalize("NFKD"))
    return Made(dataset=data.batch(32), step=sleeps(0.010))


@contextlib.contextmanager
def _burners(is_better: bool) -> Iterator[None]:
    """Other programs, one a core."""
    code = "while True: pass"
    running = [] if is_better else [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def noisy_neighbour(_: bool, folder: Path) -> Made:
    return Made(dataset=decoded(folder).batch(64), step=sleeps(0.002))


# Functions


def holds(batch: Batch) -> Batch:
    spin(0.02)
    return batch


def computes(batch: Batch) -> Batch:
    spin(0.006)
    return batch


def waits(batch: Batch) -> Batch:
    time.sleep(0.02)
    return batch


def row_by_row(row: Batch) -> Batch:
    total = 0
    for number in range(100):
        total += number
    return {"x": row["x"] + total}


def whole(batch: Batch) -> Batch:
    return {"x": batch["x"] + 4950}


def sorts(batch: Batch) -> Batch:
    np.sort(np.random.default_rng(0).random(400_000))
    return batch


def function_holds(is_better: bool, _: Path) -> Made:
    data = numbers().map(holds, workers="process" if is_better else "thread").batch(32)
    return Made(dataset=data, step=sleeps(0.004))


def function_waits(is_better: bool, _: Path) -> Made:
    return Made(dataset=numbers().map(waits).batch(32), options={"cpus": 4 if is_better else 1}, step=sleeps(0.008))


def function_by_row(is_better: bool, _: Path) -> Made:
    data = numbers().map(whole) if is_better else numbers().map_rows(row_by_row)
    return Made(dataset=data.batch(2048), step=sleeps(0.008))


def slow_function(is_better: bool, _: Path) -> Made:
    data = numbers() if is_better else numbers().map(sorts)
    return Made(dataset=data.batch(32), step=sleeps(0.006))


# The loop, and what is ahead of it


def held_interpreter(is_better: bool, _: Path) -> Made:
    data = numbers().map(computes).batch(256)
    return Made(dataset=data, options={"isolation": "process"} if is_better else {}, step=lambda _: spin(0.010))


def tiny_batches(is_better: bool, folder: Path) -> Made:
    return Made(dataset=ps.read(photos(folder)).shuffle(seed=0).batch(64 if is_better else 1))


def few_ahead(is_better: bool, _: Path) -> Made:
    data = numbers().map(waits).batch(32)
    return Made(dataset=data, options={} if is_better else {"prefetch": 1}, step=_uneven(0.004, 0.040))


def _uneven(short_s: float, long_s: float) -> Callable[[Batch], None]:
    count = 0

    def step(_: Batch) -> None:
        nonlocal count
        count += 1
        time.sleep(long_s if count % 8 == 0 else short_s)

    return step


def device_copy(is_better: bool, _: Path) -> Made:
    from penstock.deliver import torch as delivery

    class Copies(delivery.ToTorch):  # type: ignore[misc]
        def __init__(self, device: Any = None) -> None:
            super().__init__(device)
            self.copies = True

        def finish(self, columns: Any, *rest: Any) -> Any:
            time.sleep(0.010 if is_better else 0.040)
            return super().finish(columns, *rest)

    delivery.ToTorch = Copies  # type: ignore[misc]
    return Made(dataset=heavy().batch(32), options={"to": "torch"}, step=sleeps(0.012))


def long_start(is_better: bool, _: Path) -> Made:
    seen = []

    def loads(batch: Batch) -> Batch:
        if not seen:
            seen.append(1)
            time.sleep(0.0 if is_better else 3.0)
        return batch

    return Made(dataset=numbers().map(loads).batch(32), step=sleeps(0.005))


def outliers(is_better: bool, _: Path) -> Made:
    return Made(dataset=numbers().batch(32), step=sleeps(0.004) if is_better else _uneven(0.004, 0.060))


# One slow rank of four, which all wait for


def slow_rank(is_better: bool, _: Path) -> Made:
    return _ranks(2, is_better)


def this_slow_rank(is_better: bool, _: Path) -> Made:
    return _ranks(0, is_better)


def _ranks(slow: int, is_better: bool) -> Made:
    os.environ["PENSTOCK_TRAINING"] = str(os.getpid())
    barrier = threading.Barrier(4)

    def data_of(rank: int) -> ps.Dataset:
        def reads(batch: Batch) -> Batch:
            time.sleep(0.020 if rank == slow and not is_better else 0.001)
            return batch

        return numbers().map(reads).batch(128)

    def trains(rank: int) -> None:
        with (
            ps.Loader(data_of(rank), rank=rank, world_size=4, cpus=1) as loader,
            contextlib.suppress(threading.BrokenBarrierError),
        ):
            while True:
                for _ in loader:
                    time.sleep(0.010)
                    barrier.wait()

    def step(_: Batch) -> None:
        time.sleep(0.010)
        barrier.wait()

    for rank in (1, 2, 3):
        threading.Thread(target=trains, args=(rank,), daemon=True).start()
    return Made(dataset=data_of(0), options={"rank": 0, "world_size": 4, "cpus": 1}, step=step)


#: Of each store: answers after so long, so many bytes a second, so many requests a second.
_FAR = {"latency_s": 0.8}

PIPELINES = (
    Pipeline(name="far store, prefetch=1", rule="few_requests", make=few_requests, remedy="prefetch tuned", store=_FAR),
    Pipeline(
        name="full line",
        rule="saturated_line",
        make=saturated_line,
        remedy="cache_local",
        store={"latency_s": 0.01, "bytes_per_s": 8e6},
    ),
    Pipeline(
        name="throttled store",
        rule="throttled_store",
        make=throttled,
        remedy="cache_local",
        store={"latency_s": 0.01, "requests_per_s": 30},
    ),
    Pipeline(
        name="small files in a store", rule="small_files", make=small_files, remedy="one tar", store={"latency_s": 0.05}
    ),
    Pipeline(
        name="memory=5MB", rule="memory_budget", make=memory_budget, remedy="default memory", store={"latency_s": 0.06}
    ),
    Pipeline(
        name="cold download",
        rule="long_start",
        make=download,
        remedy="downloaded before",
        store={"latency_s": 0.01, "bytes_per_s": 5e5},
    ),
    Pipeline(name="small local files", rule="small_local_files", make=small_local_files, remedy="one tar"),
    Pipeline(name="slow iterable", rule="slow_source", make=slow_source, remedy="a fast one"),
    Pipeline(name="decoding", rule="decode", make=decode, remedy="cache() behind it"),
    Pipeline(name="cpus=1", rule="fixed_cpus", make=fixed_cpus, remedy="cpus tuned"),
    Pipeline(name="an op on text", rule="busy_cpus", make=busy_cpus, remedy="without it"),
    Pipeline(name="noisy neighbour", rule="noisy_neighbour", make=noisy_neighbour, remedy="it ends", around=_burners),
    Pipeline(
        name="function holds the interpreter",
        rule="function_holds_interpreter",
        make=function_holds,
        remedy="workers='process'",
    ),
    Pipeline(name="function waits", rule="waiting_function", make=function_waits, remedy="cpus=4"),
    Pipeline(name="function for each row", rule="function_by_row", make=function_by_row, remedy="map"),
    Pipeline(name="function on all cores", rule="slow_function", make=slow_function, remedy="without it"),
    Pipeline(
        name="loop holds the interpreter", rule="held_interpreter", make=held_interpreter, remedy="isolation='process'"
    ),
    Pipeline(name="batches of one row", rule="tiny_batches", make=tiny_batches, remedy="batch(64)"),
    Pipeline(name="prefetch=1, uneven steps", rule="few_ahead", make=few_ahead, remedy="prefetch tuned"),
    Pipeline(name="copy to the device", rule="device_copy", make=device_copy, remedy="a quarter of the bytes"),
    Pipeline(name="long start", rule="long_start", make=long_start, remedy="loaded before"),
    Pipeline(name="long steps now and then", rule="step_outliers", make=outliers, remedy="without them"),
    Pipeline(name="this rank of four is slow", rule="slow_rank", make=this_slow_rank, remedy="as fast as the others"),
    Pipeline(name="one slow rank of four", rule="slow_rank", make=slow_rank, remedy="as fast as the others"),
)


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
