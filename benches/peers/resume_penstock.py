"""Penstock: Parquet files, a loader a rank; the state is each rank's, and one call merges them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from resume_common import Run, Session, main

import penstock as ps
from resume_rows import BATCH, FILES, LENGTH, SOURCES, WEIGHTS, rows, stays


def source(run: Run, name: str, columns: list[str]) -> ps.Dataset:
    """The files of one source."""
    return ps.read(sorted((run.data / "penstock" / name).glob("*.parquet")), columns=columns)


def shuffled(run: Run) -> ps.Dataset:
    """One source."""
    return source(run, "a", ["id", "payload"]).shuffle(seed=0).batch(BATCH, drop_last=True)


def mixed(run: Run) -> ps.Dataset:
    """Two, by weights."""
    both = [source(run, name, ["id", "payload"]) for name in SOURCES]
    return ps.mix(both, weights=list(WEIGHTS)).shuffle(seed=0).batch(BATCH, drop_last=True)


def filtered(run: Run) -> ps.Dataset:
    """A mask over a batch: in lanes, so the steps of an epoch are given."""
    kept = source(run, "a", ["id", "payload"]).shuffle(seed=0).filter(lambda batch: stays(batch["id"]))
    return kept.batch(BATCH, steps=200)  # about an epoch


def packed(run: Run) -> ps.Dataset:
    """Best fit in windows of 1,000 rows, the default."""
    return source(run, "a", ["tokens"]).shuffle(seed=0).pack("tokens", length=LENGTH).batch(BATCH, steps=80)


PLANS = {"shuffle": shuffled, "mix": mixed, "filter": filtered, "pack": packed}


def session(run: Run, parts: list[Any] | None) -> Session:
    """A loader of this rank."""
    loader = ps.Loader(PLANS[run.plan](run), rank=run.rank, world_size=run.ranks)
    if parts:
        loader.load_state_dict(ps.merge_states(parts))
    return Session(steps=(ids(batch) for batch in loader), state=loader.state_dict)


def warm(run: Run) -> None:
    """Imports what the plan needs."""
    with ps.Loader(PLANS[run.plan](run), rank=run.rank, world_size=run.ranks) as loader:
        next(iter(loader))


def ids(batch: Any) -> Any:
    """Row numbers, or the tokens that are no padding."""
    return batch["id"] if "id" in batch else batch["tokens"][batch["segment_ids"] > 0]


def write(data: Path) -> None:
    """Parquet, row groups of 500 rows."""
    for name in SOURCES:
        folder = data / "penstock" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in range(FILES):
            table = pa.Table.from_pylist([row | {"tokens": np.asarray(row["tokens"])} for row in rows(name, file)])
            pq.write_table(table, folder / f"{file}.parquet", row_group_size=500)


if __name__ == "__main__":
    way = "loader.state_dict() on every rank; load_state_dict(ps.merge_states(parts))"
    main("Penstock", ps.__version__, dict.fromkeys(PLANS, session), write=write, ways={"": way}, warm=warm)
