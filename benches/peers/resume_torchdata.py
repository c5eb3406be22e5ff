"""PyTorch: StatefulDataLoader over a map-style data set with StatefulDistributedSampler; torchdata.nodes for the mix."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from resume_common import NoFeature, Run, Session, main, same_ranks
from torchdata.nodes import Batcher, Loader, Mapper, MultiNodeWeightedSampler, SamplerWrapper, StopCriteria
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

from resume_rows import FILES, PAYLOAD_BYTES, ROWS, SOURCES, WEIGHTS, rows

ROW_BYTES = 8 + PAYLOAD_BYTES
OTHER_RANKS = 'StatefulDataLoader aggregates its state "across multiprocess workers (but not across ranks)", says its documentation'
SEED_OF_RANK = "MultiNodeWeightedSampler draws with a seed of each rank (`_get_rank_seed`), so a state is one rank's"


class Rows(torch.utils.data.Dataset):
    """Rows of one length in a file, each read by itself and counted."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDONLY)
        self.read = 0

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, at: int) -> int:
        self.read += 1
        return int(np.frombuffer(os.pread(self.file, ROW_BYTES, at * ROW_BYTES), np.int64, 1)[0])


def opened(run: Run, name: str) -> Rows:
    """One source."""
    return Rows(run.data / "torchdata" / f"{name}.rows")


def sampler(rows_: Rows, run: Run, seed: int) -> StatefulDistributedSampler:
    """A rank has its part of a permutation."""
    return StatefulDistributedSampler(rows_, num_replicas=run.ranks, rank=run.rank, shuffle=True, seed=seed)


def shuffled(run: Run, parts: list[Any] | None) -> Session:
    """The loader that is documented for it."""
    state = same_ranks(run, parts, OTHER_RANKS) if parts else None
    source = opened(run, "a")
    loader = StatefulDataLoader(source, batch_size=run.batch, sampler=sampler(source, run, 0), drop_last=True)
    if state:
        loader.load_state_dict(state)
    return Session(steps=(step.numpy() for step in loader), state=loader.state_dict, rows_read=lambda: source.read)


def mixed(run: Run, parts: list[Any] | None) -> Session:
    """MultiNodeWeightedSampler, until the first source ends."""
    state = same_ranks(run, parts, SEED_OF_RANK) if parts else None
    sources = {name: opened(run, name) for name in SOURCES}
    nodes = {
        name: Mapper(SamplerWrapper(sampler(source, run, number)), source.__getitem__)
        for number, (name, source) in enumerate(sources.items())
    }
    mix = MultiNodeWeightedSampler(
        nodes,
        dict(zip(SOURCES, WEIGHTS, strict=True)),
        stop_criteria=StopCriteria.FIRST_DATASET_EXHAUSTED,
        rank=run.rank,
        world_size=run.ranks,
    )
    loader = Loader(Batcher(mix, run.batch, drop_last=True))
    if state:
        loader.load_state_dict(state)
    steps = (np.array(step, dtype=np.int64) for step in loader)
    return Session(
        steps=steps, state=loader.state_dict, rows_read=lambda: sum(source.read for source in sources.values())
    )


def write(data: Path) -> None:
    """Rows of one length, one after another."""
    (data / "torchdata").mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        with (data / "torchdata" / f"{name}.rows").open("wb") as out:
            for file in range(FILES):
                for row in rows(name, file):
                    out.write(np.int64(row["id"]).tobytes() + row["payload"])


if __name__ == "__main__":
    plans = {
        "shuffle": shuffled,
        "mix": mixed,
        "filter": NoFeature(
            "neither StatefulDataLoader nor torchdata.nodes has a filter; an iterable data set of one's own would filter"
        ),
        "pack": NoFeature("neither StatefulDataLoader nor torchdata.nodes has packing"),
    }
    ways = {
        "": "StatefulDataLoader.state_dict() on every rank; load_state_dict(its own)",
        "mix": "torchdata.nodes.Loader.state_dict() on every rank; load_state_dict(its own)",
    }
    main("PyTorch torchdata", version("torchdata"), plans, write=write, ways=ways)
