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

SCRIPT = Path(__file__).with_name("ranks_run.py")


def ranks_of(scenario: str, world_size: int, store: str) -> list[subprocess.CompletedProcess[str]]:
    unset = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), store, str(rank), str(world_size), scenario],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
        )
        for rank in range(world_size)
    ]
    ended = []
    for rank, process in enumerate(started):
        out, err = process.communicate(timeout=100)
        ended.append(subprocess.CompletedProcess(rank, process.returncode, out, err))
    return ended


def found_by(scenario: str, world_size: int, tmp_path: Path) -> list[dict[str, Any]]:
    ended = ranks_of(scenario, world_size, f"file://{tmp_path}/store")
    assert [rank.returncode for rank in ended] == [0] * world_size, [rank.stderr for rank in ended]
    return [json.loads(rank.stdout) for rank in ended]


def wanted(rank: int, world_size: int, epoch: int) -> list[list[int]]:
    dataset = ps.from_arrays({"id": np.arange(48)}).shuffle(seed=0).batch(12)
    with ps.Loader(dataset, rank=rank, world_size=world_size) as loader:
        return [loader.sample_ids(epoch, step).tolist() for step in range(len(loader))]


@pytest.fixture(autouse=True)
def needs_torch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")


def test_a_group_that_comes_after_the_loader(tmp_path: Path) -> None:
    for rank, found in enumerate(found_by("late", 2, tmp_path)):
        assert found["before"] == [0, 1, 12, 12]
        assert found["after"] == [rank, 2, 6]
        assert found["sample_ids"] == found["batch_at"] == wanted(rank, 2, 0)
        assert found["passes"] == [wanted(rank, 2, epoch) for epoch in range(3)]
        assert found["alone"] == [wanted(0, 1, 0), wanted(0, 1, 1)], "a pass goes on as it began"
        assert found["then"] == wanted(rank, 2, 2)
        assert found["left"] == [0, 1, wanted(0, 1, 3)], "a group that went"


def test_the_group_counts_more_than_the_environment(tmp_path: Path) -> None:
    for rank, found in enumerate(found_by("environment", 3, tmp_path)):
        assert found == {"before": [0, 2], "after": [rank, 3], "ids": wanted(rank, 3, 0)}


def test_ranks_that_contradict_the_group_fail_everywhere(tmp_path: Path) -> None:
    for rank, found in enumerate(found_by("given", 3, tmp_path)):
        assert found["right"] == wanted(rank, 3, 0)
        early = found["one rank's number, before the group"]
        assert "Loader(rank=0, world_size=3): rank " in early
        assert "of the 3 in the process group was given rank=0, world_size=3; leave both out" in early
        assert (
            "of the 3 in the process group was given rank=0, world_size=1"
            in found["the number alone, before the group"]
        )
        one = found["one rank's number"]
        wrong = [f"rank {other} of the 3 in the process group was given rank=1, world_size=3" for other in (0, 2)]
        assert (wrong[rank // 2] if rank != 1 else wrong[0]) in one or (rank == 1 and wrong[1] in one)
        assert (
            f"rank {rank} of the 3 in the process group was given rank={rank}, world_size=6" in found["another world"]
        )
        assert found["pair"] == (wanted(rank, 2, 0) if rank < 2 else found["pair"])
        assert rank < 2 or "this process is not in it" in found["pair"]
        assert "process_group='dp'; pass what torch.distributed.new_group" in found["no group"]
        assert "pass rank and world_size, or process_group" in found["both"]


def test_one_rank_alone_is_not_kept_waiting(tmp_path: Path) -> None:
    assert [found["ids"] for found in found_by("alone", 2, tmp_path)] == [[], wanted(1, 2, 0)]


@pytest.mark.parametrize("world_size", [2, 3])
def test_all_ranks_die_of_the_difference(world_size: int) -> None:
    """Also where the rank that was given the wrong number, or the right one, holds the group's store, and is gone with it."""
    ended = ranks_of("dies", world_size, f"tcp://127.0.0.1:{free_port()}")
    for rank in ended:
        assert rank.returncode == 1
        assert f"was given rank={world_size - 2}, world_size={world_size}; leave both out" in rank.stderr


def test_a_group_without_torch_distributed() -> None:
    with pytest.raises(ps.PlanError, match="torch.distributed is not initialised"):
        ps.Loader(ps.from_arrays({"x": np.arange(8)}).batch(4), process_group="dp")


def test_an_environment_that_names_no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RANK", "2")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "")
    with pytest.raises(ps.PlanError, match="RANK='2' and WORLD_SIZE='' in the environment are no numbers"):
        Ranks().find()


def test_ranks_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = ps.Loader(ps.from_arrays({"x": np.arange(8)}).batch(8))
    monkeypatch.setitem(os.environ, "RANK", "2")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "4")
    assert Ranks().find() == (2, 4)
    assert Ranks(rank=0, world_size=1).find() == (0, 1)
    assert (loader.rank, loader.world_size, loader.batch_size) == (2, 4, 2)
    with pytest.raises(ps.PlanError, match="both rank and world_size, or neither"):
        Ranks(rank=0)
