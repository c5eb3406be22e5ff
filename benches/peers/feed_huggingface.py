"""Hugging Face datasets: an Arrow table in memory, shuffled, iterated in batches of NumPy arrays; JSON lines, mapped and streamed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import BATCH, Feed, main

from work import TABLE_COLUMNS, TABLE_FILES, TABLE_GROUP_ROWS, TABLE_ROWS, TINY_SAMPLES, Data

SHARDS = 64
BUFFER = 10_000
LINES = 400_000
LINE_FILES = 4
LINE_BUFFER = 1_000  # datasets' default
LINE_COLUMNS = ["id", "text", "score", "label"]


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

    return Feed(
        batches=batches(),
        column=lambda batch: batch["x"],
        settings={"shuffle": "a permutation of all rows"},
        samples=TINY_SAMPLES,
    )


def streamed(_: Data) -> Feed:
    """Workload (c) by the iterable data set: shards in a random order and a shuffle buffer."""
    stream = numbers().to_iterable_dataset(num_shards=SHARDS).with_format("numpy").shuffle(seed=0, buffer_size=BUFFER)

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            stream.set_epoch(epoch)
            yield from stream.iter(batch_size=BATCH["c"], drop_last_batch=True)

    settings = {"iterable": True, "shards": SHARDS, "buffer": BUFFER}
    return Feed(
        batches=batches(),
        column=lambda batch: batch["x"],
        settings=settings,
        note="shuffle buffer",
        samples=TINY_SAMPLES,
    )


def write_table(data: Data) -> None:
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


def lines(data: Data, **settings: Any) -> Any:
    """The JSON lines as datasets opens them; mapped, they are converted to Arrow files once, which is not timed."""
    files = [str(path) for path in data.files("jsonl", "lines", ".jsonl")]
    return datasets.load_dataset(
        "json", data_files=files, split="train", cache_dir=str(data.place("jsonl", "huggingface")), **settings
    ).select_columns(LINE_COLUMNS)


def lines_mapped(data: Data, *, format: str) -> Feed:
    """Workload (jsonl) by a permutation of all rows of the Arrow files."""
    table = lines(data).with_format(format)

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            mixed = table.shuffle(seed=epoch, keep_in_memory=True)
            yield from mixed.iter(batch_size=BATCH["jsonl"], drop_last_batch=True)

    settings = {"shuffle": "a permutation of all rows", "format": format}
    return Feed(batches=batches(), column=numbers_of, settings=settings, note="from Arrow files made before")


def lines_streamed(data: Data, *, format: str) -> Feed:
    """Workload (jsonl) straight from the files: their order and a shuffle buffer."""
    stream = lines(data, streaming=True).with_format(format).shuffle(seed=0, buffer_size=LINE_BUFFER)

    def batches() -> Iterator[Any]:
        for epoch in itertools.count():
            stream.set_epoch(epoch)
            yield from stream.iter(batch_size=BATCH["jsonl"], drop_last_batch=True)

    settings = {"iterable": True, "buffer": LINE_BUFFER, "format": format}
    return Feed(batches=batches(), column=numbers_of, settings=settings, note="shuffle buffer")


def numbers_of(batch: Any) -> Any:
    """The ids of a batch."""
    return np.asarray(batch["id"])


def write_lines(data: Data) -> None:
    """Workload (jsonl): reviews of words of varying length, in files of equal size, as datasets writes them."""
    rng = np.random.default_rng(0)
    words = np.array(
        ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), rng.integers(2, 11))) for _ in range(5_000)]
    )
    for shard, first in enumerate(range(0, LINES, LINES // LINE_FILES)):
        rows = range(first, first + LINES // LINE_FILES)
        texts = [" ".join(rng.choice(words, rng.integers(30, 115))) for _ in rows]
        table = {
            "id": list(rows),
            "title": [text[:20] for text in texts],
            "text": texts,
            "score": rng.random(len(rows)).round(4).tolist(),
            "label": rng.integers(0, 5, len(rows)).tolist(),
            "votes": rng.integers(0, 1_000, len(rows)).tolist(),
            "author": [f"author {number % 9_999}" for number in rows],
        }
        path = data.place("jsonl", f"lines/{shard}.jsonl")
        datasets.Dataset.from_dict(table).to_json(path)


if __name__ == "__main__":
    datasets.disable_progress_bars()
    feeds = {
        "c": {"iterable": streamed, "shuffle": mapped},
        "parquet": {"iterable": table_streamed, "shuffle": table_mapped},
        "jsonl": {
            "shuffle, arrow": partial(lines_mapped, format="arrow"),
            "shuffle, numpy": partial(lines_mapped, format="numpy"),
            "streaming, arrow": partial(lines_streamed, format="arrow"),
            "streaming, numpy": partial(lines_streamed, format="numpy"),
        },
    }
    main("Hugging Face datasets", datasets.__version__, feeds, write={"parquet": write_table, "jsonl": write_lines})
