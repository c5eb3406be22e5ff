"""Batches that are counted per rank: the global batch, and so the plan, depends on how many ranks there are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import penstock as ps
from support import promises as contracts


def data(samples: int = 1_000) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(samples)}).shuffle(seed=1)


@pytest.mark.parametrize("world", [1, 3, 4, 7])
def test_every_rank_has_so_many_rows_of_the_global_batch(world: int) -> None:
    plan, whole = data().batch(16, per_rank=True, drop_last=True), data().batch(16 * world, drop_last=True)
    loaders = [ps.Loader(plan, rank=rank, world_size=world) for rank in range(world)]
    with ps.Loader(whole, rank=0, world_size=1) as loader:
        wanted = [contracts.keep(batch) for batch in loader]
    assert {(loader.batch_size, len(loader)) for loader in loaders} == {(16, len(wanted))}
    for step, parts in enumerate(zip(*loaders, strict=True)):
        contracts.assert_same(contracts.join(parts), wanted[step], f"step {step}")
    for loader in loaders:
        loader.close()


def resumed(plan: ps.Dataset, world: int, state: Any) -> list[dict[str, Any]]:
    """The next two global batches of ranks that go on from a state."""
    loaders = [ps.Loader(plan, rank=rank, world_size=world) for rank in range(world)]
    for loader in loaders:
        loader.load_state_dict(state)
    found = [contracts.join(parts) for parts in zip(*(contracts.walk(loader, 2) for loader in loaders), strict=True)]
    for loader in loaders:
        loader.close()
    return found


def test_a_state_goes_on_with_the_same_global_batch() -> None:
    plan = data().batch(16, per_rank=True)
    with ps.Loader(plan, rank=3, world_size=4) as loader:
        for _ in contracts.walk(loader, 5):
            pass
        state = json.loads(json.dumps(loader.state_dict()))
    assert state["plan"][-1] == "batch size=64"
    wanted = resumed(plan, 4, state)
    for other, world in (
        (data().batch(8, per_rank=True), 8),
        (data().batch(64, per_rank=True), 1),
        (data().batch(64), 2),
    ):
        for found, batch in zip(resumed(other, world, state), wanted, strict=True):
            contracts.assert_same(found, batch, f"{world} ranks")
    for world in (1, 8):
        with pytest.raises(
            ps.StateError,
            match=rf"'batch size=64' and is 'batch size={16 * world}'.*same global batch on any number of ranks.*size × ranks",
        ):
            resumed(plan, world, state)


def test_only_another_size_speaks_of_ranks() -> None:
    state = ps.Loader(data().batch(16)).state_dict()
    with pytest.raises(ps.StateError, match=r"and is 'batch size=16 drop_last=True'.*start anew$"):
        ps.Loader(data().batch(16, drop_last=True)).load_state_dict(state)


def test_plans_are_checked_explained_and_simulated() -> None:
    plan = data().batch(16, per_rank=True, lanes=48)  # which 3 ranks have, not 1
    assert len(plan) == 1_000
    assert "batch size=16 lanes=48 per_rank=True" in plan.explain()
    assert "21 steps an epoch, 48 rows each, from 48 lanes" in plan.explain()
    assert "ranks: any number, 16 rows each; described here for 3" in plan.explain()
    assert "11 steps an epoch, 96 rows each" in plan.explain(world_size=6)
    assert plan.simulate(world_size=6).steps_per_epoch == 11
    with pytest.raises(ps.PlanError, match="lanes=48 does not divide the 64 rows of 4 ranks with 16 rows each"):
        ps.Loader(plan, rank=0, world_size=4)
    with pytest.raises(ps.PlanError, match=r"batch size 1001 is larger than the dataset"):
        data().batch(1_001, per_rank=True, drop_last=True)
    with pytest.raises(ps.PlanError, match="the last global batch has 4 rows, too few for 12 ranks"):
        ps.Loader(data(1_000).batch(1, per_rank=True), rank=0, world_size=12)


def test_nodes_with_files_of_their_own() -> None:
    plan = data().shard([1_000, 900]).batch(10, per_rank=True, drop_last=True)
    with ps.Loader(plan, rank=2, world_size=6) as loader:
        assert (loader.batch_size, len(loader)) == (10, 30)
        assert loader.state_dict()["plan"][-1] == "batch size=60 drop_last=True"
    assert "10 rows each" in plan.explain()
    assert "ranks: 3 with 10 rows each" in plan.explain(world_size=6)
