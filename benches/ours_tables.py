"""Penstock's side of workload (tables): a recipe is fitted on a file, and all its rows are transformed, batch after batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import numpy as np
from common import BATCH, Feed
from mixed_table import CATEGORIES, CODES, FLOATS, INTEGERS, SKEWED

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


def passes(data: Data, *, matrix: bool) -> Iterator[Any]:
    """Fit and transform, again and again."""
    rows = ps.read(str(data.place("tables", "table.parquet")), nulls="arrow")
    while True:
        fitted = recipe().fit(rows)
        plan = rows.transform(fitted.matrix() if matrix else fitted).batch(ROWS_PER_BATCH)
        with ps.Loader(plan, memory="2GB") as loader:
            made = sum(len(batch["y"]) for batch in loader)
        yield np.broadcast_to(0, (made,))


def feed(data: Data, *, matrix: bool) -> Feed:
    """A pass is a batch of all rows."""
    settings = {"rows_per_batch": ROWS_PER_BATCH, "rows": BATCH["tables"]}
    return Feed(batches=passes(data, matrix=matrix), column=lambda rows: rows, settings=settings)


FEEDS = {"tables": {"columns": partial(feed, matrix=False), "matrix": partial(feed, matrix=True)}}
