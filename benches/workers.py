"""A user's function that holds the interpreter: on threads, in 1 and 2 processes, and in PyTorch's DataLoader with 2 workers.

    python benches/workers.py [--rounds 3] [--seconds 4] [--json FILE]

- small: 64 rows of 32 floats a batch, and a loop of Python of 1 ms for each batch.
- large: one row of 10 MB a batch, to which 1 is added.
- torchvision: 16 images of 3×256×256 a batch, by rows: RandomResizedCrop(224), flip, float, normalise of torchvision.transforms.v2, where that is
  installed. `map_rows` in 2 processes and on threads, and DataLoader with 2 workers that calls it for each row and stacks the rows.
- first: seconds from a new loader to its first batch, DataLoader with processes that are spawned; both have imported PyTorch before.

PyTorch gets whole batches by `__getitems__`-like indexing (`batch_size=None`): one call of the same function for each. Each process computes with one thread of torch. All sides run in turn; of the rounds, the
median counts. The ratios say how many times as fast Penstock with 2 processes is.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import penstock as ps
from long_epochs import Endless, endless, steady_rate

ROWS, STEPS = 64, 512
VISION_ROWS, VISION_STEPS = 16, 32
LARGE_BYTES, LARGE_STEPS = 10_000_000, 32
BUSY_S = 0.001


def busy(batch: dict[str, Any]) -> dict[str, Any]:
    """Python code that takes a millisecond of CPU time, whatever else runs."""
    until, number = time.thread_time() + BUSY_S, 0
    while time.thread_time() < until:
        number += 1
    return {"x": batch["x"] + 1}


def add_one(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["x"] + 1}


def vision_rows() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function of a row, as torchvision's users write it; ImportError without torchvision."""
    from torchvision.transforms import v2

    change = v2.Compose(
        [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )

    def augment(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": change(torch.from_numpy(row["x"])).numpy()}

    return augment


class Batches(Dataset[Any]):
    """PyTorch's side: number of a batch → what the function makes of it."""

    def __init__(self, rows: np.ndarray[Any, Any], size: int, function: Callable[..., Any]) -> None:
        self.rows, self.size, self.function = rows, size, function

    def __len__(self) -> int:
        return len(self.rows) // self.size

    def __getitem__(self, number: int) -> Any:
        made = self.function({"x": self.rows[number * self.size : (number + 1) * self.size]})
        return {name: torch.from_numpy(column) for name, column in made.items()}


class VisionBatches(Batches):
    """The same by rows."""

    def __getitem__(self, number: int) -> Any:
        rows = self.rows[number * self.size : (number + 1) * self.size]
        return {"x": torch.stack([torch.from_numpy(self.function({"x": row})["x"]) for row in rows])}


def vision_sides() -> dict[str, Callable[[], Any]]:
    """By `map_rows`; none without torchvision."""
    try:
        augment = vision_rows()
    except ImportError:
        return {}
    images = np.random.default_rng(0).integers(0, 255, (VISION_ROWS * VISION_STEPS, 3, 256, 256), dtype=np.uint8)

    def mine(workers: Any) -> ps.Loader[Any]:
        plan = ps.from_arrays({"x": images}).map_rows(augment, workers=workers).batch(VISION_ROWS)
        return ps.Loader(plan, to="torch", cpus=2)

    return {
        "2 processes": lambda: mine("process"),
        "threads, 2 CPUs": lambda: mine("thread"),
        "auto, 2 CPUs": lambda: mine("auto"),
        "DataLoader, 2 workers": lambda: data_loader(VisionBatches(images, VISION_ROWS, augment), "fork"),
    }


def ours(rows: Any, size: int, function: Any, workers: Any, cpus: int) -> ps.Loader[Any]:
    plan = ps.from_arrays({"x": rows}).map(function, workers=workers).batch(size)
    return ps.Loader(plan, to="torch", cpus=cpus)


def theirs(rows: Any, size: int, function: Any, context: str) -> DataLoader[Any]:
    return data_loader(Batches(rows, size, function), context)


def data_loader(batches: Batches, context: str) -> DataLoader[Any]:
    return DataLoader(
        batches,
        batch_size=None,
        sampler=Endless(len(batches)),
        num_workers=2,
        multiprocessing_context=context,
        persistent_workers=True,
    )


def sides_of(rows: Any, size: int, function: Any) -> dict[str, Callable[[], Any]]:
    return {
        "threads, 2 CPUs": lambda: ours(rows, size, function, "thread", 2),
        "1 process": lambda: ours(rows, size, function, "process", 1),
        "2 processes": lambda: ours(rows, size, function, "process", 2),
        "auto, 2 CPUs": lambda: ours(rows, size, function, "auto", 2),
        "DataLoader, 2 workers": lambda: theirs(rows, size, function, "fork"),
    }


def rate(loader: Any, seconds: float) -> float:
    """Batches a second, in the midst of an epoch."""
    return steady_rate(endless(loader), seconds)


def first_batch_s(make: Callable[[], Any]) -> float:
    began_at = time.perf_counter()
    loader = make()
    batches = iter(loader)
    next(batches)
    took_s = time.perf_counter() - began_at
    close(loader, batches)
    return took_s


def close(loader: Any, batches: Any = None) -> None:
    if isinstance(loader, ps.Loader):
        loader.close()
    elif batches is not None:
        batches._shutdown_workers()  # noqa: SLF001  # there is no other way to end them


def measured(sides: dict[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, make in sides.items():
            loader = make()
            rates[name].append(rate(loader, seconds))
            close(loader, getattr(loader, "_iterator", None))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json", nargs="?", const="-", default=None, help="to this file, or to the standard output")
    asked = parser.parse_args()
    small = np.random.default_rng(0).random((ROWS * STEPS, 32), dtype=np.float32)
    large = np.ones((LARGE_STEPS, LARGE_BYTES), np.uint8)
    figures: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    figures["small, batches/s"] = measured(sides_of(small, ROWS, busy), asked.rounds, asked.seconds)
    figures["large, batches/s"] = measured(sides_of(large, 1, add_one), asked.rounds, asked.seconds)
    if vision := vision_sides():
        figures["torchvision, batches/s"] = measured(vision, asked.rounds, asked.seconds)
    starts: dict[str, Callable[[], Any]] = {
        "2 processes": lambda: ours(small, ROWS, busy, "process", 2),
        "DataLoader, spawn": lambda: theirs(small, ROWS, busy, "spawn"),
        "DataLoader, fork": lambda: theirs(small, ROWS, busy, "fork"),
    }
    first: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(asked.rounds):
        for name, make in starts.items():
            first[name].append(first_batch_s(make))
    figures["first batch, s"] = first
    for what, rates in list(figures.items())[2:]:
        mine = statistics.median(rates["2 processes"])
        for name, values in rates.items():
            middle = statistics.median(values)
            ratio = mine / middle if "/s" in what else middle / mine
            figures.setdefault("ratios", {})[f"{what}: {name}"] = round(ratio, 2)
            if asked.json is None:
                print(f"{what:20} {name:24} {middle:10.2f}   2 processes are {ratio:.2f} times as fast")
    if asked.json == "-":
        print(json.dumps(figures, indent=1))
    elif asked.json:
        Path(asked.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
