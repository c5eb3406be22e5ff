"""PyTorch: how much of the loop torch.profiler records in the DataLoader, and in the step."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch
from observed import Loads, Loop, batches, made, tell
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, IterableDataset


class Batches(IterableDataset):  # type: ignore[misc]
    """The loop's batches, every worker its own."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def __iter__(self) -> Iterator[Any]:
        for rows in batches(self._loop):
            yield torch.from_numpy(made(self._loop, rows))


def says(loop: Loop, seconds: float) -> dict[str, Any]:
    """Events of the profile by the time that they took themselves, the longest first, as shares of the time."""
    loader = iter(DataLoader(Batches(loop), batch_size=None, num_workers=loop.workers, prefetch_factor=loop.prefetch))
    for _ in range(0 if isinstance(loop.function, Loads) else 2 * loop.workers):
        next(loader)  # until its processes run
    steps = 0
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        began_at = time.perf_counter()  # it takes seconds to start
        for _ in loader:
            with record_function("step"):
                loop.step()
            steps += 1
            if time.perf_counter() > began_at + seconds:
                break
        over_us = 1e6 * (time.perf_counter() - began_at)
    found = sorted(profiled.key_averages(), key=lambda one: -one.self_cpu_time_total)
    return {"steps": steps, "events": [[one.key, one.count, one.self_cpu_time_total / over_us] for one in found[:6]]}


if __name__ == "__main__":
    tell(get_context("spawn"), partial(says, seconds=float(sys.argv[1])))
