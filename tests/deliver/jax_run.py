"""One of several JAX processes, each with 4 virtual devices: python jax_run.py FOLDER NUMBER COUNT PORT. Prints what it got as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import penstock as ps
import penstock.jax
from penstock.deliver import together

FOLDER, NUMBER, COUNT, PORT = Path(sys.argv[1]), *map(int, sys.argv[2:5])
if COUNT > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{PORT}", COUNT, NUMBER)

plan = ps.from_arrays({"id": np.arange(240, dtype=np.int32)}).shuffle(seed=1).batch(16)


def told(**found: object) -> None:
    print(json.dumps(found), flush=True)


def run(devices: Any, name: str) -> None:
    """Global batches on a mesh."""
    mesh = Mesh(devices, ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    mean = jax.jit(lambda ids: ids.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))
    loader = ps.Loader(plan, to="jax", device=sharding)
    batches = penstock.jax.DatasetIterator(loader)
    sums, shards = [], []
    for _ in range(5):
        batch = next(batches)["id"]
        assert batch.shape == (16,)
        sums.append(int(mean(batch)))
        shards.append(
            {str(shard.index[0].start or 0): np.asarray(shard.data).tolist() for shard in batch.addressable_shards}
        )
    told(name=name, rank=loader.rank, world_size=loader.world_size, sums=sums, shards=shards)
    with ocp.CheckpointManager(FOLDER / name) as manager:
        if manager.latest_step() is None:
            manager.save(5, args=ocp.args.Composite(data=penstock.jax.CheckpointSave(batches)))
            manager.wait_until_finished()
        manager.restore(5, args=ocp.args.Composite(data=penstock.jax.CheckpointRestore(batches)))
    told(name=name, after=[int(mean(next(batches)["id"])) for _ in range(12)])


each = np.array(jax.devices()).reshape(COUNT, 2, 2)
run(each.reshape(-1, 1), "data")  # each process has rows of its own
run(each.transpose(1, 0, 2).reshape(2, -1), "model")  # each has all rows


# What a function looks at would name its counts: so how many rows it got stands in the environment.


def third(batch: Any) -> Any:
    os.environ["CALLED"] = str(int(os.environ["CALLED"]) + len(batch["id"]))
    return batch["id"] % 7 < 3


os.environ["CALLED"], os.environ["XDG_CACHE_HOME"] = "0", str(FOLDER / f"cache-{NUMBER}-of-{COUNT}")
together._MEET_S = 60.0
filtered = ps.from_arrays({"id": np.arange(3_000, dtype=np.int32)}).shuffle(seed=1).filter(third).batch(48)
counted = filtered.count_rows(epochs=2)
called = int(os.environ["CALLED"])
with ps.Loader(filtered, to="jax") as few:
    length = len(few)
    told(name="counted", rows=counted, called=called, length=length, ids=[batch["id"].tolist() for batch in few])
