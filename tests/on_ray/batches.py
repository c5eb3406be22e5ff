"""`penstock.ray.Loader` gives what `penstock.Loader` gives, byte for byte, whatever happens to actors and nodes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

import penstock as ps
import penstock.ray
from penstock.observe.events import Event
from penstock.observe.ledger.verify import verify
from penstock.observe.report import report_text
from penstock.observe.run_file import each_snapshot
from penstock.observe.snapshot import Snapshot
from penstock.observe.snapshot_of import snapshot_of
from penstock.order.steps.cursor import Work
from penstock.ray import leases, wanting
from penstock.resolve import dealt
from support.ray_loaders import (
    ROWS,
    STORE,
    actors_of,
    assert_all_same,
    assert_same,
    images,
    kill,
    named_actors,
    numbers,
    process_of,
    source_of,
    wait_until,
)

# Ray's own code warns, and leaves sockets to its processes.
pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]


def test_the_batches_and_states_are_those_of_a_loader() -> None:
    data = images()
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=3) as there:
        for _ in range(2):
            assert_all_same(here, there)
        there.set_epoch(7)
        batches = iter(there)
        next(batches), next(batches)
        state = there.state_dict()
        third = next(batches)
        here.set_epoch(7)
        here.load_state_dict(state)
        assert_same(third, next(iter(here)))
        there.load_state_dict(state)
        assert_same(third, next(iter(there)))
        assert there.sample_ids(7, 2).tolist() == here.sample_ids(7, 2).tolist()
        figures = there.stats()["ray"]
        assert figures["actors"] == 3
        assert figures["compared_items"] >= 1
        nodes = figures["nodes"].values()
        assert sum(node["items"] for node in nodes) == 2 * ROWS // 8 + 4
        assert sum(node["bytes"] for node in nodes) == sum(figures["bytes_by_node"].values()) > 0
        report = there.report()
        assert "actors of Ray: " in report
        assert all(node in report for node in figures["nodes"])
        assert len(named_actors()) == 3
    assert wait_until(lambda: not named_actors())


class Keeps:
    """An exporter that keeps what it is given, with a lock, which nothing sends to another process."""

    def __init__(self) -> None:
        self.lock, self.events, self.closed = threading.Lock(), list[Event](), 0

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        self.events += events

    def close(self) -> None:
        self.closed += 1


def test_what_actors_make_is_observed(tmp_path: Path) -> None:
    """Exporters are of this process alone: an object that cannot be sent is none for the actors."""
    keeps = Keeps()
    with penstock.ray.Loader(images(), workers=2, observe=[f"jsonl:{tmp_path}/run.jsonl", keeps], epochs=1) as there:
        steps = sum(1 for _ in there)
        stats = there.stats()
        page = there.report(html=tmp_path / "run.html")
    last = snapshot_of([*each_snapshot(tmp_path / "run.jsonl")][-1])
    assert last.batches == stats.batches == steps == len(there)
    assert last.ray is not None
    assert stats.ray is not None
    assert stats.ray.actors == 2
    assert last.ray.nodes.keys() == stats.ray.nodes.keys()
    assert sum(node.items for node in last.ray.nodes.values()) >= steps
    assert "actors of Ray: " in page
    assert "actors of Ray: " in report_text(last)
    assert {"wait", "step"} <= {event.what for event in keeps.events}
    assert sum(event.steps for event in keeps.events if event.what == "step") == steps
    assert keeps.closed == 1


@pytest.mark.long
def test_actors_are_asked_for_while_the_consumer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanting, "LOOK_S", 0.0)
    monkeypatch.setattr(wanting, "_GAIN", 0.0)
    with ps.Loader(images()) as here, penstock.ray.Loader(images()) as there:
        source = source_of(there)
        for _ in range(3):
            assert_all_same(here, there)
        most = source._pool.asks
        assert most > 1
        monkeypatch.setattr(wanting, "WAITS", 2.0)
        for _ in range(4):
            assert_all_same(here, there)
        assert source._pool.asks < most
        # One that has an item on its way is left behind it, and what they agreed on is heard every two seconds.
        assert wait_until(lambda: assert_all_same(here, there) or len(named_actors()) <= source._pool.asks)


@pytest.mark.long
def test_actors_deal_rows_as_the_trainer_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They know another rule than the trainer, as if they counted otherwise."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("n", data=np.arange(1_500), chunks=(10,), compression="gzip")
    plan = ps.read(tmp_path / "x.h5").shuffle(seed=3, block_rows=10).batch(64)
    with ps.Loader(plan) as usual:
        other = [batch["n"].tolist() for batch in usual]
    monkeypatch.setattr(dealt, "OPEN_BYTES", 1)
    with ps.Loader(plan) as here, penstock.ray.Loader(plan, workers=2) as there:
        assert_all_same(here, there)
        assert [batch["n"].tolist() for batch in here] != other
        assert there.state_dict()["dealt"] == [8, 1]


@pytest.mark.long
def test_ranks_and_tensors() -> None:
    torch = pytest.importorskip("torch")
    data = images()
    for rank in range(2):
        options: dict[str, Any] = {"to": "torch", "rank": rank, "world_size": 2}
        with ps.Loader(data, **options) as here, penstock.ray.Loader(data, workers=2, **options) as there:
            for one, other in zip(here, there, strict=True):
                assert torch.equal(one["image"], other["image"])


def test_actors_may_die_and_stop_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_PATIENCE_S", 2.0)
    data = images()
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=2) as there:
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            assert_same(one, other)
            if number == 1:
                kill(process_of(actors_of(there)[0]), signal.SIGKILL)
        assert_all_same(here, there)
        assert there.stats()["ray"]["lost_actors"] >= 1
        assert wait_until(lambda: source_of(there)._pool.look() or len(actors_of(there)) == 2)
        stopped = process_of(actors_of(there)[0])
        kill(stopped, signal.SIGSTOP)
        assert_all_same(here, there)
        assert there.stats()["ray"]["late_actors"] >= 1
        kill(stopped, signal.SIGCONT)
        assert wait_until(lambda: source_of(there)._pool.look() or not source_of(there)._pool.late)
        assert_all_same(here, there)


@pytest.mark.long
def test_a_node_may_go_and_another_come(cluster: Any) -> None:
    data = images()
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=3) as there:
        assert_all_same(here, there)
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            assert_same(one, other)
            if number == 2:
                cluster.remove_node(cluster.second)
            if number == 5:
                cluster.second = cluster.add_node(num_cpus=2, object_store_memory=STORE)
        assert_all_same(here, there)


def refuse_thirteen(batch: Any) -> Any:
    if 13 in batch["x"]:
        raise ValueError("thirteen")
    return batch


def refuse_some(row: Any) -> Any:
    if row["x"] in (13, 40):
        raise ps.DataError("a bad one")
    return row


def test_an_error_comes_in_its_place_and_says_where_and_others_come_after_it() -> None:
    data = ps.from_arrays({"x": np.arange(64)}).map(refuse_thirteen).batch(4)
    seen = []
    with penstock.ray.Loader(data, workers=2) as loader:
        with pytest.raises(ValueError, match="thirteen") as caught:
            seen.extend(batch["x"].tolist() for batch in loader)
        assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        assert any("node" in note and "epoch 0, step 3" in note for note in caught.value.__notes__)
        loader.load_state_dict({**loader.state_dict(), "step": 4})
        assert next(iter(loader))["x"].tolist() == [16, 17, 18, 19]


def test_the_rows_of_data_that_decide_are_made_here() -> None:
    data = ps.from_arrays({"x": np.arange(4000)}).shuffle(seed=1).filter(lambda batch: batch["x"] % 3 == 0)
    data = data.batch(8, steps=20)
    with pytest.warns(UserWarning, match=r"depend on what the rows before are"):
        there = penstock.ray.Loader(data, workers=2)
    with ps.Loader(data) as here, there:
        assert_all_same(here, there)


@pytest.mark.long
def test_a_ledger_says_the_same(tmp_path: Path) -> None:
    with penstock.ray.Loader(images(), workers=2, ledger=tmp_path) as loader:
        for _ in loader:
            pass
    assert verify([str(tmp_path)]).wrong == []


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_bad_samples_are_told_and_written_down_as_here(tmp_path: Path) -> None:
    data = ps.from_arrays({"x": np.arange(64)}).map_rows(refuse_some).batch(4)
    found = {}
    for name, make in (("here", ps.Loader), ("there", penstock.ray.Loader), ("beside", penstock.ray.Loader)):
        options: dict[str, Any] = {} if name == "here" else {"workers": 2}
        place = tmp_path / name
        with make(data, on_error="substitute", quarantine=place, **options) as loader:
            rows = [batch["x"].tolist() for batch in loader]
            found[name] = rows, loader.stats()["errors"]["samples"], sorted(place.read_text().splitlines())
    assert found["here"] == found["there"] == found["beside"]
    assert found["here"][1] == 2


def waits_for(file: Path, trainer: int) -> Any:
    """A plan that waits in an actor at row 24, until a file is there."""

    def function(batch: Any) -> Any:
        if 24 in batch["x"] and os.getpid() != trainer:
            file.with_suffix(".begun").touch()
            until = time.monotonic() + 60.0
            while not file.exists() and time.monotonic() < until:
                time.sleep(0.02)
        return batch

    return ps.from_arrays({"x": np.arange(64)}).map(function).batch(8)


def test_a_loop_that_waits_for_an_actor_is_woken_to_save_and_loses_no_batch(tmp_path: Path) -> None:
    file, saved = tmp_path / "goes-on", list[Any]()
    begun = file.with_suffix(".begun")

    def save(state: Any) -> None:
        saved.append((state["step"], file.exists()))
        file.touch()

    with penstock.ray.Loader(waits_for(file, os.getpid()), workers=1, compare_every=None) as loader:
        preemption = loader.on_preempt(save, signals=())
        threading.Thread(target=lambda: wait_until(begun.exists) and preemption.request()).start()
        assert np.concatenate([batch["x"] for batch in loader]).tolist() == [*range(64)]
    [(step, goes_on)] = saved
    assert step <= 3
    assert not goes_on  # it was saved while the batch was awaited


def test_a_loop_that_waits_for_an_actor_ends_where_another_thread_closes_the_loader(tmp_path: Path) -> None:
    file = tmp_path / "goes-on"
    begun = file.with_suffix(".begun")
    with penstock.ray.Loader(waits_for(file, os.getpid()), workers=1, compare_every=None) as loader:
        threading.Thread(target=lambda: wait_until(begun.exists) and loader.close()).start()
        with pytest.raises(ps.ProcessError, match="closed while a batch was awaited"):
            list(loader)
    file.touch()


def test_calls_that_come_behind_the_last_one_make_nobody_a_user_again() -> None:
    data = numbers(64, 4)
    with penstock.ray.Loader(data, workers=1) as one, penstock.ray.Loader(data, workers=1) as other:
        next(iter(one)), next(iter(other))
        mine, [actor] = source_of(one)._pool.user, actors_of(one)
        lease = source_of(one)._leases
        ray.get(actor.handle.leave.remote(mine.name))
        ray.get(actor.handle.make.remote(mine, lease._wanted, Work(0, 0, 1)))
        assert ray.get(actor.handle.renew.remote(mine)).users == 1


def test_a_fork_is_told_that_ray_knows_its_parent_only() -> None:
    with penstock.ray.Loader(numbers(64, 4), workers=1) as loader:
        batches = iter(loader)
        next(batches)
        if (child := os.fork()) == 0:
            try:
                next(batches)
            except ps.ProcessError as error:
                os._exit(3 if "before a fork" in str(error) else 4)
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert len([*batches]) == 15
