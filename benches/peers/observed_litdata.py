"""LitData: what the trace holds that StreamingDataLoader writes with profile_batches=, added up by function."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from litdata import StreamingDataLoader, StreamingDataset, optimize
from observed import Loads, Loop, made, tell

#: Batches that are traced, after the first (of a long start from it on); and how long one waits for the trace, which a worker writes.
_BATCHES, _MOST_S = 5, 90.0


def row_of(number: int) -> Any:
    """A row of the data."""
    return np.int64(number)


def collated(loop: Loop, rows: list[Any]) -> Any:
    """What the function makes of rows."""
    return made(loop, np.stack(rows))


class Rows(StreamingDataset):  # type: ignore[misc]
    """The loop's source."""

    loop: Loop

    def __getitem__(self, index: Any) -> Any:
        if self.loop.source_s:
            time.sleep(self.loop.source_s / self.loop.batch)
        return super().__getitem__(index)


def _written(path: Path, until: float) -> list[dict[str, Any]]:
    """The events of a trace that is being written; none if it does not come."""
    while time.perf_counter() < until:
        try:
            found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        except (OSError, ValueError):
            time.sleep(0.5)
        else:
            return found
    return []


def says(loop: Loop, seconds: float, where: str) -> dict[str, Any]:
    """Functions of the trace by the seconds that they took, the longest first."""
    data = Rows(where, shuffle=False)
    data.loop = loop
    with tempfile.TemporaryDirectory() as folder:
        loader = StreamingDataLoader(
            data,
            batch_size=loop.batch,
            num_workers=loop.workers,
            prefetch_factor=loop.prefetch,
            collate_fn=partial(collated, loop),
            profile_batches=_BATCHES,
            profile_skip_batches=0 if isinstance(loop.function, Loads) else 1,
            profile_dir=folder,
        )
        found, until = Path(folder) / "result.json", time.perf_counter() + max(seconds, _MOST_S)
        running = iter(loader)  # held until the trace is there
        for _ in running:
            loop.step()
            if found.exists() or time.perf_counter() > until:
                break
        events = _written(found, until)
    took, first, last = Counter[str](), float("inf"), 0.0
    for event in events:
        if "dur" in event:
            took[event["name"]] += event["dur"]
            first, last = min(first, event["ts"]), max(last, event["ts"] + event["dur"])
    return {
        "over_s": max(0.0, (last - first) / 1e6),
        "functions": [[name, us / 1e6] for name, us in took.most_common(12)],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_in:
        optimize(row_of, [*range(1 << 14)], made_in, chunk_bytes="1MB", num_workers=1)
        tell(get_context("spawn"), partial(says, seconds=float(sys.argv[1]), where=made_in))
