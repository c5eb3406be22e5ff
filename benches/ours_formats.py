"""Penstock's side of the workloads that compare readers of a format: the public API, nothing tuned."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from common import BATCH, Feed, endless
from map_style import ByBatch, Floats

import penstock as ps
from work import SQL_QUERY, Data

POSTGRES = os.environ.get("PENSTOCK_BENCH_POSTGRES", "")


def objects(_: Data) -> Feed:
    """A map-style object, item by item."""
    return shuffled(ps.from_dataset(Floats()), "objects", "0")


def objects_by_batch(_: Data) -> Feed:
    """The same with a `__getitems__` that gives columns."""
    return shuffled(ps.from_dataset(ByBatch()), "objects", "0")


def sqlite(data: Data) -> Feed:
    """Rows of a SQLite file, in the key's order."""
    return natural(ps.read_sql(f"sqlite:///{data.place('sql', 'samples.sqlite')}", SQL_QUERY, partition="id"))


def postgresql(_: Data) -> Feed:
    """Rows of a PostgreSQL table, in the key's order."""
    return natural(ps.read_sql(POSTGRES, SQL_QUERY, partition="id"))


def sqlite_shuffled(data: Data) -> Feed:
    """Rows of a SQLite file, shuffled by blocks."""
    dataset = ps.read_sql(f"sqlite:///{data.place('sql', 'samples.sqlite')}", SQL_QUERY, partition="id")
    return shuffled(dataset, "sql", "x0")


def natural(dataset: ps.Dataset) -> Feed:
    """Epoch after epoch of one loader, in the natural order."""
    loader = ps.Loader(dataset.batch(BATCH["sql"], drop_last=True), to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["x0"])


def shuffled(dataset: ps.Dataset, workload: str, column: str) -> Feed:
    """Epoch after epoch of one loader, as NumPy and Arrow arrays."""
    loader = ps.Loader(dataset.shuffle(seed=0).batch(BATCH[workload], drop_last=True), to="numpy")
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[column])


FEEDS = {
    "objects": {"items": objects, "__getitems__": objects_by_batch},
    "sql": {"sqlite": sqlite, "sqlite, shuffled": sqlite_shuffled, **({"postgresql": postgresql} if POSTGRES else {})},
}
