"""Penstock's side of workload (tables): a recipe is fitted on a file, and all its rows are transformed, batch after batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import numpy as np
from common import BATCH, Feed
from mixed_table import CATEGORIES, CODES, FLOATS, INTEGERS, SKEWED, one_row, place

import penstock as ps
from work import Data

T = ps.table
ROWS_PER_BATCH = 16_384


def recipe() -> ps.table.Recipe:
    """What every side does."""
    return T.Recipe(
        T.On(FLOATS, T.FillMissing("median"), T.Standardize()),
        T.On(INTEGERS, T.MinMax()),
        T.On(SKEWED, T.Log(), T.Robust()),
        T.On(CATEGORIES, T.OneHot()),
        T.On(CODES, T.Ordinal()),
        target="y",
    )


def read(data: Data) -> ps.Dataset:
    """The file."""
    return ps.read(str(place(data)), nulls="arrow")


def passes(data: Data, *, matrix: bool) -> Iterator[Any]:
    """Fit and transform, again and again."""
    rows = read(data)
    while True:
        fitted = recipe().fit(rows)
        plan = rows.transform(fitted.matrix() if matrix else fitted).batch(ROWS_PER_BATCH)
        with ps.Loader(plan, memory="2GB") as loader:
            made = sum(len(batch["y"]) for batch in loader)
        yield np.broadcast_to(0, (made,))


def feed(data: Data, *, matrix: bool) -> Feed:
    """A pass is a batch of all rows."""
    settings = {"rows_per_batch": ROWS_PER_BATCH, "rows": BATCH["tables-recipe"]}
    return Feed(batches=passes(data, matrix=matrix), column=lambda rows: rows, settings=settings, is_pass=True)


def profiles(data: Data) -> Iterator[Any]:
    """Profiles, again and again."""
    while True:
        yield np.broadcast_to(0, (ps.profile(read(data)).facts["rows"],))


def profile_feed(data: Data) -> Feed:
    """A pass is a batch of all rows."""
    settings = {"minimal": False, "rows": BATCH["tables-profile"]}
    return Feed(batches=profiles(data), column=lambda rows: rows, settings=settings, is_pass=True)


def computed(rows: ps.Dataset) -> ps.Dataset:
    """Ten columns."""
    a, b, n, k, s = map(ps.col, ("f0", "f1", "i0", "i1", "c0"))
    made = rows.with_columns(
        ratio=a / b,
        mixed=(a + b) * 2 - n,
        size=(a * a + b * b).sqrt(),
        bounded=n.clip(100, 9_000),
        logs=(n + 1).log(),
        part=n // (k + 1),
        kind=ps.when(n > 5_000).then(2).when(n > 1_000).then(1).otherwise(0),
        near=(n < 5_000) & (k > 0) | k.is_in([1, 2]),
        length=s.str.len(),
        month=(n.cast("int64") * 86_400).from_epoch("s").dt.month(),
    )
    return made.select(["ratio", "mixed", "size", "bounded", "logs", "part", "kind", "near", "length", "month"])


def computing(data: Data) -> Iterator[Any]:
    """Read and compute, again and again."""
    plan = computed(read(data)).batch(65_536)
    while True:
        with ps.Loader(plan, memory="2GB") as loader:
            yield np.broadcast_to(0, (sum(len(batch["part"]) for batch in loader),))


def columns_feed(data: Data) -> Feed:
    """A pass is a batch of all rows."""
    settings = {"rows_per_batch": 65_536, "rows": BATCH["tables-columns"]}
    return Feed(batches=computing(data), column=lambda rows: rows, settings=settings, is_pass=True)


def served(data: Data) -> Feed:
    """One row after the other."""
    fitted, row = recipe().fit(read(data).take(100_000)), one_row(data)
    return Feed(batches=([fitted.apply(row)] for _ in repeat(None)), column=lambda made: np.zeros(len(made)))


FEEDS = {
    "tables-recipe": {"columns": partial(feed, matrix=False), "matrix": partial(feed, matrix=True)},
    "tables-profile": {"": profile_feed},
    "tables-columns": {"": columns_feed},
    "tables-row": {"": served},
}
