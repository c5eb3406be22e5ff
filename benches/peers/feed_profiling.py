"""fg-data-profiling, which goes on from ydata-profiling, in its minimal mode, on a frame of pandas that is read from the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from common import BATCH, Feed, main, version_of
from data_profiling import ProfileReport
from mixed_table import place

from work import Data


def passes(data: Data) -> Iterator[Any]:
    """Read and profile, again and again."""
    while True:
        report = ProfileReport(pd.read_parquet(place(data)), minimal=True, progress_bar=False)
        yield np.broadcast_to(0, (json.loads(report.to_json())["table"]["n"],))


def feed(data: Data) -> Feed:
    """A pass is a batch of all rows."""
    return Feed(
        batches=passes(data), column=lambda rows: rows, settings={"minimal": True, "rows": BATCH["tables-profile"]}
    )


if __name__ == "__main__":
    main("fg-data-profiling", version_of("fg-data-profiling"), {"tables-profile": {"minimal": feed}})
