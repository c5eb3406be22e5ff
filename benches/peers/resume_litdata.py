"""LitData: optimised chunks on the local disk, StreamingDataLoader under torch.distributed (gloo)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import litdata
import numpy as np
import torch
from resume_common import NoFeature, NoWay, Run, Session, main

from resume_rows import FILES, LENGTH, SOURCES, WEIGHTS, rows

#: A multiple of all numbers of ranks: its readme advises to set it where the number will change.
CANONICAL_NODES = 4
OTHER_RANKS = (
    'its readme: CombinedStreamingDataset resumes "only with the same world_size, num_workers, and batch_size"'
)


def opened(run: Run, name: str, kind: str = "rows") -> litdata.StreamingDataset:
    """One source's chunks; those of tokens are read as windows of LENGTH."""
    return litdata.StreamingDataset(
        str(run.data / "litdata" / kind / name),
        item_loader=litdata.TokensLoader(block_size=LENGTH) if kind == "tokens" else None,
        shuffle=True,
        drop_last=True,
        seed=42,
        num_canonical_nodes=CANONICAL_NODES,
    )


def session(run: Run, parts: list[Any] | None) -> Session:
    """A loader of this rank."""
    if parts and run.plan == "mix" and run.ranks != run.saved_ranks:
        raise NoWay(OTHER_RANKS)
    torch.distributed.init_process_group("gloo")
    if run.plan == "mix":
        both = [opened(run, name) for name in SOURCES]
        dataset = litdata.CombinedStreamingDataset(both, seed=42, weights=WEIGHTS, iterate_over_all=False)
    else:
        dataset = opened(run, "a", "tokens" if run.plan == "pack" else "rows")
    loader = litdata.StreamingDataLoader(dataset, batch_size=run.batch, drop_last=True)
    if parts:
        loader.load_state_dict(parts[run.rank if run.ranks == run.saved_ranks else 0])
    return Session(steps=(ids(batch) for batch in loader), state=loader.state_dict)


def done() -> None:
    """No rank leaves before the others."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()


def ids(batch: Any) -> Any:
    """Row numbers, or tokens."""
    return (batch["id"] if isinstance(batch, dict) else batch).numpy().reshape(-1)


def file_rows(file: int, name: str) -> Any:
    """The rows of one file."""
    for row in rows(name, file):
        yield {"id": int(row["id"]), "payload": row["payload"]}


def file_tokens(file: int, name: str) -> Any:
    """The documents of one file."""
    for row in rows(name, file):
        yield torch.from_numpy(np.ascontiguousarray(row["tokens"]))


def write(data: Path) -> None:
    """Chunks of 500 rows, and of 250 windows of tokens."""
    for name in SOURCES:
        settings = {"num_workers": 1, "mode": "overwrite"}
        files = list(range(FILES))
        place = data / "litdata" / "rows" / name
        litdata.optimize(functools.partial(file_rows, name=name), files, str(place), chunk_size=500, **settings)
        place = data / "litdata" / "tokens" / name
        litdata.optimize(
            functools.partial(file_tokens, name=name),
            files,
            str(place),
            chunk_size=250 * LENGTH,
            item_loader=litdata.TokensLoader(),
            **settings,
        )


if __name__ == "__main__":
    plans = {
        "shuffle": session,
        "mix": session,
        "filter": NoFeature("StreamingDataset addresses samples by number and has no filter"),
        "pack": session,
    }
    way = "StreamingDataLoader.state_dict() on every rank; load_state_dict(its own, or rank 0's on other ranks)"
    main("LitData", litdata.__version__, plans, write=write, ways={"": way}, done=done)
