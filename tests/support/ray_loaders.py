"""What tests of loaders on Ray share: a small plan, how batches are compared, what is left of actors."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray

import penstock as ps
from penstock.ray.on_ray import OnRay
from penstock.ray.pool import NAMESPACE, Actor

ROWS, SIDE = 96, 420
STORE = 150 << 20


def begun_cluster(head: dict[str, Any]) -> Any:
    """A cluster of one node, to which others can be added. Ray waits 30 s for a node, which a machine that is busy with other tests may take."""
    from ray.cluster_utils import Cluster

    for _ in range(2):
        made = Cluster()
        try:
            made.add_node(**head, include_dashboard=False)
        except Exception as error:
            if "timed out" not in str(error):
                raise
            made.shutdown()
        else:
            return made
    return Cluster(initialize_head=True, head_node_args={**head, "include_dashboard": False})


def images(rows: int = ROWS) -> ps.Dataset:
    """4 MB a batch."""
    pixels = np.random.default_rng(0).integers(0, 256, (rows, SIDE, SIDE, 3), np.uint8)
    data = ps.from_arrays({"image": pixels, "number": np.arange(rows), "words": [[1] * (i % 4) for i in range(rows)]})
    return data.shuffle(seed=5).transform(image=[ps.image.RandomResizedCrop(400), ps.image.RandomInvert()]).batch(8)


def numbers(rows: int, size: int, calls: Path | None = None) -> ps.Dataset:
    """Small batches; each that is made adds a byte to a file."""

    def counted(batch: Any) -> Any:
        if calls is not None:
            with calls.open("ab") as file:
                file.write(b".")
        return {**batch, "y": batch["x"] * 2}

    return ps.from_arrays({"x": np.arange(rows)}).shuffle(seed=3).map(counted).batch(size)


def calls_of(calls: Path) -> int:
    return calls.stat().st_size if calls.exists() else 0


def assert_same(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name, column in one.items():
        if isinstance(column, np.ndarray):
            assert np.array_equal(column, other[name]), name
            assert other[name].flags.writeable
        else:
            assert column.equals(other[name]), name


def assert_all_same(one: Any, other: Any) -> None:
    for mine, theirs in zip(one, other, strict=True):
        assert_same(mine, theirs)


def stream_digest(batches: Any) -> str:
    """Of the bytes of all batches in their order."""
    state = hashlib.sha256()
    for batch in batches:
        for name in sorted(batch):
            column = batch[name]
            state.update(name.encode())
            state.update(repr(column.to_pylist()).encode() if isinstance(column, pa.Array) else column.tobytes())
    return state.hexdigest()


def source_of(loader: Any) -> OnRay:
    source: OnRay = loader._rank.items
    return source


def actors_of(loader: Any) -> list[Actor]:
    """Those that have begun."""
    return source_of(loader)._pool.at_work


def process_of(actor: Actor) -> int:
    assert actor.told is not None
    return actor.told.process


def named_actors() -> list[str]:
    return [one["name"] for one in ray.util.list_named_actors(all_namespaces=True) if one["namespace"] == NAMESPACE]


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.2)
    return holds()


def kill(process: int, signal: int) -> None:
    os.kill(process, signal)
