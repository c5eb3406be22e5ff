"""Google Grain: a MapDataset over JPEG files or numbers, read threads, OpenCV for the pictures (it leaves the interpreter while it works)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cv2
import grain
import numpy as np
from common import BATCH, CPUS, MEAN, SIZE, STD, Feed, main

from work import TINY_SAMPLES, Data

SCALE = np.float32([1 / (255 * value) for value in STD])
SHIFT = np.float32([mean / value for mean, value in zip(MEAN, STD, strict=True)])
Picture = np.ndarray[Any, Any]


class Prepare(grain.transforms.RandomMap):
    """A file to a normalised float32 picture (224, 224, 3)."""

    def random_map(self, element: tuple[Path, int], rng: np.random.Generator) -> tuple[Picture, int]:
        """Decode, crop, resize by area, flip, normalise."""
        path, label = element
        picture = cv2.imdecode(np.fromfile(path, dtype=np.uint8), cv2.IMREAD_COLOR_RGB)
        x, y, w, h = crop(picture.shape[1], picture.shape[0], rng)
        picture = cv2.resize(picture[y : y + h, x : x + w], (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        if rng.random() < 0.5:
            picture = cv2.flip(picture, 1)
        normal = picture * SCALE
        normal -= SHIFT
        return normal, label


def crop(width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """One draw of RandomResizedCrop: left, top, width, height."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1)), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def photographs(data: Data) -> Feed:
    """Workload (a), in NHWC, the layout of JAX."""
    cv2.setNumThreads(1)
    dataset = (
        grain.MapDataset.source(data.jpegs())
        .seed(0)
        .shuffle()
        .repeat()
        .random_map(Prepare())
        .batch(BATCH["a"], drop_remainder=True)
    )
    batches = dataset.to_iter_dataset(grain.ReadOptions(num_threads=CPUS, prefetch_buffer_size=CPUS))
    settings = {"format": "JPEG files", "threads": CPUS, "decode": "OpenCV", "resize": "INTER_AREA"}
    return Feed(batches=batches, column=lambda batch: batch[0], settings=settings, note="NHWC")


def tiny(_: Data, *, threads: int) -> Feed:
    """Workload (c). Grain's guide: no read threads for sources in memory."""
    dataset = grain.MapDataset.range(TINY_SAMPLES).shuffle(seed=0).repeat().batch(BATCH["c"], drop_remainder=True)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=500 if threads else 0)
    return Feed(
        batches=dataset.to_iter_dataset(options),
        column=lambda batch: batch,
        settings={"threads": threads},
        samples=TINY_SAMPLES,
    )


if __name__ == "__main__":
    feeds = {
        "a": {"threads": photographs},
        "c": {"threads_16": lambda data: tiny(data, threads=16), "threads_0": lambda data: tiny(data, threads=0)},
    }
    main("Grain", grain.__version__, feeds)
