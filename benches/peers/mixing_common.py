"""What every side of the bench of mixing shares: its command line, the check of its batches, the clock and the one line of JSON.

A side is a table of feeds: `main("Grain", version, {"mix": {"threads": make}, "lengths": NoFeature("…")}, write=write)`. `make(task)` returns a `Feed`, which yields batches
without end.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from common import Feed, cpu_seconds, run_for
from resume_common import NoFeature

from mixing_rows import BATCH, LENGTH, SOURCES, WEIGHTS

#: Batches that are looked at before the clock starts, and how far a source's share may be from its weight in them: more only where weights are ignored.
CHECKED, TOLERANCE = 100, 0.15


@dataclass(frozen=True, kw_only=True)
class Task:
    """Where the files are, and how many lists of tokens "lengths" has."""

    data: Path
    rows: int


Make = Callable[[Task], Feed]
Figures = dict[str, Any]


def main(
    peer: str,
    version: str,
    feeds: Mapping[str, Mapping[str, Make] | NoFeature],
    *,
    write: Callable[[Path], None] | None = None,
) -> None:
    """A side's command line: --list its feeds, --write its files, or measure one feed and print one line of JSON."""
    arguments = _arguments(peer)
    head = {"peer": peer, "version": version}
    if arguments.write:
        if write:
            write(arguments.data)
    elif arguments.list:
        print(json.dumps(head | {plan: _listed(feed) for plan, feed in feeds.items()}))
    else:
        make = feeds[arguments.plan][arguments.variant]
        figures = measure(make(Task(data=arguments.data, rows=arguments.rows)), arguments)
        print(json.dumps(head | figures), flush=True)
        os._exit(0)  # an endless feed has threads and workers in mid-batch, and some libraries wait for them


def _listed(feed: Mapping[str, Make] | NoFeature) -> Figures:
    return {"no_feature": feed.reason} if isinstance(feed, NoFeature) else {"variants": list(feed)}


def measure(feed: Feed, arguments: argparse.Namespace) -> Figures:
    """Samples per second, and CPU seconds of this process and all its descendants, after the batches are checked and the peer is warm."""
    rows = 0

    def counted() -> Iterator[Any]:
        nonlocal rows
        for batch in feed.batches:
            rows += len(feed.column(batch))
            yield batch

    batches = counted()
    checked = {"mix": mix_checked, "lengths": lengths_checked}[arguments.plan]
    found = checked([np.asarray(feed.column(batch)) for batch in islice(batches, CHECKED)])
    run_for(batches, arguments.warmup)
    rows, before = 0, cpu_seconds()
    _, elapsed = run_for(batches, arguments.seconds)
    cpu_s = cpu_seconds() - before
    figures = {"samples_per_s": rows / elapsed, "cpu_s_per_1000": 1_000 * cpu_s / rows, "seconds": elapsed}
    return found | figures | {"settings": dict(feed.settings), "note": feed.note}


def mix_checked(batches: list[Any]) -> Figures:
    """Raises RuntimeError unless batches are what was asked for, a short one at an epoch's end aside; returns how far the sources' shares are from their weights."""
    rows = np.concatenate(batches)
    if rows.shape[1:] != (LENGTH,) or rows.dtype != np.uint16 or {*map(len, batches[: CHECKED // 10])} != {BATCH}:
        raise RuntimeError(f"batches are {batches[0].shape} {rows.dtype}, ({BATCH}, {LENGTH}) uint16 are due")
    shares = np.bincount(rows[:, 0], minlength=SOURCES) / len(rows)
    off = float(np.abs(shares - WEIGHTS).max())
    if off > TOLERANCE:
        raise RuntimeError(f"sources have shares of {shares.round(3).tolist()}")
    return {"off_weights": off}


def lengths_checked(batches: list[Any]) -> Figures:
    """How much of the batches is no padding."""
    tokens = sum(np.count_nonzero(batch) for batch in batches)
    return {"fill": tokens / sum(batch.size for batch in batches), "rows_per_batch": sum(map(len, batches)) / CHECKED}


def _arguments(peer: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Measure {peer} on one plan of the bench of mixing.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--plan")
    parser.add_argument("--variant")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long the clock runs")
    parser.add_argument("--warmup", type=float, default=6.0, help="how long it runs before the clock starts")
    parser.add_argument("--list", action="store_true", help="print the plans and their feeds")
    parser.add_argument("--write", action="store_true", help="write the peer's files from the token files")
    return parser.parse_args()
