"""Runs by hand: snapshots as a loader makes them, twice a second, whose figures follow from the number of the snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.observe.figure_groups import (
    CacheFigures,
    ErrorFigures,
    MemoryFigures,
    StorageFigures,
    TunedNumber,
    TuningDecision,
    TuningFigures,
)
from penstock.observe.snapshot import Advice, Gpu, Identity, Machine, RankFigures, Snapshot, StageFigures, Times


def times(count: int, p50_s: float) -> Times:
    return Times(count=count, p50_s=p50_s, p95_s=2 * p50_s, p99_s=4 * p50_s, most_s=9 * p50_s)


def stage(name: str, kind: str, rate: float, busy: float, p50_s: float) -> StageFigures:
    return StageFigures(
        name=name, kind=kind, threads=4, items=100, samples=25_600, bytes=10**8, samples_per_s=rate, bytes_per_s=1e8, busy=busy, waiting_for_input=0.9 * (1 - busy),
        waiting_for_output=0.1 * (1 - busy), queue_depth=3, queue_limit=8, item_s=times(100, p50_s),
    )  # fmt: skip


STAGES = (("read", "io", 0.31, 0.034), ("transform", "cpu", 0.97, 0.21), ("map look_up", "python", 0.22, 0.012))
DECISIONS = (
    TuningDecision(at_s=2.0, knob="kernels", from_=2, to=4, why="the consumer waited"),
    TuningDecision(at_s=9.5, knob="read", from_=2, to=4, why="the rate rose"),
)


def a_run(
    count: int, *, rate: float = 1000.0, ranks: int = 4, slow: int = 2, name: str = "train-*.tfrecord", **more: Any
) -> Iterator[Snapshot]:
    """`count` snapshots; slow: the rank that waits most. more: what is different in each."""
    others = tuple(RankFigures(rank=rank, host=f"node-{rank // 8:02}", pid=rank, at=1.79e9, samples_per_s=rate, waited=0.5 if rank == slow else 0.01, ready=0.1 if rank == slow else 0.9, step_s=times(9, 0.12)) for rank in range(1, ranks))  # fmt: skip
    for number in range(1, count + 1):
        elapsed_s, samples = 0.5 * number, int(0.5 * number * rate)
        figures: dict[str, Any] = {
            "at": 1.79e9 + elapsed_s,
            "loader": Identity(pid=4242, host="node-07", number=1, name=name, world_size=ranks, started_at=1.79e9),
            "epoch": 1,
            "step_number": number,
            "samples": samples,
            "batches": samples // 50,
            "elapsed_s": elapsed_s,
            "samples_per_s": rate,
            "steady_samples_per_s": rate,
            "first_batch_s": 1.25,
            "waited": 0.125,
            "waited_s": 0.125 * elapsed_s,
            "wait": times(samples // 50, 0.002),
            "step": times(samples // 50, 0.12),
            "ready": 0.75,
            "verdict": "The bottleneck is the stage 'transform', busy 97% of the time.",
            "bottleneck": "transform",
            "advice": (Advice(rule="slow_stage", evidence="'transform' is busy 97 %", remedy="decode smaller images", change="Decode(size=256)", gain=1.42),),
            "decoders": {"jpeg": samples},
            "storage": StorageFigures(requests=10 * number, retries=number // 10, hedges=0, bytes=10**8, bytes_per_s=2e8, bytes_per_request=8e6, in_flight=3.5, in_flight_limit=32, latency_p50_s=0.03, latency_p95_s=0.1, latency_p99_s=0.6, cache_hits=30, cache_misses=10, cache_hit_rate=0.75, cache_bytes=5, cache_damaged=0),
            "memory": MemoryFigures(held_bytes=10**9, most_bytes=2 * 10**9, budget_bytes=4 * 10**9),
            "errors": ErrorFigures(samples=2, met=3, sources={"b.tfrecord": 2}),
            "tuning": TuningFigures(values={"kernels": TunedNumber(value=4, most=8, unit="threads")}, changes=2, decisions=tuple(one for one in DECISIONS if one.at_s <= elapsed_s)),
            "cache": (CacheFigures(where="/local/rows", rows=5, size_bytes=50, hits=4, made=5),),
            "stages": tuple(stage(name, kind, rate, busy, p50_s) for name, kind, busy, p50_s in STAGES),
            "machine": Machine(cores=8, cpu=0.9, process_cpu=0.6, memory_bytes=1 << 30),
            "gpus": (Gpu(index=0, name="H200", kernel_time=0.9, memory_bytes=61 * 10**9, memory_limit_bytes=141 * 10**9, power_w=512.0, sm=0.54, tensor=0.3),),
            "ranks": others,
        }  # fmt: skip
        yield Snapshot(**(figures | more))
