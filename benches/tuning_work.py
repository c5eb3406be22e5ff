"""What both sides of benches/tuning.py share: the pipelines' functions, the training step and the clock. Standard library and NumPy only: every environment reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

#: Of "function" and "mixed": CPU seconds of Python a batch, and seconds in which a service answers.
BUSY_S, SERVICE_S = 0.002, 0.02
ROWS = {"decode": 64, "s3": 64, "function": 64, "consumer": 16, "mixed": 32}
TITLES = {
    "decode": "JPEG decoding, as fast as it goes",
    "s3": "A store that answers after 30 ms",
    "function": "A Python function that holds the interpreter",
    "consumer": "JPEG decoding for a training step on the CPU",
    "mixed": "JPEG decoding, and a function that waits for a service",
}
SLICE_S = 0.25


def busy() -> None:
    """Python code that takes some CPU time, whatever else runs."""
    until = time.thread_time() + BUSY_S
    while time.thread_time() < until:
        pass


def training_step(size: int = 768) -> Callable[[], None]:
    """A step of matrix products on all CPUs, some 50 ms."""
    weights = np.random.default_rng(0).random((size, size), dtype=np.float32)

    def step() -> None:
        made = weights
        for _ in range(8):
            made = made @ weights
            made /= made.max()

    return step


def measure(batches: Iterable[Any], rows: int, warmup: float, seconds: float, step: Callable[[], None] | None) -> Any:
    """Samples a second after the warm-up, and samples in each quarter of a second from the beginning."""
    began_at = time.perf_counter()
    slices: list[int] = []
    counted, counted_s, warm_at = 0, 0.0, None
    for _ in batches:
        if step is not None:
            step()
        now = time.perf_counter() - began_at
        slices += [0] * (int(now / SLICE_S) + 1 - len(slices))
        slices[-1] += rows
        if warm_at is None:
            warm_at = now if now >= warmup else None
        else:
            counted, counted_s = counted + rows, now - warm_at
        if now >= warmup + seconds:
            break
    return {"samples_per_s": counted / max(counted_s, 1e-9), "slices": slices[:-1]}
