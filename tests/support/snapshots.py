"""Snapshots by hand, as loaders make them."""

from __future__ import annotations

import time
from dataclasses import replace

from penstock.observe.events import Event
from penstock.observe.figure_groups import CacheFigures, ErrorFigures, MemoryFigures, StorageFigures, TuningFigures
from penstock.observe.snapshot import Gpu, Identity, Machine, Snapshot, StageFigures, Times

TIMES = Times(count=40, p50_s=0.001, p95_s=0.002, p99_s=0.003, most_s=0.004)


def a_stage(name: str, kind: str = "cpu", **more: object) -> StageFigures:
    found = StageFigures(
        name=name,
        kind=kind,
        threads=2,
        items=10,
        samples=2560,
        bytes=1_000_000,
        samples_per_s=2560.0,
        bytes_per_s=1e6,
        busy=0.5,
        waiting_for_input=0.25,
        waiting_for_output=0.125,
        queue_depth=3,
        queue_limit=4,
        item_s=TIMES,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def a_snapshot(**more: object) -> Snapshot:
    """A loader of 10 batches, with all that a snapshot may hold."""
    found = Snapshot(
        at=time.time(),
        loader=Identity(pid=1, host="host", number=0, name="train-*.tfrecord", rank=3, world_size=8, started_at=1.0),
        epoch=1,
        step_number=10,
        samples=2560,
        batches=10,
        bytes=1_000_000,
        elapsed_s=1.0,
        samples_per_s=2560.0,
        first_batch_s=0.25,
        waited=0.125,
        waited_s=0.125,
        wait=TIMES,
        step=TIMES,
        ready=0.75,
        verdict="Limited by 'transform'.",
        bottleneck="transform",
        decoders={"jpeg": 2560, "other": 0},
        storage=StorageFigures(
            requests=10,
            retries=1,
            hedges=0,
            bytes=1_000_000,
            in_flight=3.5,
            in_flight_limit=32,
            latency_p50_s=0.01,
            latency_p95_s=0.02,
            latency_p99_s=0.03,
            cache_hits=5,
            cache_misses=5,
            cache_bytes=500,
        ),
        memory=MemoryFigures(held_bytes=100, most_bytes=200, budget_bytes=300),
        errors=ErrorFigures(samples=2, met=3, sources={"secret-place/b.tfrecord": 2}),
        stalls=1,
        tuning=TuningFigures(changes=2),
        cache=(CacheFigures(where="/home/someone/rows", rows=5, size_bytes=50, hits=4, made=5),),
        stages=(a_stage("read", "io"), a_stage("transform"), a_stage("transform"), a_stage("map <lambda>", "python")),
        machine=Machine(cores=8, cpu=0.5, process_cpu=0.25, io_wait=0.0, memory_bytes=1 << 30),
        gpus=(Gpu(index=0, name="H200", kernel_time=0.9, memory_bytes=1, memory_limit_bytes=2, power_w=300.0, sm=0.5),),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def some_events(count: int = 4, begin_ns: int | None = None) -> list[Event]:
    """Work of 1 ms a stage, 2 ms apart, in two threads, then a wait in a third."""
    begin = time.perf_counter_ns() if begin_ns is None else begin_ns
    made = [
        Event("read" if number % 2 == 0 else "transform", "cpu", begin + number * 2_000_000, begin + number * 2_000_000 + 1_000_000, 100 + number % 2, 0, number, 1, 256, 1000)
        for number in range(count)
    ]  # fmt: skip
    last = begin + count * 2_000_000
    return [*made, Event("wait", "wait", last, last + 500_000, 99)]
