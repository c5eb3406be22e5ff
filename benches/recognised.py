"""Recognised datasets against PyTorch's DataLoader over the same objects, at 0 workers and at its best number; rounds alternate.

python benches/recognised.py [--json] [--images 2000] [--rounds 3] [--seconds 4]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import PIL.Image
import pyarrow as pa
import torch
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from long_epochs import Endless, steady_rate
from penstock.core.cpus import usable_cpus
from penstock.torch.recognised import Recognised, recognise

BATCH = 64


def image_folder(folder: str, images: int) -> ImageFolder:
    """JPEGs of 400×300, and the usual training transforms in the order that torchvision recommends."""
    rng = np.random.default_rng(0)
    for number in range(images):
        place = Path(folder, str(number % 4))
        place.mkdir(exist_ok=True)
        pixels = rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels).resize((400, 300)).save(place / f"{number}.jpg", quality=90)
    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.ToImage()]
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    return ImageFolder(folder, v2.Compose(steps))


def tokens(folder: str, rows: int = 100_000) -> datasets.Dataset:
    """Three columns of numbers and one of 128 tokens, in the torch format; saved and mapped, as the library keeps what `map` made."""
    rng = np.random.default_rng(0)
    ids = pa.FixedSizeListArray.from_arrays(rng.integers(0, 50_000, rows * 128), 128)
    numbers = {
        "label": rng.integers(0, 10, rows),
        "weight": rng.random(rows, np.float32),
        "source": rng.integers(0, 9, rows),
    }
    datasets.Dataset(pa.table({**numbers, "input_ids": ids})).save_to_disk(folder)
    return datasets.load_from_disk(folder).with_format("torch")


def sampler_of(dataset: Any) -> BatchSampler:
    """Batches of one epoch that does not end."""
    return BatchSampler(Endless(len(dataset), shuffle=True), BATCH, drop_last=False)


def by_workers(dataset: Any, workers: int) -> Iterator[Any]:
    """PyTorch's loader."""
    return iter(DataLoader(dataset, batch_sampler=sampler_of(dataset), num_workers=workers))


def natively(known: Recognised) -> Iterator[Any]:
    """The same order natively."""
    return iter(known.batches(sampler_of(known.dataset)))


def measure(dataset: Any, rounds: int, seconds: float) -> dict[str, float]:
    """Rows a second: the best of some rounds of each."""
    known = recognise(dataset)
    assert known is not None
    found = dict[str, float]()
    for _ in range(rounds):
        sides: dict[str, Callable[[], Iterator[Any]]] = {
            f"torch, {count} workers": partial(by_workers, dataset, count) for count in (0, usable_cpus())
        }
        sides["penstock"] = partial(natively, known)
        for name, begin in sides.items():
            batches = begin()
            found[name] = max(BATCH * steady_rate(batches, seconds), found.get(name, 0))
            del batches  # with its workers
    known.close()
    best = max(value for name, value in found.items() if name != "penstock")
    return {**found, "times": found["penstock"] / best}


def main() -> None:
    """Prints rows a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    tensors = TensorDataset(torch.randn(100_000, 32), torch.arange(100_000))
    with tempfile.TemporaryDirectory() as folder:
        images, table = Path(folder, "images"), Path(folder, "table")
        images.mkdir()
        given = {
            "ImageFolder": image_folder(str(images), options.images),
            "TensorDataset": tensors,
            "datasets.Dataset": tokens(str(table)),
        }
        found = {name: measure(dataset, options.rounds, options.seconds) for name, dataset in given.items()}
    if options.json:
        print(json.dumps({"cpus": usable_cpus(), "torch": torch.__version__, "batch": BATCH, "rows_per_s": found}))
        return
    for name, rates in found.items():
        print(name, ", ".join(f"{key}: {value:,.1f}" for key, value in rates.items()))


if __name__ == "__main__":
    main()
