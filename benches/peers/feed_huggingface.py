"""Hugging Face datasets: an Arrow table in memory, shuffled, iterated in batches of NumPy arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import BATCH, Feed, main

from work import TABLE_COLUMNS, TABLE_FILES, TABLE_GROUP_ROWS, TABLE_ROWS, TINY_SAMPLES, Data

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


def write(data: Data) -> None:
    """Workload (parquet)'s files, and the same columns as one .npy, a row of it a column."""
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((TABLE_COLUMNS, TABLE_ROWS), dtype=np.float32)
    for number, part in enumerate(np.split(columns, TABLE_FILES, axis=1)):
        table = pa.table({f"c{column:02d}": values for column, values in enumerate(part)})
        place = data.place("parquet", f"table/{number}.parquet")
        pq.write_table(table, place, row_group_size=TABLE_GROUP_ROWS)
    np.save(data.place("parquet", "columns.npy"), columns)


def table(data: Data) -> datasets.Dataset:
    """Workload (parquet) as the library reads it: converted once to Arrow files in its cache, which are mapped."""
    files = [str(path) for path in data.files("parquet", "table", ".parquet")]
    cache = str(data.place("parquet", "huggingface"))
    return datasets.Dataset.from_parquet(files, cache_dir=cache).with_format("numpy")


def table_mapped(data: Data) -> Feed:
    """Workload (parquet) by a permutation of all rows."""
    rows = table(data)

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            mixed = rows.shuffle(seed=epoch, keep_in_memory=True)
            yield from mixed.iter(batch_size=BATCH["parquet"], drop_last_batch=True)

    settings = {"shuffle": "a permutation of all rows"}
    return Feed(batches=batches(), column=lambda batch: batch["c00"], settings=settings)


def table_streamed(data: Data) -> Feed:
    """Workload (parquet) by the iterable data set: shards in a random order and a shuffle buffer."""
    stream = table(data).to_iterable_dataset(num_shards=SHARDS).with_format("numpy").shuffle(seed=0, buffer_size=BUFFER)

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            stream.set_epoch(epoch)
            yield from stream.iter(batch_size=BATCH["parquet"], drop_last_batch=True)

    settings = {"iterable": True, "shards": SHARDS, "buffer": BUFFER}
    return Feed(batches=batches(), column=lambda batch: batch["c00"], settings=settings, note="shuffle buffer")


if __name__ == "__main__":
    datasets.disable_progress_bars()
    feeds = {
        "c": {"iterable": streamed, "shuffle": mapped},
        "parquet": {"iterable": table_streamed, "shuffle": table_mapped},
    }
    main("Hugging Face datasets", datasets.__version__, feeds, write=write)
