"""What a page index spares: a filter, and the first batch of a shuffle, over files of one row group. Prints JSON.

    python benches/parquet_pages.py [--rows 5000000] [--large-rows 12000000]

A filter that keeps one row in a hundred, next to each other, of ten columns: opened and read, beside pyarrow's dataset and a file without a page index,
in turn, best of five. Then 16 columns of float64 shuffled into batches of 256, with and without a page index: seconds to the first batch, peak
memory and CPU seconds, each in a process of its own with an empty cache. Files are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

import penstock as ps
from penstock.cli.console import print_json

_TIMES = 5
_NAMES = {True: "paged.parquet", False: "plain.parquet"}


def mixed(rows: int) -> pa.Table:
    """Ten columns: a time, an id, numbers and a text."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "time": pa.array(np.arange(rows) * 1_000, pa.timestamp("us")),
            "id": np.arange(rows),
            **{f"x{number}": rng.random(rows, dtype=np.float32) for number in range(4)},
            **{f"k{number}": rng.integers(0, 1_000, rows) for number in range(2)},
            "d": rng.standard_normal(rows),
            "name": pa.array(np.char.add("n", rng.integers(0, 100_000, rows).astype(str))),
        }
    )


def floats(rows: int) -> pa.Table:
    """16 columns of float64."""
    rng = np.random.default_rng(0)
    return pa.table({f"c{number:02}": rng.random(rows) for number in range(16)})


def write(folder: Path, table: pa.Table) -> None:
    """One file with a page index and one without, of one row group each."""
    folder.mkdir()
    for index, name in _NAMES.items():
        pq.write_table(table, folder / name, row_group_size=len(table), compression="zstd", write_page_index=index)


def filtered(folder: Path, rows: int) -> dict[str, float]:
    """Seconds to open a filtered file and to read what is left, the least of some runs."""
    first, end = rows * 2 // 5, rows * 2 // 5 + rows // 100
    keep = [("id", ">=", first), ("id", "<", end)]

    def ours(name: str) -> int:
        dataset = ps.read(folder / name, filters=keep)
        return sum(len(batch["id"]) for batch in ps.Loader(dataset.batch(len(dataset))))

    def theirs() -> int:
        return pads.dataset(folder / _NAMES[True]).to_table(filter=pq.filters_to_expression(keep)).num_rows

    sides: dict[str, Callable[[], int]] = {
        "penstock, page index": lambda: ours(_NAMES[True]),
        "penstock, no page index": lambda: ours(_NAMES[False]),
        "pyarrow.dataset": theirs,
    }
    found = dict.fromkeys(sides, float("inf"))
    for _ in range(_TIMES):
        for side, work in sides.items():
            before = time.perf_counter()
            if work() != end - first:
                raise SystemExit(f"{side} read other rows")
            found[side] = min(found[side], time.perf_counter() - before)
    return found


def first_batch(path: str) -> dict[str, Any]:
    """Of this process: seconds to the first batch, the peak of memory until then in MiB, CPU seconds."""
    before = time.perf_counter()
    with ps.Loader(ps.read(path).shuffle(seed=0).batch(256)) as loader:
        next(iter(loader))
        seconds, cpu = time.perf_counter() - before, time.process_time()
        (peak,) = re.findall(
            r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text()
        )  # getrusage counts the parent's as well
    return {"seconds": seconds, "peak_mib": int(peak) >> 10, "cpu_s": cpu}


def shuffled(folder: Path) -> dict[str, Any]:
    """The first batch of both files, the quickest of some runs in turn."""
    found: dict[str, Any] = {}
    for _ in range(3):
        for index, name in _NAMES.items():
            with tempfile.TemporaryDirectory(dir=folder) as cache:
                command = [sys.executable, __file__, "--first-batch", str(folder / name)]
                told = subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": cache}, check=True, stdout=-1)
            run, side = json.loads(told.stdout), "page index" if index else "no page index"
            found[side] = min(found.get(side, run), run, key=lambda run: float(run["seconds"]))
    return found


def main() -> None:
    """Writes the data, measures, removes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--large-rows", type=int, default=12_000_000)
    parser.add_argument("--first-batch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_batch:
        print_json(first_batch(options.first_batch))
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write(root / "mixed", mixed(options.rows))
        write(root / "floats", floats(options.large_rows))
        print_json(
            {
                "command": " ".join(sys.argv),
                "cpus": os.cpu_count(),
                "filter, seconds": filtered(root / "mixed", options.rows),
                "shuffle, first batch": shuffled(root / "floats"),
            }
        )


if __name__ == "__main__":
    main()
