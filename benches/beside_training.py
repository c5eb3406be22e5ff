"""A model trained on the CPU beside a busy loader: how long its step takes, with ours and with PyTorch's DataLoader.

    python benches/beside_training.py [--rounds 5] [--seconds 6] [--json FILE]

Both loaders read the same map-style dataset, whose samples take some 0.2 ms of NumPy each, and the step is the bottleneck: who slows it less has the higher throughput.
The step is a small convolutional network, forward, backward and SGD, with PyTorch's default threads; its milliseconds count without the wait for
the batch. "alone" trains on one batch again and again. Each side runs in a process of its own, in turn; of the rounds, the median counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import penstock as ps

SAMPLES, SIDE, CROP, BATCH = 4_096, 112, 96, 64
#: So many samples that neither side comes to an end: there DataLoader's workers run dry.
EPOCH = 256 * SAMPLES
MEAN, STD = np.float32(127.5), np.float32(64)
SIDES = ("alone", "threads", "2 processes", "DataLoader, 1 worker", "DataLoader, 2 workers")
OURS, THEIRS = SIDES[1:3], SIDES[3:]


class Images(Dataset[Any]):
    """Images in memory, cropped, mirrored and normalised by NumPy. Crops follow from the number, so that all sides do the same."""

    def __init__(self) -> None:
        self.images = np.random.default_rng(0).integers(0, 255, (SAMPLES // 8, SIDE, SIDE, 3), np.uint8)

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, number: int) -> dict[str, Any]:
        top, left = number % (SIDE - CROP), number * 7 % (SIDE - CROP)
        image = self.images[number % len(self.images)][top : top + CROP, left : left + CROP]
        if number % 2:
            image = image[:, ::-1]
        made = np.ascontiguousarray((image.astype(np.float32) - MEAN).transpose(2, 0, 1) / STD)
        return {"image": made, "label": number % 10}


def loader_of(side: str) -> Any:
    data = Images()
    if side == "threads":
        return ps.Loader(ps.from_dataset(data).shuffle(seed=0).batch(BATCH), to="torch")
    if side == "2 processes":
        numbers = ps.from_arrays({"number": np.arange(EPOCH)}).shuffle(seed=0)
        made = numbers.map_rows(lambda row: data[int(row["number"])], workers="process")
        return ps.Loader(made.batch(BATCH), to="torch")
    workers = int(side.removeprefix("DataLoader, ").split()[0])
    return DataLoader(data, BATCH, shuffle=True, num_workers=workers, persistent_workers=True)


def batches_of(side: str) -> Iterator[Any]:
    if side == "alone":
        batch = next(iter(DataLoader(Images(), BATCH)))
        while True:
            yield batch
    loader = loader_of(side)
    while True:
        yield from loader


def run(side: str, seconds: float) -> dict[str, float]:
    """Milliseconds of the median step, and samples a second with the waits."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, stride=2), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = batches_of(side)

    def step() -> float:
        batch = next(batches)
        began_at = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"]).backward()
        optimizer.step()
        return time.perf_counter() - began_at

    until = time.perf_counter() + seconds / 3
    while time.perf_counter() < until:
        step()  # warm-up: the tuner's first decisions are in it
    took_s, began_at = list[float](), time.perf_counter()
    while (now := time.perf_counter()) - began_at < seconds:
        took_s.append(step())
    return {"step_ms": 1e3 * statistics.median(took_s), "samples_per_s": len(took_s) * BATCH / (now - began_at)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--json", nargs="?", const="-", default=None, help="to this file, or to the standard output")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        print(json.dumps(run(asked.side, asked.seconds)), flush=True)
        return
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(asked.rounds):
        for side in SIDES:
            command = [sys.executable, __file__, "--side", side, "--seconds", str(asked.seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
    medians = {
        side: {name: statistics.median(one[name] for one in ones) for name in ones[0]} for side, ones in found.items()
    }
    theirs = min(medians[side]["step_ms"] for side in THEIRS)
    ratios = {side: round(medians[side]["step_ms"] / theirs, 3) for side in SIDES}
    figures = {
        "machine": platform.processor() or platform.machine(), "torch": torch.__version__, "medians": medians,
        "step, times that of the better DataLoader": ratios, "rounds": found,
    }  # fmt: skip
    if asked.json:
        text = json.dumps(figures, indent=1)
        print(text) if asked.json == "-" else Path(asked.json).write_text(text)
        return
    for side, of_side in medians.items():
        print(
            f"{side:24} step {of_side['step_ms']:7.2f} ms   {of_side['samples_per_s']:8.0f} samples/s   {ratios[side]:.3f} times DataLoader's step"
        )


if __name__ == "__main__":
    main()
