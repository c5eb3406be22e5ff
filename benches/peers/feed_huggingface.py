"""Hugging Face datasets: an Arrow table in memory, shuffled, iterated in batches of NumPy arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from common import BATCH, Feed, main

from work import TINY_SAMPLES, Data

SHARDS = 64
BUFFER = 10_000


def numbers() -> datasets.Dataset:
    """10 million int64 numbers."""
    return datasets.Dataset(pa.table({"x": np.arange(TINY_SAMPLES)})).with_format("numpy")


def mapped(_: Data) -> Feed:
    """Workload (c) by a permutation of all rows; flatten_indices() would iterate faster, but rewrites the table for minutes each epoch."""
    table = numbers()

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            mixed = table.shuffle(seed=epoch, keep_in_memory=True)
            yield from mixed.iter(batch_size=BATCH["c"], drop_last_batch=True)

    return Feed(batches=batches(), column=lambda batch: batch["x"], settings={"shuffle": "a permutation of all rows"})


def streamed(_: Data) -> Feed:
    """Workload (c) by the iterable data set: shards in a random order and a shuffle buffer."""
    stream = numbers().to_iterable_dataset(num_shards=SHARDS).with_format("numpy").shuffle(seed=0, buffer_size=BUFFER)

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            stream.set_epoch(epoch)
            yield from stream.iter(batch_size=BATCH["c"], drop_last_batch=True)

    settings = {"iterable": True, "shards": SHARDS, "buffer": BUFFER}
    return Feed(batches=batches(), column=lambda batch: batch["x"], settings=settings, note="shuffle buffer")


if __name__ == "__main__":
    datasets.disable_progress_bars()
    feeds = {"c": {"iterable": streamed, "shuffle": mapped}}
    main("Hugging Face datasets", datasets.__version__, feeds)
