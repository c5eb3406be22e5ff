"""A consumer that holds the interpreter: with and without isolation, and PyTorch's DataLoader with one worker.

    python benches/isolation.py [--rounds 3] [--seconds 3] [--json FILE]

- busy: a loop of pure Python of 5 ms for each batch of 256 rows; a function of the plan takes 3 ms of Python for each batch. Batches a second, and how long a
  step of the consumer takes, which takes 5 ms alone.
- overhead: batches of 1 KB, 1 MB and 40 MB, which are only copied out of memory, and a consumer that does nothing: microseconds a batch.

The work of a step is counted, not timed: it is what takes 5 ms on this machine when nothing else runs. PyTorch gets whole batches by `batch_size=None`, without pinned memory,
with its default prefetch of two. All sides run in turn; of the rounds, the median counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import penstock as ps
from long_epochs import Endless, endless

ROWS, STEPS = 256, 256
STEP_S, FUNCTION_S = 0.005, 0.003
SIZES = {"1 KB": (1_000, 4_096), "1 MB": (1_000_000, 64), "40 MB": (40_000_000, 4)}


def spin(loops: int) -> None:
    number = 0
    for _ in range(loops):
        number += 1  # noqa: SIM113  # the loop is the work


def loops_of(seconds: float) -> int:
    """How many loops take so long, where nothing else runs."""
    best = float("inf")
    for _ in range(20):
        began_at = time.perf_counter()
        spin(20_000)
        best = min(best, time.perf_counter() - began_at)
    return int(20_000 * seconds / best)


def spun(loops: int, batch: dict[str, Any]) -> dict[str, Any]:
    spin(loops)
    return {"x": batch["x"] + 1}


class Batches(Dataset[Any]):
    """PyTorch's side: number of a batch → the batch."""

    def __init__(self, rows: np.ndarray[Any, Any], size: int, function: Callable[..., Any] | None) -> None:
        self.rows, self.size, self.function = rows, size, function

    def __len__(self) -> int:
        return len(self.rows) // self.size

    def __getitem__(self, number: int) -> Any:
        made = {"x": self.rows[number * self.size : (number + 1) * self.size]}
        made = made if self.function is None else self.function(made)
        return {name: torch.from_numpy(column) for name, column in made.items()}


def ours(rows: Any, size: int, function: Any, isolation: Any) -> ps.Loader[Any]:
    data = ps.from_arrays({"x": rows})
    return ps.Loader((data if function is None else data.map(function)).batch(size), to="torch", isolation=isolation)


def theirs(rows: Any, size: int, function: Any) -> DataLoader[Any]:
    batches = Batches(rows, size, function)
    return DataLoader(batches, batch_size=None, sampler=Endless(len(batches)), num_workers=1, persistent_workers=True)


def sides_of(rows: Any, size: int, function: Any) -> dict[str, Callable[[], Any]]:
    return {
        "threads": lambda: ours(rows, size, function, None),
        "isolated": lambda: ours(rows, size, function, "process"),
        "DataLoader, 1 worker": lambda: theirs(rows, size, function),
    }


def run(loader: Any, work: Callable[[], None], seconds: float) -> dict[str, float]:
    """Batches a second, and milliseconds of the consumer's own work in a step, in the midst of an epoch."""
    batches, taken, worked_s = endless(loader), 0, 0.0
    warm_until = time.perf_counter() + seconds / 2
    while time.perf_counter() < warm_until:
        next(batches)
        work()
    began_at = time.perf_counter()
    while (now := time.perf_counter()) - began_at < seconds:
        next(batches)
        before = time.perf_counter()
        work()
        worked_s += time.perf_counter() - before
        taken += 1
    took_s = now - began_at
    batches.close()
    if isinstance(loader, ps.Loader):
        loader.close()
    return {"batches/s": taken / took_s, "µs a batch": 1e6 * took_s / taken, "work, ms a step": 1e3 * worked_s / taken}


def measured(
    sides: dict[str, Callable[[], Any]], work: Callable[[], None], rounds: int, seconds: float
) -> dict[str, dict[str, float]]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, make in sides.items():
            found[name].append(run(make(), work, seconds))
    return {
        name: {figure: statistics.median(one[figure] for one in ones) for figure in ones[0]}
        for name, ones in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", nargs="?", const="-", default=None, help="to this file, or to the standard output")
    asked = parser.parse_args()
    figures: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    rows = np.random.default_rng(0).random((ROWS * STEPS, 32), dtype=np.float32)
    step, function = partial(spin, loops_of(STEP_S)), partial(spun, loops_of(FUNCTION_S))
    figures["busy"] = measured(sides_of(rows, ROWS, function), step, asked.rounds, asked.seconds)
    for name, (size, steps) in SIZES.items():
        rows = np.zeros((size // 1_000 * steps, 1_000), np.uint8)
        sides = sides_of(rows, size // 1_000, None)
        figures[f"overhead, {name}"] = measured(sides, lambda: None, asked.rounds, asked.seconds)
    if asked.json == "-":
        print(json.dumps(figures, indent=1, ensure_ascii=False))
    elif asked.json:
        Path(asked.json).write_text(json.dumps(figures, indent=1, ensure_ascii=False))
    else:
        for what, of_sides in list(figures.items())[2:]:
            for name, of_side in of_sides.items():
                shown = "   ".join(f"{figure} {value:10.1f}" for figure, value in of_side.items())
                print(f"{what:16} {name:22} {shown}")


if __name__ == "__main__":
    main()
