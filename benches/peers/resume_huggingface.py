"""Hugging Face datasets: Parquet files streamed, dealt to ranks by split_dataset_by_node; the state is each rank's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets.distributed import split_dataset_by_node
from resume_common import Run, Session, main, same_ranks

from resume_rows import FILES, LENGTH, SOURCES, WEIGHTS, rows, stays

BUFFER = 1_000  # the default
OTHER_RANKS = (
    "state_dict() of a stream split by node is one rank's, and its documentation names no other number of ranks"
)


def source(run: Run, name: str) -> datasets.IterableDataset:
    """One source's rows, shuffled."""
    files = [str(path) for path in sorted((run.data / "huggingface" / name).glob("*.parquet"))]
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    return stream.shuffle(seed=0, buffer_size=BUFFER)


def session(run: Run, parts: list[Any] | None) -> Session:
    """Rows of this rank, batched here, so that a state is taken exactly after a step's last row."""
    state = same_ranks(run, parts, OTHER_RANKS) if parts else None
    stream = split_dataset_by_node(planned(run), rank=run.rank, world_size=run.ranks)
    if state:
        stream.load_state_dict(state)
    return Session(steps=batches(stream, run), state=stream.state_dict)


def planned(run: Run) -> datasets.IterableDataset:
    """The plan."""
    if run.plan == "mix":
        both = [source(run, name) for name in SOURCES]
        return datasets.interleave_datasets(both, probabilities=list(WEIGHTS), seed=0)
    if run.plan == "filter":
        return source(run, "a").filter(lambda row: stays(row["id"]))
    if run.plan == "pack":
        return source(run, "a").map(group_texts, batched=True, remove_columns=["id", "payload"])
    return source(run, "a")


def group_texts(examples: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """As in the library's language modelling examples: what is left of a batch of 1,000 rows is dropped."""
    tokens = list(chain.from_iterable(examples["tokens"]))
    total = len(tokens) // LENGTH * LENGTH
    return {"tokens": [tokens[first : first + LENGTH] for first in range(0, total, LENGTH)]}


def batches(stream: datasets.IterableDataset, run: Run) -> Iterator[Any]:
    """Full batches of row numbers, or of tokens."""
    found = iter(stream)
    while len(batch := list(islice(found, run.batch))) == run.batch:
        yield np.array([row["tokens" if run.plan == "pack" else "id"] for row in batch], dtype=np.int64).reshape(-1)


def write(data: Path) -> None:
    """Parquet, row groups of 500 rows."""
    for name in SOURCES:
        (data / "huggingface" / name).mkdir(parents=True, exist_ok=True)
        for file in range(FILES):
            table = pa.Table.from_pylist(list(rows(name, file)))
            pq.write_table(table, data / "huggingface" / name / f"{file}.parquet", row_group_size=500)


if __name__ == "__main__":
    way = "IterableDataset.state_dict() on every rank; load_state_dict(its own)"
    plans = dict.fromkeys(("shuffle", "mix", "filter", "pack"), session)
    main(
        "Hugging Face datasets",
        datasets.__version__,
        plans,
        write=write,
        ways={"": way},
        warm=lambda run: next(iter(planned(run))),
    )
