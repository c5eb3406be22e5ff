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
from bottleneck_data import (
    Batch,
    Made,
    decoded,
    heavy,
    holds,
    large,
    numbers,
    photos,
    sleeps,
    sparse,
    spin,
    tokens,
    uneven,
    waits,
    whole,
)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """rule: what the verdict must name. make: (whether the remedy is applied, a folder) → what is run. store: what the store is told. neighbours: whether other programs take the cores.

    is_start: what is lost is the start, so that the rate counts from there on. before: what is done before the clock starts. longer: than others, as what is asked again comes in any order.
    """

    name: str
    rule: str
    make: Callable[[bool, Path], Made]
    remedy: str
    store: dict[str, float] = field(default_factory=dict)
    neighbours: bool = False
    is_start: bool = False
    longer: float = 1.0
    before: Callable[[bool, Path], None] = lambda _, __: None


# The store


def few_requests(is_better: bool, _: Path) -> Made:
    data = large(16).cache_local(0)
    return Made(dataset=data, options={} if is_better else {"memory": "64MB"}, step=sleeps(0.040))


def small_requests(is_better: bool, _: Path) -> Made:
    data = sparse().shuffle(seed=0, mode="block" if is_better else "global")
    return Made(dataset=data.batch(16), step=sleeps(0.010))


def saturated_line(is_better: bool, folder: Path) -> Made:
    return Made(dataset=_kept(large(16), folder, is_better), step=sleeps(0.020))


def throttled(is_better: bool, folder: Path) -> Made:
    return Made(dataset=_kept(tokens().batch(512), folder, is_better), step=sleeps(0.004))


def _kept(data: ps.Dataset, folder: Path, is_better: bool) -> ps.Dataset:
    """Through a cache on the disk that has everything, or through none."""
    if not is_better:
        return data.cache_local(0)
    data = data.cache_local("1GB", str(folder / "cache"))
    with ps.Loader(data, epochs=1) as loader:
        for _ in loader:
            pass
    return data


def small_files(is_better: bool, _: Path) -> Made:
    where = "s3://data/packed/small.tar" if is_better else "s3://data/small/"
    return Made(dataset=ps.read(where).cache_local(0).shuffle(seed=0).batch(32), step=sleeps(0.020))


def memory_budget(is_better: bool, _: Path) -> Made:
    data = large(16).cache_local(0)
    return Made(dataset=data, options={} if is_better else {"memory": "5MB"}, step=sleeps(0.020))


_LINES = "s3://data/text/lines.jsonl"


def cold_index(_: bool, __: Path) -> Made:
    return Made(dataset=ps.read(_LINES).shuffle(seed=0).batch(64), step=sleeps(0.010))


def _indexed(is_better: bool, folder: Path) -> None:
    """In a cache of derived files of its own, made before or not."""
    os.environ["PENSTOCK_CACHE_DIR"] = os.environ["XDG_CACHE_HOME"] = str(folder / "derived")
    if is_better:
        subprocess.run([sys.executable, "-m", "penstock", "index", _LINES], check=True, capture_output=True)


# Files of this machine, and streams


def small_local_files(is_better: bool, folder: Path) -> Made:
    where, packed, count = folder / "small" / "a", folder / "small.tar", 8000
    where.mkdir(parents=True)
    with tarfile.open(packed, "w") as tar:
        for number in range(count):
            content = b"\xff\xd8\xff" + number.to_bytes(4, "big") * 100
            (where / f"{number:05}.jpg").write_bytes(content)
            entry = tarfile.TarInfo(f"{number:05}.jpg")
            entry.size = len(content)
            tar.addfile(entry, BytesIO(content))
    data = ps.read(str(packed if is_better else where.parent)).shuffle(seed=0).batch(8000)
    return Made(dataset=data, step=sleeps(0.006))


def slow_source(is_better: bool, _: Path) -> Made:
    def rows() -> Iterator[Batch]:
        for number in range(1 << 16):
            if not is_better and number % 32 == 0:
                time.sleep(0.030)
            yield {"x": number}

    return Made(dataset=ps.from_iterable(rows, samples=1 << 16, spool=False).batch(32), step=sleeps(0.015))


# Cores


def decode(is_better: bool, folder: Path) -> Made:
    return Made(dataset=(_cached(folder) if is_better else decoded(folder)).batch(128), step=sleeps(0.004))


def _cached(folder: Path) -> ps.Dataset:
    """Decoded once."""
    small = ps.read(photos(folder)).transform(image=[ps.image.Decode(), ps.image.Resize(160)]).cache()
    return small.shuffle(seed=0)


def fixed_cpus(is_better: bool, folder: Path) -> Made:
    return Made(dataset=decoded(folder).batch(64), options={} if is_better else {"cpus": 1}, step=sleeps(0.005))


def busy_cpus(is_better: bool, _: Path) -> Made:
    text = "Ünïcödé text of which accents are taken away, and whitespace   too. " * 400
    data = ps.from_arrays({"text": [text] * 512, "x": np.arange(512)}).shuffle(seed=0)
    if not is_better:
        data = data.transform(text=ps.text.Normalize("NFKD"))
    return Made(dataset=data.batch(128), step=sleeps(0.006))


def noisy_neighbour(_: bool, folder: Path) -> Made:
    return Made(dataset=decoded(folder).batch(64), step=sleeps(0.005))


# Functions


def computes(batch: Batch) -> Batch:
    spin(0.012)
    return batch


def row_by_row(row: Batch) -> Batch:
    total = 0
    for number in range(1000):
        total += number
    return {"x": row["x"] + total // 10}


def sorts(batch: Batch) -> Batch:
    np.sort(np.random.default_rng(0).random(3_000_000))
    return batch


def function_holds(is_better: bool, _: Path) -> Made:
    data = numbers().map(holds, workers="process" if is_better else "thread").batch(32)
    return Made(dataset=data, step=sleeps(0.005))


def function_waits(is_better: bool, _: Path) -> Made:
    return Made(dataset=numbers().map(waits).batch(32), options={"cpus": 4 if is_better else 1}, step=sleeps(0.010))


def function_by_row(is_better: bool, _: Path) -> Made:
    data = numbers().map(whole) if is_better else numbers().map_rows(row_by_row)
    return Made(dataset=data.batch(1024), step=sleeps(0.010))


def slow_function(is_better: bool, _: Path) -> Made:
    data = numbers() if is_better else numbers().map(sorts)
    return Made(dataset=data.batch(32), step=sleeps(0.006))


# The loop, and what is ahead of it


def held_interpreter(is_better: bool, _: Path) -> Made:
    data = numbers().map(computes).batch(256)
    return Made(dataset=data, options={"isolation": "process"} if is_better else {}, step=lambda _: spin(0.020))


def tiny_batches(is_better: bool, _: Path) -> Made:
    return Made(dataset=numbers().batch(64 if is_better else 8))


def model_bound(is_better: bool, folder: Path) -> Made:
    """What is said to gain nothing gains nothing."""
    return Made(dataset=(_cached(folder) if is_better else decoded(folder)).batch(64), step=sleeps(0.030))


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

    return Made(dataset=numbers().map(loads).batch(32), step=sleeps(0.010))


def outliers(is_better: bool, _: Path) -> Made:
    return Made(dataset=numbers().batch(32), step=sleeps(0.010) if is_better else uneven(0.010, 0.120))


def slow_rank(is_better: bool, _: Path) -> Made:
    """One of four, which all wait for; this is not the slow one."""
    os.environ["PENSTOCK_TRAINING"] = str(os.getpid())
    barrier = threading.Barrier(4)

    def data_of(rank: int) -> ps.Dataset:
        def reads(batch: Batch) -> Batch:
            time.sleep(0.040 if rank == 2 and not is_better else 0.001)
            return batch

        return numbers().map(reads).batch(128)

    def step(_: Batch) -> None:
        time.sleep(0.020)
        barrier.wait()

    def trains(rank: int) -> None:
        with (
            ps.Loader(data_of(rank), rank=rank, world_size=4, cpus=1) as loader,
            contextlib.suppress(threading.BrokenBarrierError),
        ):
            while True:
                for batch in loader:
                    step(batch)

    for rank in (1, 2, 3):
        threading.Thread(target=trains, args=(rank,), daemon=True).start()
    return Made(dataset=data_of(0), options={"rank": 0, "world_size": 4, "cpus": 1}, step=step)


PIPELINES = (
    Pipeline(
        name="far store, memory=64MB",
        rule="few_requests",
        make=few_requests,
        remedy="default memory",
        store={"latency_s": 0.8},
    ),
    Pipeline(
        name="full line",
        rule="saturated_line",
        make=saturated_line,
        remedy="cache_local",
        store={"latency_s": 0.01, "bytes_per_s": 32e6},
    ),
    Pipeline(
        name="throttled store",
        rule="throttled_store",
        make=throttled,
        remedy="cache_local",
        store={"latency_s": 0.01, "requests_per_s": 20},
        longer=2.5,
    ),
    Pipeline(
        name="small files in a store", rule="small_files", make=small_files, remedy="one tar", store={"latency_s": 0.4}
    ),
    Pipeline(
        name="small requests to a store",
        rule="small_requests",
        make=small_requests,
        remedy="shuffle(mode='block')",
        store={"latency_s": 0.4},
    ),
    Pipeline(
        name="memory=5MB", rule="memory_budget", make=memory_budget, remedy="default memory", store={"latency_s": 0.06}
    ),
    Pipeline(
        name="cold index",
        rule="long_start",
        make=cold_index,
        remedy="penstock index before",
        store={"latency_s": 0.01, "bytes_per_s": 8e6},
        is_start=True,
        before=_indexed,
    ),
    Pipeline(name="small local files", rule="small_local_files", make=small_local_files, remedy="one tar"),
    Pipeline(name="slow iterable", rule="slow_source", make=slow_source, remedy="a fast one"),
    Pipeline(name="decoding", rule="decode", make=decode, remedy="cache() behind it"),
    Pipeline(name="cpus=1", rule="fixed_cpus", make=fixed_cpus, remedy="cpus tuned"),
    Pipeline(name="an op on text", rule="busy_cpus", make=busy_cpus, remedy="without it"),
    Pipeline(name="noisy neighbour", rule="noisy_neighbour", make=noisy_neighbour, remedy="it ends", neighbours=True),
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
    Pipeline(name="batches of eight numbers", rule="tiny_batches", make=tiny_batches, remedy="batch(64)"),
    Pipeline(name="model-bound", rule="model", make=model_bound, remedy="cached data, which gains nothing"),
    Pipeline(name="copy to the device", rule="device_copy", make=device_copy, remedy="a quarter of the bytes"),
    Pipeline(name="long start", rule="long_start", make=long_start, remedy="loaded before", is_start=True),
    Pipeline(name="long steps now and then", rule="step_outliers", make=outliers, remedy="without them"),
    Pipeline(name="one slow rank of four", rule="slow_rank", make=slow_rank, remedy="as fast as the others"),
)
