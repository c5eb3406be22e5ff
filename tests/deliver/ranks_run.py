"""One rank of several, as a script of its own: python ranks_run.py STORE RANK WORLD_SIZE SCENARIOS; prints what it saw as JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import torch.distributed as dist

import penstock as ps
from penstock.deliver import agreement

store, rank, world_size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
agreement._AGREE_S = 60.0


def loader_of(**given: Any) -> ps.Loader:
    return ps.Loader(ps.from_arrays({"id": np.arange(48)}).shuffle(seed=0).batch(12), **given)


def init() -> None:
    method = store if store.startswith("tcp") else f"{store}-{len(found)}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world_size)


def ids(loader: ps.Loader) -> list[list[int]]:
    return [batch["id"].tolist() for batch in loader]


def attempt(make: Any) -> Any:
    try:
        return make()
    except ps.PenstockError as error:
        return str(error)


def late() -> dict[str, Any]:
    """Loaders made, asked and used before the group is there."""
    loader, used = loader_of(), loader_of()
    before = [loader.rank, loader.world_size, loader.batch_size, len(loader.sample_ids(0, 0))]
    alone = ids(used)
    interrupted = iter(used)
    begun = [next(interrupted)["id"].tolist()]
    waiting = iter(loader)
    init()
    begun += [batch["id"].tolist() for batch in interrupted]  # goes on as it began
    return {
        "before": before,
        "after": [loader.rank, loader.world_size, loader.batch_size],
        "sample_ids": [loader.sample_ids(0, step).tolist() for step in range(4)],
        "batch_at": [loader.batch_at(0, step)["id"].tolist() for step in range(4)],
        "passes": [[batch["id"].tolist() for batch in waiting], ids(loader), ids(loader)],
        "alone": [alone, begun],
        "then": ids(used),
        "left": _left(loader),
    }


def _left(loader: ps.Loader) -> list[Any]:
    dist.destroy_process_group()
    return [loader.rank, loader.world_size, ids(loader)]


def environment() -> dict[str, Any]:
    """A launcher's environment that says something else than the group."""
    os.environ.update(RANK="2", WORLD_SIZE="3")
    loader = loader_of()
    before = [loader.rank, loader.world_size]
    init()
    del os.environ["RANK"], os.environ["WORLD_SIZE"]
    return {"before": before, "after": [loader.rank, loader.world_size], "ids": ids(loader)}


def given() -> dict[str, Any]:
    early = loader_of(rank=0, world_size=world_size), loader_of(rank=0, world_size=1)
    right = loader_of(rank=rank, world_size=world_size)
    init()
    seen = {
        "right": ids(right),
        "one rank's number, before the group": attempt(lambda: ids(early[0])),
        "the number alone, before the group": attempt(lambda: ids(early[1])),
        "one rank's number": attempt(lambda: ids(loader_of(rank=1, world_size=world_size))),
        "another world": attempt(lambda: loader_of(rank=rank, world_size=6)),
    }
    second = dist.new_group([1])
    seen["a group of one"] = attempt(lambda: ids(loader_of(process_group=second)))
    seen["no group"] = attempt(lambda: loader_of(process_group="dp"))
    seen["both"] = attempt(lambda: loader_of(process_group=second, rank=0, world_size=2))
    return seen


def alone() -> list[list[int]]:
    """Only one rank makes a loader with its numbers: it does not wait for the others for ever."""
    init()
    agreement._AGREE_S = 0.5
    return ids(loader_of(rank=rank, world_size=world_size)) if rank == 1 else []


def dies() -> list[list[int]]:
    """Both ranks are given the number of the second one, and none catches the error; the first one holds the group's store."""
    loader = loader_of(rank=1, world_size=world_size)
    init()
    return ids(loader)


scenarios = {"late": late, "environment": environment, "given": given, "alone": alone, "dies": dies}
found: dict[str, Any] = {}
for name in sys.argv[4:]:
    found[name] = scenarios[name]()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
print(json.dumps(found))
