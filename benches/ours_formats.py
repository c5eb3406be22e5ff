"""Penstock's side of the workloads that compare readers of a format: `ps.read` on the peer's own files, nothing tuned."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import numpy as np
from common import BATCH, Feed, endless
from map_style import ByBatch, Floats

import penstock as ps
from tokens import token_file
from work import SQL_QUERY, WINDOW, Data

POSTGRES = os.environ.get("PENSTOCK_BENCH_POSTGRES", "")


def json_lines(data: Data, *, mode: str) -> Feed:
    """Lines of JSON with a text and three numbers."""
    dataset = ps.read(names(data, "jsonl", "lines"), columns=["id", "text", "score", "label"])
    return shuffled(dataset, "jsonl", "id", mode=mode)


def mds(data: Data) -> Feed:
    """MosaicML's folder."""
    return shuffled(ps.read(str(data.place("mds", "samples"))), "mds", "label")


def objects(_: Data) -> Feed:
    """A map-style object, item by item."""
    return shuffled(ps.from_dataset(Floats()), "objects", "0")


def objects_by_batch(_: Data) -> Feed:
    """The same with a `__getitems__` that gives columns."""
    return shuffled(ps.from_dataset(ByBatch()), "objects", "0")


def recordio(data: Data) -> Feed:
    """MXNet's file, with its positions beside it."""
    columns = {"data": "data", "label": "label"}
    return shuffled(ps.read(str(data.place("recordio", "a.rec")), columns=columns), "recordio", "label")


def sqlite(data: Data) -> Feed:
    """Rows of a SQLite file, in the key's order."""
    return natural(
        ps.read_sql(f"sqlite:///{data.place('sql', 'samples.sqlite')}", SQL_QUERY, partition="id"), "sql", "x0"
    )


def sqlite_shuffled(data: Data) -> Feed:
    """Rows of a SQLite file, shuffled by blocks."""
    dataset = ps.read_sql(f"sqlite:///{data.place('sql', 'samples.sqlite')}", SQL_QUERY, partition="id")
    return shuffled(dataset, "sql", "x0")


def postgresql(_: Data) -> Feed:
    """Rows of a PostgreSQL table, in the key's order."""
    return natural(ps.read_sql(POSTGRES, SQL_QUERY, partition="id"), "sql", "x0")


def table(data: Data, *, mode: str) -> Feed:
    """Parquet files, every column an array."""
    return shuffled(ps.read(names(data, "parquet", "table")), "parquet", "c00", mode=mode)


def tar(data: Data) -> Feed:
    """WebDataset's archives."""
    columns = {"image": "jpg", "label": "cls"}
    return shuffled(ps.read([str(path) for path in data.archives], columns=columns), "tar", "label")


def tokens(data: Data) -> Feed:
    """A plain file of tokens, every window at a place of its own."""
    windows = ps.read(token_file(data), format="tokens", dtype="uint16", window=WINDOW)
    return shuffled(windows, "tokens", "tokens", mode="global")


def copies(data: Data, *, cached: bool) -> Feed:
    """No loader at all: NumPy copies the same bytes, in order; to as much memory, or into a few buffers that stay in the caches."""
    stored = np.fromfile(token_file(data), dtype=np.uint16)
    rows = BATCH["tokens"]
    windows = stored[: len(stored) // (rows * WINDOW) * rows * WINDOW].reshape(-1, rows, WINDOW)
    buffers = np.zeros((8 if cached else len(windows), rows, WINDOW), dtype=np.uint16)

    def batches() -> Iterator[np.ndarray]:
        for number, part in enumerate(windows):
            np.copyto(buffers[number % len(buffers)], part)
            yield buffers[number % len(buffers)]

    return Feed(
        batches=endless(batches),
        column=lambda batch: batch,
        note="no loader: NumPy copies, in order" + (", into the caches" if cached else ""),
    )


def names(data: Data, workload: str, folder: str) -> list[str]:
    """The files of a workload, in order."""
    return [str(path) for path in data.files(workload, folder, f".{workload}")]


def natural(dataset: ps.Dataset, workload: str, column: str) -> Feed:
    """Epoch after epoch of one loader, in the natural order."""
    return feed(dataset.batch(BATCH[workload], drop_last=True), column, shuffle="none")


def shuffled(dataset: ps.Dataset, workload: str, column: str, mode: str = "block") -> Feed:
    """Epoch after epoch of one loader, shuffled."""
    return feed(dataset.shuffle(seed=0, mode=mode).batch(BATCH[workload], drop_last=True), column, shuffle=mode)


def feed(train: ps.Dataset, column: str, **settings: object) -> Feed:
    """Epoch after epoch of one loader, as NumPy and Arrow arrays."""
    loader = ps.Loader(train, to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[column], settings=settings)


FEEDS = {
    "jsonl": {"block": partial(json_lines, mode="block"), "global": partial(json_lines, mode="global")},
    "mds": {"exact": mds},
    "objects": {"items": objects, "__getitems__": objects_by_batch},
    "parquet": {"block": partial(table, mode="block"), "global": partial(table, mode="global")},
    "recordio": {"exact": recordio},
    "sql": {"sqlite": sqlite, "sqlite, shuffled": sqlite_shuffled, **({"postgresql": postgresql} if POSTGRES else {})},
    "tar": {"exact": tar},
    "tokens": {
        "exact": tokens,
        "memcpy": partial(copies, cached=False),
        "memcpy, cached": partial(copies, cached=True),
    },
}
