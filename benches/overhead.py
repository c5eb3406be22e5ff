"""What the engine takes besides the work: a batch and stage on empty work, and the gap between two epochs.

    python benches/overhead.py [--rounds 5] [--seconds 2] [--json FILE]

- stage: batches of 4 rows pass through 1, 2, 4 and 8 functions that return what they are given. What a batch takes for each further stage is the overhead, as the
  median over all rounds of the slope; once as time, once as CPU time of all threads.
- gap: from asking for the batch after the last one of an epoch to having it, beside the time of a batch within the epoch; the median of 50.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

ROWS = 4
STAGES = (1, 2, 4, 8)
EPOCHS = 50


def same(batch: Any) -> Any:
    return batch


def loader_of(stages: int, steps: int) -> ps.Loader[Any]:
    plan = ps.from_arrays({"x": np.arange(ROWS * steps)}).shuffle(seed=0)
    for _ in range(stages):
        plan = plan.map(same)
    return ps.Loader(plan.batch(ROWS))


def endless(loader: ps.Loader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def cost(stages: int, seconds: float) -> tuple[float, float]:
    """Microseconds a batch: of time, and of the CPU."""
    with loader_of(stages, 20_000) as loader:
        batches = endless(loader)
        for _ in range(500):
            next(batches)
        began, began_cpu, taken = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < seconds:
            next(batches)
            taken += 1
        took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return took / taken * 1e6, took_cpu / taken * 1e6


def gaps(stages: int) -> tuple[float, float]:
    """Milliseconds: from epoch to epoch, and from batch to batch."""
    steps = 100
    with loader_of(stages, steps) as loader:
        batches, between, within = endless(loader), [], []
        for number in range(EPOCHS * steps):
            began = time.perf_counter()
            next(batches)
            took = (time.perf_counter() - began) * 1e3
            if number:
                (within if number % steps else between).append(took)
    return statistics.median(between), statistics.median(within)


def slope(times: dict[int, float]) -> float:
    return float(np.polyfit(list(times), list(times.values()), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", nargs="?", const="-", default=None, help="to this file, or to the standard output")
    asked = parser.parse_args()
    rounds = [{stages: cost(stages, asked.seconds) for stages in STAGES} for _ in range(asked.rounds)]
    batch_us = {stages: statistics.median(one[stages][0] for one in rounds) for stages in STAGES}
    stage_us, stage_cpu_us = (
        statistics.median(slope({stages: one[stages][which] for stages in STAGES}) for one in rounds)
        for which in (0, 1)
    )
    between_ms, within_ms = gaps(2)
    figures = {
        "batch, µs": batch_us,
        "a batch and stage, µs": stage_us,
        "a batch and stage, CPU µs": stage_cpu_us,
        "between epochs, ms": between_ms,
        "between batches, ms": within_ms,
    }
    text = json.dumps(figures, indent=1, ensure_ascii=False)
    if asked.json and asked.json != "-":
        Path(asked.json).write_text(text)
    elif asked.json:
        print(text)
    else:
        for stages, took_us in batch_us.items():
            print(f"{stages} functions: {took_us:.0f} µs a batch")
        print(f"a batch and stage: {stage_us:.0f} µs, {stage_cpu_us:.0f} µs of the CPU (aim: under 50)")
        print(f"from epoch to epoch: {between_ms:.2f} ms; from batch to batch: {within_ms:.2f} ms (aim: under 10)")


if __name__ == "__main__":
    main()
