"""fg-data-profiling, which goes on from ydata-profiling, in its minimal mode, on a frame of pandas that is read from the file: of a million rows at most, which take minutes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from common import BATCH, Feed, main, version_of
from data_profiling import ProfileReport
from mixed_table import place

from work import Data

ROWS = min(BATCH["tables-profile"], 1_000_000)
VARIANT = "minimal" if BATCH["tables-profile"] == ROWS else f"minimal, {ROWS:,} rows"


def passes(data: Data) -> Iterator[Any]:
    """Read and profile, again and again."""
    while True:
        first = pq.ParquetFile(place(data)).iter_batches(ROWS)
        report = ProfileReport(next(first).to_pandas(), minimal=True, progress_bar=False)
        yield np.broadcast_to(0, (json.loads(report.to_json())["table"]["n"],))


def feed(data: Data) -> Feed:
    """A pass is a batch of all its rows."""
    settings = {"minimal": True, "rows": ROWS}
    return Feed(batches=passes(data), column=lambda rows: rows, settings=settings, rows=ROWS, is_pass=True)


if __name__ == "__main__":
    main("fg-data-profiling", version_of("fg-data-profiling"), {"tables-profile": {VARIANT: feed}})
