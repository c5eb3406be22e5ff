"""SPDL: the statistics of its tasks and queues, which it logs; its guide says how to read them."""

from __future__ import annotations

import sys
import time
from functools import partial
from multiprocessing import get_context
from typing import Any

from observed import Loop, batches, made, tell
from spdl.pipeline import PipelineBuilder, QueuePerfStats, StatsQueue, TaskPerfStats, TaskStatsHook


def says(loop: Loop, seconds: float) -> dict[str, Any]:
    """What a stage's calls take, and how full the queue is that the loop takes from."""
    told: dict[str, Any] = {}

    class Hook(TaskStatsHook):  # type: ignore[misc]
        async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
            told["function"] = {
                "ave_time_s": stats.ave_time,
                "p99_time_s": stats.p99_time,
                "num_tasks": stats.num_tasks,
            }

    class Queue(StatsQueue):  # type: ignore[misc]
        async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
            told[str(self.info).rpartition(":")[2]] = {
                "occupancy_rate": stats.occupancy_rate,
                "ave_get_time_s": stats.ave_get_time,
                "ave_put_time_s": stats.ave_put_time,
            }

    builder = PipelineBuilder().add_source(batches(loop))
    if loop.function is not None:
        builder = builder.pipe(partial(made, loop), concurrency=loop.workers, name="function")
    pipeline = builder.add_sink(loop.prefetch).build(
        num_threads=loop.workers,
        queue_class=partial(Queue, interval=seconds / 2),
        task_hook_factory=lambda info: [Hook(info, interval=seconds / 2)],
    )
    with pipeline.auto_stop():
        until = time.perf_counter() + seconds * 1.2
        for _ in pipeline:
            loop.step()
            if time.perf_counter() > until:
                break
    return told


if __name__ == "__main__":
    tell(get_context("spawn"), partial(says, seconds=float(sys.argv[1])))
