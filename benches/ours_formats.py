"""Penstock's own side of the formats' workloads: the public API, nothing tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from common import BATCH, Feed, endless

import penstock as ps
from work import Data


def table(data: Data) -> Feed:
    """Workload (parquet)."""
    train = ps.read([str(path) for path in data.files("parquet", "table", ".parquet")]).shuffle(seed=0)
    loader = ps.Loader(train.batch(BATCH["parquet"], drop_last=True), to="numpy")
    settings = {"format": "Parquet", "columns": "100 arrays"}
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["c00"], settings=settings)


FEEDS: Mapping[str, Mapping[str, Callable[[Data], Feed]]] = {"parquet": {"exact": table}}
