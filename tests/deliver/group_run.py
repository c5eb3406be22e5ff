"""Four real ranks of gloo, forked after PyTorch was imported once: python group_run.py FOLDER. Each writes what it saw to FOLDER/RANK.json."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import penstock as ps
import penstock.deliver.torch  # before the fork
import penstock.loader
from penstock.deliver import agreement

WORLD, ROWS = 4, 48
agreement._AGREE_S = 60.0

folder = Path(sys.argv[1])
rank = -1
groups = 0


def dataset(rows: int = ROWS, seed: int = 0, size: int = 12, **batch: Any) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(rows)}).shuffle(seed=seed).batch(size, **batch)


def init(world: int = WORLD) -> None:
    """A group of the first ranks; every one has a store of its own."""
    global groups
    groups += 1
    dist.init_process_group("gloo", init_method=f"file://{folder}/store-{groups}", rank=rank, world_size=world)


def leave() -> None:
    dist.barrier()
    dist.destroy_process_group()


def ids(loader: ps.Loader) -> list[list[int]]:
    return [batch["id"].tolist() for batch in loader]


def said(make: Callable[[], Any]) -> Any:
    """What it gives, or its error; with what it warns of."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = make()
        except ps.PenstockError as error:
            found = f"{type(error).__name__}: {error}"
    texts = [str(one.message) for one in warned if "Loader" in str(one.message)]
    return [found, *texts] if texts else found


def first(plan: ps.Dataset, **options: Any) -> list[int]:
    found: list[int] = next(iter(ps.Loader(plan, **options)))["id"].tolist()
    return found


def begun(plan: ps.Dataset, **options: Any) -> Any:
    """What the first batch of a loader holds, on all ranks at once."""
    dist.barrier()
    return said(lambda: first(plan, **options))


# What ranks get


def epochs() -> dict[str, Any]:
    """Two passes, a repeated one by set_epoch, and a state in the middle of the next."""
    loader = ps.Loader(dataset())
    passes = [ids(loader), ids(loader)]
    loader.set_epoch(1)
    again = ids(loader)
    stopped = iter(loader)
    next(stopped)
    state = loader.state_dict()
    return {"shown": repr(loader), "passes": passes, "again": again, "state": state}


def restarts(state: Any, world: int) -> Any:
    """The rest of the state's epoch, on another number of ranks."""
    loader = ps.Loader(dataset())
    loader.load_state_dict(state)
    return {"world": [loader.rank, loader.world_size], "rest": ids(loader), "wanted": world}


def changes() -> dict[str, Any]:
    """A group that is gone for one of two ranks while a pass runs."""
    loader = ps.Loader(dataset())
    running = iter(loader)
    taken = [next(running)["id"].tolist()]
    leave()
    if rank >= 2:
        return {}
    init(2)
    error = said(lambda: [taken.append(batch["id"].tolist()) for batch in running])
    loader.load_state_dict(loader.state_dict())
    return {"taken": taken, "error": error, "rest": ids(loader)}


# Meshes


def meshes() -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    deep = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("replicate", "tp", "shard"))
    half = DeviceMesh("cpu", [0, 3], mesh_dim_names=("dp",))
    nameless = init_device_mesh("cpu", (4,))
    one = ps.Loader(dataset(), mesh=mesh, data_dims="dp")
    found = {
        "dp": ids(one),
        "shown": repr(one),
        "tp": ids(ps.Loader(dataset(), mesh=mesh, data_dims=["tp"])),
        "both": ids(ps.Loader(dataset(), mesh=mesh, data_dims=("tp", "dp"))),
        "deep": ids(ps.Loader(dataset(), mesh=deep, data_dims=("replicate", "shard"))),
        "part": ids(ps.Loader(dataset(), mesh=mesh["tp"], data_dims="tp")),
        "half": said(lambda: ids(ps.Loader(dataset(), mesh=half, data_dims="dp"))),
        "group": ids(ps.Loader(dataset(), process_group=mesh.get_group("dp"))),
    }
    wrong = {
        "no such dim": {"mesh": mesh, "data_dims": "data"},
        "no dims": {"mesh": mesh},
        "empty": {"mesh": mesh, "data_dims": ()},
        "numbers": {"mesh": mesh, "data_dims": 0},
        "twice": {"mesh": mesh, "data_dims": ("dp", "dp")},
        "nameless": {"mesh": nameless, "data_dims": "dp"},
        "rank": {"mesh": mesh, "data_dims": "dp", "rank": 0, "world_size": 2},
        "group": {"mesh": mesh, "data_dims": "dp", "process_group": mesh.get_group("dp")},
        "no mesh": {"data_dims": "dp"},
    }
    found["wrong"] = {name: said(lambda given=given: ps.Loader(dataset(), **given)) for name, given in wrong.items()}
    with ps.Loader(dataset(), mesh=mesh, data_dims="dp", ledger=folder / "ledger") as recorded:
        ids(recorded)
    found["forgotten"] = begun(dataset())
    found["other dims"] = begun(dataset(), mesh=mesh, data_dims="dp" if rank < 3 else "tp")
    found["other data"] = begun(dataset(seed=rank % 2), mesh=mesh, data_dims="dp")
    return found


# What differs


def _add(number: int) -> Any:
    return lambda batch: {**batch, "id": batch["id"] + 0 * number}


def differences() -> dict[str, Any]:
    plain = ps.from_arrays({"id": np.arange(ROWS)})
    return {
        "rows": begun(dataset(49 if rank == 2 else 48, drop_last=True)),
        "seed": begun(dataset(seed=int(rank == 3))),
        "size": begun(dataset(size=12 + 12 * (rank == 0))),
        "policy": begun(dataset(), on_error="substitute" if rank == 1 else "raise"),
        "all": begun(dataset(seed=rank)),
        "functions": begun(plain.map(_add(rank)).batch(12)),
        "not made": begun(dataset(49 if rank == 2 else 48)),
        "same after all": begun(dataset()),
    }


def begin_early() -> list[list[int]]:
    return ids(ps.Loader(dataset(seed=8)))


def begin_late() -> list[list[int]]:
    return ids(ps.Loader(dataset(seed=9)))


def orders() -> dict[str, Any]:
    """Two loaders, which ranks begin in other orders, and one that a rank makes for itself."""
    agreement._EQUAL_S = 0.1
    found = {}
    if rank == 0:
        found["look"] = said(lambda: first(dataset()))
    train, validation = ps.Loader(dataset()), ps.Loader(dataset(24))
    for name in ("train", "validation") if rank % 2 else ("validation", "train"):
        found[name] = said(lambda name=name: ids(train if name == "train" else validation))
    numbers = [ps.from_arrays({"id": np.arange(first, first + ROWS)}).shuffle(seed=0) for first in (0, 100)]
    weighted = ps.Loader(ps.mix(numbers, weights=[1, 1], rows=ROWS).batch(12))
    dist.barrier()
    time.sleep(0.3 * rank)
    weighted.set_weights([3, 1])
    found["weighted"] = said(lambda: sum(row < 100 for step in ids(weighted) for row in step))
    dist.barrier()
    agreement._AGREE_S = 0.5
    if rank == 1:
        found["alone"] = said(lambda: first(dataset(36)))
    agreement._AGREE_S, agreement._READ_S = 4.0, 1.0
    dist.barrier()
    found["branch"] = said(begin_early if rank == 2 else begin_late)
    return found


# Models


def _steps(model: Any, mesh: Any = None) -> list[float]:
    """The mean of the weights after an epoch, on which all ranks must agree."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = ps.Loader(
        ps.from_arrays({"x": np.arange(ROWS, dtype=np.float32).reshape(-1, 1) / ROWS}).shuffle(seed=0).batch(12),
        to="torch",
    )
    for batch in loader:
        model(batch["x"]).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    whole = [weight.full_tensor() if hasattr(weight, "full_tensor") else weight for weight in model.parameters()]
    return [round(float(weight.detach().mean()), 6) for weight in whole]


def models() -> dict[str, Any]:
    def make() -> torch.nn.Module:
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Linear(4, 1))

    sharded = make()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (WORLD,)))
    one = _steps(torch.nn.DataParallel(make()))  # each rank for itself
    return {"dp": len(one), "ddp": _steps(DistributedDataParallel(make())), "fsdp": _steps(sharded)}


def one_rank() -> dict[str, Any]:
    found: dict[str, Any] = {}
    torch.set_num_threads(1)
    init()
    for name, scenario in {"epochs": epochs, "differences": differences, "models": models, "meshes": meshes}.items():
        found[name] = scenario()
        dist.barrier()
    state = found["epochs"]["state"]
    found["changes"] = changes()
    if dist.is_initialized():
        found["restart on 2"] = restarts(state, 2)
        leave()
    if rank == 0:
        init(1)
        found["restart on 1"] = restarts(state, 1)
        leave()
    global groups
    groups = 10
    init()
    found["orders"] = orders()
    leave()
    return found


def run(number: int) -> int:
    global rank
    rank = number
    try:
        (folder / f"{rank}.json").write_text(json.dumps(one_rank()))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> int:
    children = []
    for number in range(WORLD):
        if not (child := os.fork()):
            os._exit(run(number))
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
