"""Actors on another machine, behind a slow link that loses packets: the same batches; and what that machine may have otherwise."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

import penstock as ps
import penstock.ray
from penstock.ray import leases
from support.other_machine import NAME, Link, OtherMachine, other_machine
from support.ray_loaders import assert_all_same, begun_cluster, images, named_actors, numbers, wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
#: 10 ms there and back, one packet of 1,000 lost, 200 Mbit/s.
LINK = Link(delay_s=0.005, loss=0.001, bytes_per_s=25e6)
STORE, STALL_S = 150 << 20, 30.0
PACKAGE = Path(ps.__file__).parent


@pytest.fixture(scope="module")
def machine() -> Iterator[OtherMachine]:
    with other_machine(LINK) as made:
        yield made


@pytest.fixture
def folders(machine: OtherMachine, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder of the trainer's machine, and what the other one has at its path."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    with machine.having({ours: theirs}):
        yield ours, theirs


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    yield
    assert wait_until(lambda: not named_actors(), 90)  # one that nobody joined any more ends after a minute


@pytest.fixture(scope="module")
def cluster(machine: OtherMachine) -> Iterator[Any]:
    """The trainer's machine makes nothing; the other one has two CPUs for actors."""
    memory = {"object_store_memory": STORE}
    made = begun_cluster({"num_cpus": 0, "node_ip_address": machine.here, **memory})
    machine.join(made.address, num_cpus=2, **memory)
    ray.init(address=made.address, log_to_driver=False)
    assert wait_until(lambda: ray.cluster_resources().get("CPU") == 2.0)
    yield made
    ray.shutdown()
    made.shutdown()


def stalls(batches: Any, expected: Any) -> float:
    """The longest wait for a batch; all are what is expected."""
    longest, asked_at = 0.0, time.monotonic()
    for one, other in zip(batches, expected, strict=True):
        longest = max(longest, time.monotonic() - asked_at)
        assert all(np.array_equal(other[name], column) for name, column in one.items() if name != "words")
        asked_at = time.monotonic()
    return longest


def test_batches_come_over_a_slow_link_in_their_order() -> None:
    data = images()
    expected = [*ps.Loader(data)]
    with penstock.ray.Loader(data, workers=2) as there:
        next(iter(there))
        there.set_epoch(0)
        began_at = time.monotonic()
        longest = stalls(there, expected)
        took_s = time.monotonic() - began_at
        [node] = there.stats()["ray"]["nodes"]
    assert node.startswith(NAME)
    assert took_s > sum(column.nbytes for batch in expected for column in batch.values()) / 2 / LINK.bytes_per_s
    assert longest < STALL_S


def test_a_link_that_is_cut_for_a_moment_loses_nothing(machine: OtherMachine) -> None:
    data = numbers(4096, 16)
    expected = [*ps.Loader(data)]
    seen = []
    with penstock.ray.Loader(data, workers=2) as there:
        for number, batch in enumerate(there):
            seen.append(batch)
            if number == 20:
                machine.cut()
                time.sleep(3.0)
                machine.mend()
    assert_all_same(expected, seen)


def test_copies_of_files_have_other_times(folders: tuple[Path, Path]) -> None:
    rows = np.arange(4000)
    for folder, time_s in zip(folders, (1e9, 1.1e9), strict=True):
        np.save(folder / "rows.npy", rows)
        os.utime(folder / "rows.npy", (time_s, time_s))
    data = ps.read(folders[0] / "rows.npy").shuffle(seed=1).batch(100)
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=2) as there:
        assert_all_same(here, there)


def test_files_of_the_same_size_that_hold_something_else_are_found_out(folders: tuple[Path, Path]) -> None:
    for number, folder in enumerate(folders):
        np.save(folder / "other.npy", np.arange(4000) + number)
    data = ps.read(folders[0] / "other.npy").shuffle(seed=1).batch(100)
    with (
        penstock.ray.Loader(data, workers=1) as loader,
        pytest.raises(ps.ProcessError, match=rf"node {NAME} [0-9a-f]{{8}}: its batch of epoch 0, step 0, is not the"),
    ):
        next(iter(loader))


def test_files_that_only_the_trainer_has(folders: tuple[Path, Path]) -> None:
    np.save(folders[0] / "here.npy", np.arange(4000))
    data = ps.read(folders[0] / "here.npy").batch(100)
    with (
        penstock.ray.Loader(data, workers=1) as loader,
        pytest.raises(ps.ProcessError, match=rf"node {NAME} [0-9a-f]{{8}}: .*here.npy: No such file"),
    ):
        next(iter(loader))


def test_a_machine_without_penstock(machine: OtherMachine, tmp_path: Path) -> None:
    with (
        machine.having({PACKAGE: tmp_path}),
        penstock.ray.Loader(numbers(64, 4), workers=1) as loader,
        pytest.raises(ps.ProcessError, match=r"cannot make batches: .*penstock.*give its machine the same Penstock"),
    ):
        next(iter(loader))


def test_a_machine_with_another_penstock(machine: OtherMachine, tmp_path: Path) -> None:
    module = PACKAGE / "ray" / "messages.py"
    (tmp_path / module.name).write_text(module.read_text().replace('"Penstock", native_version', '"Penstock", "0.0.1"'))
    with (
        machine.having({module: tmp_path / module.name}),
        penstock.ray.Loader(numbers(64, 4), workers=1) as loader,
        pytest.raises(ps.ProcessError, match=rf"node {NAME} [0-9a-f]{{8}}: its Penstock is 0\.0\.1, and the trainer's"),
    ):
        next(iter(loader))


def test_where_the_link_is_gone_batches_are_made_here(machine: OtherMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test: the other machine is not there behind it."""
    monkeypatch.setattr(leases, "_START_S", 1.0)
    data = numbers(4096, 16)
    expected = [*ps.Loader(data)]
    seen = []
    with penstock.ray.Loader(data, workers=2) as there:

        def take() -> None:
            for number, batch in enumerate(there):
                seen.append(batch)
                if number == 20:
                    machine.cut()

        with pytest.warns(match="no actor of Ray began within 1 s"):
            take()
    assert_all_same(expected, seen)
