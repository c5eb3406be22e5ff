"""Grain: a MapDataset over ArrayRecord files; ElasticIterator where it allows the plan, else an iterator whose state is each rank's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from grain.experimental import ConcatThenSplitIterDataset, ElasticIterator
from resume_common import Run, Session, main, same_ranks

from resume_rows import BATCH, FILES, LENGTH, PAYLOAD_BYTES, SOURCES, WEIGHTS, rows, stays

OTHER_RANKS = "get_state() is one rank's; ElasticIterator, which goes on with other ranks, allows no {}"


class Counted:
    """A random access source that counts the rows that are read."""

    def __init__(self, paths: list[str]) -> None:
        self.source = grain.sources.ArrayRecordDataSource(paths)
        self.read = 0

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, at: Any) -> bytes:
        self.read += 1
        return self.source[at]


def decode(record: bytes) -> dict[str, Any]:
    """What write() encoded."""
    return {
        "id": np.frombuffer(record, np.int64, 1)[0],
        "tokens": np.frombuffer(record, np.int64, offset=8 + PAYLOAD_BYTES),
    }


def sources(run: Run) -> dict[str, Counted]:
    """Both, opened."""
    return {
        name: Counted([str(path) for path in sorted((run.data / "grain" / name).glob("*.arrayrecord"))])
        for name in SOURCES
    }


def elastic(run: Run, parts: list[Any] | None) -> Session:
    """Plans of MapDatasets without a filter."""
    opened = sources(run)
    inputs = [
        grain.MapDataset.source(source).shuffle(seed=number).map(decode).map(lambda row: row["id"])
        for number, source in enumerate(opened.values())
    ]
    dataset = inputs[0] if run.plan == "shuffle" else grain.MapDataset.mix(inputs, weights=WEIGHTS)
    shard = grain.sharding.ShardOptions(shard_index=run.rank, shard_count=run.ranks)
    steps = iter(ElasticIterator(dataset, BATCH, shard))
    if parts:
        steps.set_state(parts[0])
    return Session(steps=steps, state=steps.get_state, rows_read=lambda: read_of(opened))


def sharded(run: Run, parts: list[Any] | None) -> Session:
    """Plans with a filter or packing: each rank a part of the order, with a state of its own."""
    state = same_ranks(run, parts, OTHER_RANKS.format("filter or packing")) if parts else None
    opened = sources(run)
    dataset = grain.MapDataset.source(opened["a"]).shuffle(seed=0)[run.rank :: run.ranks].map(decode)
    if run.plan == "filter":
        found = dataset.map(lambda row: row["id"]).filter(lambda row: bool(stays(row))).to_iter_dataset()
    else:
        tokens = dataset.map(lambda row: {"tokens": row["tokens"]}).to_iter_dataset()
        found = ConcatThenSplitIterDataset(tokens, length_struct={"tokens": LENGTH})
    iterator = iter(found.batch(run.batch, drop_remainder=True))
    if state:
        iterator.set_state(state)
    return Session(steps=(ids(step) for step in iterator), state=iterator.get_state, rows_read=lambda: read_of(opened))


def ids(step: Any) -> Any:
    """Row numbers, or the tokens that are no padding."""
    return step["tokens"][step["tokens_segment_ids"] > 0] if isinstance(step, dict) else step


def read_of(opened: dict[str, Counted]) -> int:
    """Rows read so far."""
    return sum(source.read for source in opened.values())


def write(data: Path) -> None:
    """ArrayRecord in groups of one record, for random access, as its guide says."""
    for name in SOURCES:
        (data / "grain" / name).mkdir(parents=True, exist_ok=True)
        for file in range(FILES):
            writer = ArrayRecordWriter(str(data / "grain" / name / f"{file}.arrayrecord"), "group_size:1")
            for row in rows(name, file):
                writer.write(np.int64(row["id"]).tobytes() + row["payload"] + row["tokens"].tobytes())
            writer.close()


if __name__ == "__main__":
    plans = {"shuffle": elastic, "mix": elastic, "filter": sharded, "pack": sharded}
    own = "iterator.get_state() on every rank; iterator.set_state(its own)"
    ways = {"": "grain.experimental.ElasticIterator: get_state() of one rank; set_state() on every rank"}
    main("Grain", grain.__version__, plans, write=write, ways=ways | {"filter": own, "pack": own})
