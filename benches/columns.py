"""Ten computed columns of a table in memory, batch by batch, beside Polars: python benches/columns.py [--rows 2_000_000] [--batch 65_536] [--rounds 5] [--json FILE].

"the stage" is what a thread of a Loader does to columns that lie there; "a loader" reads the columns besides, and hands out NumPy arrays and Arrow text, on all CPUs. Polars computes the same of slices
of its own frame, on all CPUs too, and converts nothing. The sides take turns. A figure is the best round, in million rows a second; ratios are ours over theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import penstock as ps
from penstock.runtime.slots import Slots
from penstock.stages.with_columns import ComputeColumns

WORDS = ["tea", "Rice", "black coffee", "Öl", "sugar cane", "salt"]


def columns_of(rows: int) -> dict[str, Any]:
    """Numbers, text and dates."""
    draw = np.random.default_rng(0)
    return {
        "a": draw.normal(size=rows),
        "b": draw.normal(size=rows),
        "n": draw.integers(-1000, 1000, rows),
        "k": draw.integers(1, 9, rows),
        "s": [WORDS[one] for one in draw.integers(0, len(WORDS), rows)],
        "when": draw.integers(0, 1_700_000_000, rows),
    }


def ours(data: ps.Dataset) -> ps.Dataset:
    """Ten columns."""
    a, b, n, k, s, when = map(ps.col, ("a", "b", "n", "k", "s", "when"))
    return data.with_columns(
        ratio=a / b,
        mixed=(a + b) * 2 - n,
        size=(a * a + b * b).sqrt(),
        bounded=n.clip(-100, 100),
        logs=(n.abs() + 1).log(),
        part=n // k,
        kind=ps.when(a > 1).then(2).when(a > 0).then(1).otherwise(0),
        near=(a.abs() < 0.5) & (b > 0) | k.is_in([1, 2]),
        length=s.str.len(),
        month=when.from_epoch("s").dt.month(),
    )


def theirs(frame: pl.DataFrame) -> pl.DataFrame:
    """The same ten."""
    a, b, n, k, s, when = map(pl.col, ("a", "b", "n", "k", "s", "when"))
    return frame.with_columns(
        ratio=a / b,
        mixed=(a + b) * 2 - n,
        size=(a * a + b * b).sqrt(),
        bounded=n.clip(-100, 100),
        logs=(n.abs() + 1).log(),
        part=n // k,
        kind=pl.when(a > 1).then(2).when(a > 0).then(1).otherwise(0),
        near=(a.abs() < 0.5) & (b > 0) | k.is_in([1, 2]),
        length=s.str.len_chars(),
        month=pl.from_epoch(when, time_unit="s").dt.month(),
    )


def stage_of(data: ps.Dataset, columns: dict[str, Any], size: int) -> Callable[[int], Any]:
    """What computes the columns of a batch, by its first row."""
    node: Any = data.root
    given = dict(node.input.spec_of_inputs([]))
    places: Any = None  # of rows that are bad: none is
    compute = ComputeColumns((0, 1), places, Slots(), node, given, node.fields(given))
    held = {name: pa.array(one, pa.large_string()) if isinstance(one, list) else one for name, one in columns.items()}

    def made(first: int) -> Any:
        some = {name: column[first : first + size] for name, column in held.items()}
        return compute.computed(some, given, len(some["a"]))

    return made


def measured(rows: int, size: int, rounds: int) -> dict[str, float]:
    """Million rows a second, by side."""
    columns = columns_of(rows)
    frame, data = pl.DataFrame(columns), ps.from_arrays(columns)
    plans = {"a loader": ours(data).batch(size), "a loader that computes nothing": data.batch(size)}
    stage = stage_of(ours(data), columns, size)
    best = dict.fromkeys(["the stage", *plans, "polars"], 0.0)
    for _ in range(rounds):
        for name in best:
            begin = time.perf_counter()
            if name in plans:
                with ps.Loader(
                    plans[name]
                ) as loader:  # a new one each time: nothing is made ahead before the clock runs
                    seen = sum(len(batch["a"]) for batch in loader)
            elif name == "the stage":
                seen = sum(len(stage(first)["ratio"]) for first in range(0, rows, size))
            else:
                seen = sum(len(theirs(frame.slice(first, size))) for first in range(0, rows, size))
            assert seen == rows
            best[name] = max(best[name], rows / (time.perf_counter() - begin) / 1e6)
    return best


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    told = parser.parse_args()
    best = measured(told.rows, told.batch, told.rounds)
    ratios = {name: best[name] / best["polars"] for name in ("the stage", "a loader")}
    for name, rate in best.items():
        print(f"{name:>30}: {rate:6.2f} million rows a second")
    for name, ratio in ratios.items():
        print(f"{name + ' / polars':>30}: {ratio:6.2f}")
    if told.json is not None:
        said = {
            **vars(told),
            "json": None,
            "cpus": os.cpu_count(),
            "polars": pl.__version__,
            "best": best,
            "ratios": ratios,
        }
        told.json.write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
