"""Which rank a loader is: found when a pass begins, and the same for all who are given theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.deliver.ranks import Ranks
from servers.free_port import free_port

pytestmark = pytest.mark.timeout(300)

SCRIPT = Path(__file__).with_name("ranks_run.py")


def ranks_of(store: str, *scenarios: str) -> list[subprocess.CompletedProcess[str]]:
    """Two ranks that ended."""
    unset = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), store, str(rank), "2", *scenarios],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=250) for process in started]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(started, outputs, strict=True)
    ]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two ranks saw in all scenarios but the one that kills them."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    ended = ranks_of(f"file://{tmp_path_factory.mktemp('ranks')}/store", "late", "environment", "given", "alone")
    assert [rank.returncode for rank in ended] == [0, 0], [rank.stderr for rank in ended]
    return [json.loads(rank.stdout) for rank in ended]


def wanted(rank: int, world_size: int, epoch: int) -> list[list[int]]:
    dataset = ps.from_arrays({"id": np.arange(48)}).shuffle(seed=0).batch(12)
    with ps.Loader(dataset, rank=rank, world_size=world_size) as loader:
        return [loader.sample_ids(epoch, step).tolist() for step in range(len(loader))]


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_group_that_comes_after_the_loader(found: list[dict[str, Any]], rank: int) -> None:
    late = found[rank]["late"]
    assert late["before"] == [0, 1, 12, 12]
    assert late["after"] == [rank, 2, 6]
    assert late["sample_ids"] == late["batch_at"] == wanted(rank, 2, 0)
    assert late["passes"] == [wanted(rank, 2, epoch) for epoch in range(3)]
    assert late["alone"] == [wanted(0, 1, 0), wanted(0, 1, 1)], "a pass goes on as it began"
    assert late["then"] == wanted(rank, 2, 2)
    assert late["left"] == [0, 1, wanted(0, 1, 3)], "a group that went"


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_the_group_counts_more_than_the_environment(found: list[dict[str, Any]], rank: int) -> None:
    assert found[rank]["environment"] == {"before": [2, 3], "after": [rank, 2], "ids": wanted(rank, 2, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_that_contradict_the_group_fail_everywhere(found: list[dict[str, Any]], rank: int) -> None:
    given = found[rank]["given"]
    was_given = "of the 2 in the process group was given"
    assert given["right"] == wanted(rank, 2, 0)
    assert f"): rank 1 {was_given} rank=0, world_size=2; leave both" in given["one rank's number, before the group"]
    assert f"): rank {rank} {was_given} rank=0, world_size=1; " in given["the number alone, before the group"]
    assert f"Loader(rank=1, world_size=2): rank 0 {was_given} rank=1, world_size=2; " in given["one rank's number"]
    assert f"): rank {rank} {was_given} rank={rank}, world_size=6; " in given["another world"]
    if rank == 1:
        assert given["a group of one"] == wanted(0, 1, 0)
    else:
        assert "this process is not in it" in given["a group of one"]
    assert "process_group='dp'; pass what torch.distributed.new_group" in given["no group"]
    assert "pass rank and world_size, or process_group" in given["both"]


@pytest.mark.slow
def test_a_rank_that_gives_its_numbers_alone_is_not_kept_waiting(found: list[dict[str, Any]]) -> None:
    assert [rank["alone"] for rank in found] == [[], wanted(1, 2, 0)]


@pytest.mark.slow
def test_all_ranks_die_of_the_difference() -> None:
    """Also of one that another rank has, which holds the group's store and takes it along."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for rank in ranks_of(f"tcp://127.0.0.1:{free_port()}", "dies"):
        assert rank.returncode == 1
        assert "rank 0 of the 2 in the process group was given rank=1, world_size=2; leave both out" in rank.stderr


def test_a_group_without_torch_distributed() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(ps.PlanError, match=r"torch\.distributed is not initialised"):
        ps.Loader(ps.from_arrays({"x": np.arange(8)}).batch(4), process_group="dp")


def test_meshes_of_others() -> None:
    dataset = ps.from_arrays({"x": np.arange(8)}).batch(4)
    of_jax = type("Mesh", (), {"__module__": "jax._src.mesh"})()
    with pytest.raises(ps.PlanError, match=r"this is a jax Mesh; with to='jax' pass the sharding"):
        ps.Loader(dataset, mesh=of_jax, data_dims="data")
    for mesh in (3, "dp", (2, 2), np.arange(4)):
        with pytest.raises(ps.PlanError, match=r"this is no DeviceMesh; make one with torch\.distributed"):
            ps.Loader(dataset, mesh=mesh, data_dims="data")


@pytest.mark.parametrize("size", ["", "-1", " 1 ", "1_0", "1.0", "0x1", "nan", "\x1b[31m", str(2**62), "10" * 3_000])
def test_an_environment_that_names_no_ranks(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RANK", "0")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", size)
    with pytest.raises(ps.PlanError, match=r"RANK='0' and WORLD_SIZE='.* in the environment are not numbers") as told:
        Ranks().find()
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1_000


def test_ranks_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = ps.Loader(ps.from_arrays({"x": np.arange(8)}).batch(8))
    monkeypatch.setitem(os.environ, "RANK", "2")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "4")
    assert Ranks().find() == (2, 4)
    assert Ranks(rank=0, world_size=1).find() == (0, 1)
    assert (loader.rank, loader.world_size, loader.batch_size) == (2, 4, 2)
    with pytest.raises(ps.PlanError, match="both rank and world_size, or neither"):
        Ranks(rank=0)


def test_rows_per_rank_follow_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is counted per rank has other steps when the ranks are others: a step that was loaded is not taken for one."""
    dataset = ps.from_arrays({"id": np.arange(48)}).shuffle(seed=0).batch(6, per_rank=True)
    loader, loaded = ps.Loader(dataset), ps.Loader(dataset)
    loaded.load_state_dict({**loaded.state_dict(), "step": 3})
    assert len(loader) == 8
    monkeypatch.setitem(os.environ, "RANK", "1")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "2")
    assert (len(loader), loader.batch_size) == (4, 6)
    assert [batch["id"].tolist() for batch in loader] == [loader.sample_ids(0, step).tolist() for step in range(4)]
    with pytest.raises(
        ps.StateError, match="steps of 6 rows, and 2 ranks take 12; call load_state_dict after init_process_group"
    ):
        next(iter(loaded))
    loaded.load_state_dict({**loaded.state_dict(), "epoch": 0, "step": 3})
    assert [batch["id"].tolist() for batch in loaded] == [loaded.sample_ids(0, 3).tolist()]
    loader.close()
    loaded.close()
