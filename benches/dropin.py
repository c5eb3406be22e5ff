"""penstock.torch.DataLoader beside PyTorch's own, on the same datasets.

    python benches/dropin.py [--rounds 3] [--seconds 4] [--json FILE]

- photographs: JPEGs of 500×375 that PIL decodes, with torchvision.transforms.v2: RandomResizedCrop(224), flip, float, normalise; batches of 32. Where torchvision is installed.
- function: 1 ms of Python a sample, batches of 32.
- tensors: a TensorDataset of a million numbers, batches of 256.

Each at num_workers=0, where ours chooses, and at num_workers=2, with persistent workers on both sides, where both use PyTorch's. All sides run in turn; the median of the rounds counts. Ours is measured once its
processes are there: they start when fetching took 10 s.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, TensorDataset

from long_epochs import batches_in, endless, steady_rate
from penstock.torch import DataLoader

#: So long processes may take to start.
WARM_S = 60.0
#: So many rows that no side comes to an end: there workers run dry.
EPOCH = 4096 * 256


class Photographs(Dataset[Any]):
    """JPEGs in memory, decoded by PIL."""

    def __init__(self, files: list[bytes]) -> None:
        from torchvision.transforms import v2

        self.files = files
        self.change = v2.Compose(
            [
                v2.RandomResizedCrop(224),
                v2.RandomHorizontalFlip(),
                v2.PILToTensor(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> Any:
        return self.change(Image.open(io.BytesIO(self.files[index % len(self.files)])).convert("RGB")), index % 10


class Function(Dataset[Any]):
    """Holds the interpreter."""

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> Any:
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            pass
        return np.full(64, index, np.float32), index


def photographs() -> list[bytes]:
    draw, found = np.random.default_rng(0), list[bytes]()
    for _ in range(64):
        out = io.BytesIO()
        small = draw.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
        found.append(out.getvalue())
    return found


def measure(dataset: Any, size: int, rounds: int, seconds: float) -> dict[str, Any]:
    sides: dict[str, Any] = {}
    for workers in (0, 2):
        options = {"batch_size": size, "shuffle": True, "num_workers": workers, "persistent_workers": workers > 0}
        sides[f"penstock, {workers}"] = DataLoader(dataset, **options)
        sides[f"torch, {workers}"] = TorchLoader(dataset, **options)
    running = {name: endless(loader) for name, loader in sides.items()}
    for batches in running.values():
        batches_in(batches, 1.0)
    until = time.perf_counter() + WARM_S
    while "other processes are start" in sides["penstock, 0"].explain() and time.perf_counter() < until:
        batches_in(running["penstock, 0"], 1.0)
    found: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(rounds):
        for name, batches in running.items():
            found[name].append(steady_rate(batches, seconds))
    middle = {name: statistics.median(rates) for name, rates in found.items()}
    return {
        "batches/s": middle,
        "all": found,
        "over torch, num_workers=0": middle["penstock, 0"] / middle["torch, 0"],
        "over torch, num_workers=2": middle["penstock, 2"] / middle["torch, 2"],
        "num_workers=0 over torch's 2": middle["penstock, 0"] / middle["torch, 2"],
        "explained": sides["penstock, 0"].explain(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    datasets: dict[str, tuple[Any, int]] = {
        "function": (Function(), 32),
        "tensors": (TensorDataset(torch.arange(1_000_000)), 256),
    }
    try:
        datasets["photographs"] = Photographs(photographs()), 32
    except ImportError:
        print("photographs: torchvision is not installed", file=sys.stderr)
    found: dict[str, Any] = {"machine": platform.machine(), "torch": torch.__version__}
    for name, (dataset, size) in datasets.items():
        found[name] = measure(dataset, size, asked.rounds, asked.seconds)
        shown = {what: round(value, 2) for what, value in found[name].items() if isinstance(value, float)}
        print(name, shown, found[name]["explained"], file=sys.stderr if asked.json is None else sys.stdout)
    text = json.dumps(found, indent=1)
    if asked.json:
        asked.json.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
