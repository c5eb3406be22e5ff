"""Polars: what is learnt by one select on the file, and expressions that use it, by its streaming engine or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl
from common import BATCH, Feed, main
from mixed_table import CATEGORIES, CODES, FLOATS, INTEGERS, SKEWED, place

from work import Data


def learnt(rows: pl.LazyFrame, engine: Any) -> dict[str, Any]:
    """Medians, means, deviations, bounds, quartiles and categories."""
    wanted = list[pl.Expr]()
    for name in FLOATS:
        filled = pl.col(name).fill_null(pl.col(name).median())
        wanted += [pl.col(name).median().alias(f"{name} median"), filled.mean().alias(f"{name} mean")]
        wanted.append(filled.std(ddof=0).alias(f"{name} std"))
    for name in INTEGERS:
        wanted += [pl.col(name).min().alias(f"{name} min"), pl.col(name).max().alias(f"{name} max")]
    for name in SKEWED:
        for part in (0.25, 0.5, 0.75):
            wanted.append(pl.col(name).log1p().quantile(part, "linear").alias(f"{name} {part}"))
    wanted += [pl.col(name).unique().sort().implode().alias(f"{name} values") for name in [*CATEGORIES, *CODES]]
    return rows.select(wanted).collect(engine=engine).row(0, named=True)


def transformed(rows: pl.LazyFrame, known: dict[str, Any]) -> pl.LazyFrame:
    """What every side does; a column a category."""
    made = list[pl.Expr]()
    for name in FLOATS:
        filled = pl.col(name).fill_null(known[f"{name} median"])
        made.append(((filled - known[f"{name} mean"]) / known[f"{name} std"]).cast(pl.Float32))
    for name in INTEGERS:
        low, high = known[f"{name} min"], known[f"{name} max"]
        made.append(((pl.col(name) - low) / (high - low)).cast(pl.Float32))
    for name in SKEWED:
        spread = known[f"{name} 0.75"] - known[f"{name} 0.25"]
        made.append(((pl.col(name).log1p() - known[f"{name} 0.5"]) / spread).cast(pl.Float32))
    for name in CATEGORIES:
        values = known[f"{name} values"]
        made += [(pl.col(name) == value).cast(pl.Float32).alias(f"{name}_{value}") for value in values]
    for name in CODES:
        made.append(pl.col(name).cast(pl.Enum(known[f"{name} values"])).to_physical().cast(pl.Int64).alias(name))
    return rows.select([*made, pl.col("y")])


def computed(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Ten columns, as ours."""
    a, b, n, k, s = map(pl.col, ("f0", "f1", "i0", "i1", "c0"))
    return rows.select(
        ratio=a / b,
        mixed=(a + b) * 2 - n,
        size=(a * a + b * b).sqrt(),
        bounded=n.clip(100, 9_000),
        logs=(n + 1).log(),
        part=n // (k + 1),
        kind=pl.when(n > 5_000).then(2).when(n > 1_000).then(1).otherwise(0),
        near=(n < 5_000) & (k > 0) | k.is_in([1, 2]),
        length=s.str.len_chars(),
        month=pl.from_epoch(n.cast(pl.Int64) * 86_400, time_unit="s").dt.month(),
    )


def computing(data: Data, engine: Any) -> Iterator[Any]:
    """Read and compute, again and again."""
    while True:
        yield computed(pl.scan_parquet(place(data))).collect(engine=engine)["part"].to_numpy()


def passes(data: Data, engine: Any) -> Iterator[Any]:
    """Fit and transform, again and again."""
    while True:
        rows = pl.scan_parquet(place(data))
        yield transformed(rows, learnt(rows, engine)).collect(engine=engine)


def feed(data: Data, *, engine: Any) -> Feed:
    """A pass is a batch of all rows."""
    return Feed(
        batches=passes(data, engine),
        column=lambda made: made["y"].to_numpy(),
        settings={"engine": engine, "rows": BATCH["tables-recipe"]},
        is_pass=True,
    )


def columns_feed(data: Data, *, engine: Any) -> Feed:
    """A pass is a batch of all rows."""
    settings = {"engine": engine, "rows": BATCH["tables-columns"]}
    return Feed(batches=computing(data, engine), column=lambda made: made, settings=settings, is_pass=True)


if __name__ == "__main__":
    feeds = {"streaming": partial(feed, engine="streaming"), "in memory": partial(feed, engine="in-memory")}
    columns = {
        "streaming": partial(columns_feed, engine="streaming"),
        "in memory": partial(columns_feed, engine="in-memory"),
    }
    main("Polars", pl.__version__, {"tables-recipe": feeds, "tables-columns": columns})
