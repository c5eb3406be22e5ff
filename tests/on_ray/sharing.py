"""Loaders of the same plan and data share actors and what these make, each at its own position; others never meet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import penstock as ps
import penstock.ray
from penstock.ray import actor
from support.ray_loaders import (
    actors_of,
    assert_all_same,
    assert_same,
    calls_of,
    named_actors,
    numbers,
    process_of,
    source_of,
    stream_digest,
    wait_until,
)

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
STEPS = 120
OPTIONS: dict[str, Any] = {"workers": 2, "compare_every": None, "epochs": 1}


def driver(cluster: Any, calls: Path, step_s: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "support.ray_driver", cluster.address, str(calls), str(step_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def says(process: subprocess.Popen[str], word: str) -> bool:
    """Waits until a driver has said that it is so far."""
    assert process.stdout is not None
    return any(line == f"{word}\n" for line in process.stdout)


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    shown, _ = process.communicate(timeout=120)
    found: dict[str, Any] = json.loads(shown.splitlines()[-1])
    return found


def test_two_loaders_of_a_driver_have_each_item_made_once_and_none_waits_for_the_other(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    data = numbers(8 * STEPS, 8, calls)
    expected = [*ps.Loader(numbers(8 * STEPS, 8))]
    with penstock.ray.Loader(data, **OPTIONS) as one, penstock.ray.Loader(data, **OPTIONS) as other:
        behind = iter(other)
        assert_same(expected[0], next(behind))
        assert_all_same(expected, one)  # to its end, while the other one stands
        for mine, theirs in zip(expected[1:], behind, strict=True):
            assert_same(mine, theirs)
        assert len(named_actors()) == 2
        assert wait_until(lambda: source_of(other)._pool.look() or other.stats()["ray"]["users"] == 2)
    assert calls_of(calls) < 1.9 * STEPS  # about once each: where an actor is late, another one makes the same
    assert wait_until(lambda: not named_actors())


def test_ranks_share_the_actors(tmp_path: Path) -> None:
    data, calls = numbers(512, 16, tmp_path / "calls"), tmp_path / "calls"
    ranks = [{"rank": rank, "world_size": 2} for rank in range(2)]
    loaders = [penstock.ray.Loader(data, **OPTIONS, **rank) for rank in ranks]
    for rank, loader in zip(ranks, loaders, strict=True):
        assert_all_same(ps.Loader(numbers(512, 16), **rank), loader)
    assert len(named_actors()) == 2
    assert calls_of(calls) < 1.9 * 64
    loaders[0].close()
    loaders[1].set_epoch(0)
    assert_all_same(ps.Loader(numbers(512, 16), **ranks[1]), loaders[1])  # nobody ended its actors
    del loader, loaders[:]  # the second one was not closed
    assert wait_until(lambda: not named_actors())


@pytest.mark.long
def test_trainings_of_several_drivers_share_and_one_that_is_killed_leaves_nothing(cluster: Any, tmp_path: Path) -> None:
    expected = stream_digest(ps.Loader(numbers(8 * STEPS, 8)))
    calls = tmp_path / "calls"
    killed = driver(cluster, calls, 5.0)
    assert says(killed, "began")
    two = [driver(cluster, calls, step_s) for step_s in (0.02, 0.03)]
    found = [ended(one) for one in two]
    assert [one["digest"] for one in found] == [expected] * 2
    assert max(one["users"] for one in found) == 3
    assert calls_of(calls) < 1.9 * STEPS  # see above
    assert len(named_actors()) == 2
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert wait_until(lambda: not named_actors())


def test_plans_that_differ_never_meet() -> None:
    first, second = (ps.from_arrays({"x": np.arange(64) + offset}).batch(4) for offset in (0, 1000))
    with penstock.ray.Loader(first, workers=1) as one, penstock.ray.Loader(second, workers=1) as other:
        for mine, theirs in zip(one, other, strict=True):
            assert np.array_equal(mine["x"] + 1000, theirs["x"])
        assert len(named_actors()) == 2


def test_an_actor_that_has_the_name_but_another_plan_is_refused() -> None:
    first, second = (ps.from_arrays({"x": np.arange(64) + offset}).batch(4) for offset in (0, 1000))
    with penstock.ray.Loader(first, workers=1) as one, penstock.ray.Loader(second, workers=1) as other:
        next(iter(one))
        pool = other._rank.items._pool
        handle = actors_of(one)[0].handle
        told = actor.ray.get(handle.join.remote(pool.user, [actor.ray.put("here")], pool._sent.digest))
        assert "another plan" in told.shown
        assert "node" in told.shown


@pytest.mark.long
def test_actors_are_in_no_placement_group_of_the_task_that_began_them() -> None:
    """Where a task's children take their places in its group, which has none for actors, and ends with the task's owner."""
    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready(), timeout=60)
    place = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)

    def train() -> Any:
        with penstock.ray.Loader(numbers(64, 4), workers=1) as loader:
            return stream_digest(loader), loader.stats()["ray"]["actors_at_work"]

    found = ray.get(ray.remote(num_cpus=1, scheduling_strategy=place)(train).remote())
    ray.util.remove_placement_group(group)
    assert found == (stream_digest(ps.Loader(numbers(64, 4))), 1)


@pytest.mark.long
def test_a_loader_that_begins_late_catches_up_with_what_was_made(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    data = numbers(8 * STEPS, 8, calls)
    expected = [*ps.Loader(numbers(8 * STEPS, 8))]
    with penstock.ray.Loader(data, **OPTIONS) as one, penstock.ray.Loader(data, **OPTIONS) as late:
        batches = iter(one)
        for _ in range(STEPS // 2):
            next(batches)
        assert_all_same(expected, late)
        assert len([*batches]) == STEPS // 2
    assert calls_of(calls) < 1.9 * STEPS  # see above


@pytest.mark.long
def test_an_actor_that_one_loader_lost_serves_the_others(tmp_path: Path) -> None:
    data = numbers(8 * STEPS, 8)
    expected = [*ps.Loader(data)]
    with penstock.ray.Loader(data, **OPTIONS) as one, penstock.ray.Loader(data, **OPTIONS) as other:
        for number, (mine, first, second) in enumerate(zip(expected, one, other, strict=True)):
            assert_same(mine, first)
            assert_same(mine, second)
            if number == 10:
                os.kill(process_of(actors_of(one)[0]), signal.SIGKILL)
        assert len(named_actors()) == 2


@pytest.mark.long
@pytest.mark.parametrize("after_s", [0.0, 0.3, 1.0])
def test_a_driver_that_is_killed_while_its_actors_begin_takes_no_other_with_it(
    cluster: Any, tmp_path: Path, after_s: float
) -> None:
    """Both have the same actors; those that the first one began may never be."""
    killed, other = (driver(cluster, tmp_path / "calls", 0.0) for _ in range(2))
    assert says(killed, "made")
    time.sleep(after_s)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert ended(other)["digest"] == stream_digest(ps.Loader(numbers(8 * STEPS, 8)))
    assert wait_until(lambda: not named_actors(), 90)
