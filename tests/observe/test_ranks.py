"""Ranks of one training see each other, and the slow one is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.observe import reporter
from penstock.observe.folder import host_name, read_snapshots, write_snapshot
from penstock.observe.ranks import other_ranks
from penstock.observe.snapshot import Identity, Snapshot, Times
from penstock.observe.training import training_id


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_OBSERVE_DIR", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_TRAINING", "run 7")
    return tmp_path


def rank_of(rank: int, waited: float = 0.0, **identity: Any) -> Snapshot:
    given = {
        "pid": os.getpid(),
        "host": host_name(),
        "number": 1000 + rank,
        "name": "memory",
        "rank": rank,
        "world_size": 4,
        "training": "run 7",
    }
    loader = Identity(**{**given, "started_at": time.time(), **identity})
    return Snapshot(
        at=time.time(),
        loader=loader,
        wait=Times(count=9, mean_s=waited),
        step=Times(count=9, mean_s=1 - waited),
        ready=1.0,
    )


def test_ranks_are_those_of_the_same_training_and_data() -> None:
    for one in (
        rank_of(1),
        rank_of(2, 0.3),
        rank_of(3, training="another", number=5),
        rank_of(3, name="validation", number=6),
        rank_of(3, world_size=8, number=7),
        rank_of(0, number=8),
    ):
        write_snapshot(one)
    found = other_ranks(rank_of(0).loader)
    assert [(one.rank, round(one.waited, 9)) for one in found] == [(1, 0.0), (2, 0.3)]


def test_ranks_whose_training_is_named_by_a_url_find_each_other_and_tell_no_secret(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TRAINING", "tcp://me:hunter22@head:1234?key=abc123")
    assert training_id() == "tcp://head:1234"
    one, other = (replace(rank_of(rank).loader, training=training_id()) for rank in (0, 1))
    path = write_snapshot(Snapshot(loader=other))
    assert [found.rank for found in other_ranks(one)] == [1]
    assert "hunter22" not in path.read_text()


def test_a_rank_without_figures_stops_nothing(folder: Path) -> None:
    """A file of another program, which says less than ours do."""
    told = {"version": 1, "loader": {**rank_of(1).loader.as_dict(), "pid": os.getpid()}}
    (folder / "x-1-1.snapshot.json").write_text(json.dumps(told))
    (folder / "y-1-1.snapshot.json").write_text(json.dumps({**told, "wait": 3}))
    assert [(one.rank, one.waited) for one in other_ranks(rank_of(0).loader)] == [(1, 0.0)]


def test_a_thousand_ranks_are_read_in_their_order() -> None:
    for rank in range(1000):
        write_snapshot(rank_of(rank, world_size=1000, host="other"))
    found = other_ranks(replace(rank_of(5).loader, world_size=1000))
    assert [one.rank for one in found] == [rank for rank in range(1000) if rank != 5]


def test_the_slow_rank_is_named_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "EVERY_S", 0.02)
    for rank in (1, 2, 3):
        write_snapshot(rank_of(rank, 0.9 * (rank == 2)))  # more than this one waits on whatever machine
    data = ps.from_arrays({"x": np.arange(64_000)}).batch(32)
    with ps.Loader(data, rank=0, world_size=4) as loader:
        for _ in loader:
            while len(loader.stats().ranks) < 3:
                time.sleep(0.01)
            time.sleep(0.001)
        stats, report = loader.stats(), loader.report()
    assert [one.rank for one in stats.ranks] == [1, 2, 3]
    assert stats.bottleneck == "rank 2"
    assert stats.verdict.startswith("Rank 2 is the slow one: it waited 90% of the time for data")
    assert "other ranks: 3 seen" in report
    assert "(rank 2, " in report
    assert "slow_rank: rank 2" in report


RANK = """
import json, os, sys, time, numpy as np, penstock as ps
rank, folder = int(sys.argv[1]), sys.argv[2]
def waits(batch):
    time.sleep(0.02 * (rank == 1))
    return batch
data = ps.from_arrays({"x": np.arange(4096)}).map(waits).batch(16)
with ps.Loader(data, rank=rank, world_size=2, cpus=1) as loader:
    until, told = time.monotonic() + 60, None
    while time.monotonic() < until and len(os.listdir(folder)) < 2:
        for batch in loader:
            time.sleep(0.005)
            stats = loader.stats()
            if told is None and stats.step.count > 50 and any(one.step_s.count > 50 for one in stats.ranks):
                told = stats
                open(f"{folder}/{rank}", "w").close()
            if len(os.listdir(folder)) == 2 or time.monotonic() > until:
                break
    print(json.dumps(told.as_dict()))
"""


@pytest.mark.long
def test_processes_of_one_training_find_each_other(folder: Path) -> None:
    (folder / "done").mkdir()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(folder / "done")], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    told = [json.loads(one.communicate(timeout=100)[0]) for one in running]
    assert [[one["rank"] for one in each["ranks"]] for each in told] == [[1], [0]]
    assert [each["bottleneck"] for each in told] == ["rank 1", "rank 1"]
    assert read_snapshots() == []
