"""`penstock.ray.Loader` gives what `penstock.Loader` gives, byte for byte, whatever happens to actors and nodes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

ray = pytest.importorskip("ray", reason="Ray is not installed")
import penstock.ray  # noqa: E402  # needs Ray
from penstock.observe.ledger.verify import verify  # noqa: E402
from penstock.ray import on_ray  # noqa: E402

# Ray's own code warns, and leaves sockets to its processes.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]

ROWS, SIDE = 96, 420


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes, each a raylet of its own."""
    from ray.cluster_utils import Cluster

    memory = {"num_cpus": 2, "object_store_memory": 150 << 20}
    made = Cluster(initialize_head=True, head_node_args={**memory, "include_dashboard": False})
    made.second = made.add_node(**memory)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def images() -> ps.Dataset:
    """4 MB a batch, so that items are two steps."""
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, SIDE, SIDE, 3), np.uint8)
    data = ps.from_arrays({"image": pixels, "number": np.arange(ROWS), "words": [[1] * (i % 4) for i in range(ROWS)]})
    return data.shuffle(seed=5).transform(image=[ps.image.RandomResizedCrop(400), ps.image.RandomInvert()]).batch(8)


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


def process_of(actor: Any) -> int:
    return int(ray.get(actor.handle.begin.remote(), timeout=30)[2])


def source_of(loader: Any) -> on_ray.OnRay:
    source: on_ray.OnRay = loader._rank.items
    return source


@pytest.mark.usefixtures("cluster")
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
        assert there.stats()["ray"]["actors"] == 3


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_actors_are_asked_for_while_the_consumer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "_LOOK_S", 0.0)
    with ps.Loader(images()) as here, penstock.ray.Loader(images()) as there:
        source = source_of(there)
        assert_all_same(here, there)
        assert source._workers > 1
        most = source._workers
        monkeypatch.setattr(on_ray, "_RESTS", 2.0)
        monkeypatch.setattr(on_ray, "_WAITS", 2.0)
        assert_all_same(here, there)
        assert source._workers < most


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_ranks_and_tensors() -> None:
    torch = pytest.importorskip("torch")
    data = images()
    for rank in range(2):
        options: dict[str, Any] = {"to": "torch", "rank": rank, "world_size": 2}
        with ps.Loader(data, **options) as here, penstock.ray.Loader(data, workers=2, **options) as there:
            for one, other in zip(here, there, strict=True):
                assert torch.equal(one["image"], other["image"])


@pytest.mark.usefixtures("cluster")
def test_actors_may_die_and_stop_at_any_time() -> None:
    data = images()
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=2) as there:
        source = source_of(there)
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            assert_same(one, other)
            if number == 1:
                first = process_of(source._actors[0])
                os.kill(first, signal.SIGKILL)
        assert_all_same(here, there)
        assert there.stats()["ray"]["lost_actors"] == 1
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            assert_same(one, other)
            if number == 2:
                stopped = process_of(source._actors[0])
                os.kill(stopped, signal.SIGSTOP)
        assert there.stats()["ray"]["late_actors"] == 1
        os.kill(stopped, signal.SIGCONT)
        ray.wait([source._late[0].owes], timeout=30)
        assert_all_same(here, there)
        assert there.stats()["ray"]["late_actors"] == 0


def test_a_node_may_go_and_another_come(cluster: Any) -> None:
    data = images()
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=3) as there:
        assert_all_same(here, there)
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            assert_same(one, other)
            if number == 2:
                cluster.remove_node(cluster.second)
            if number == 5:
                cluster.second = cluster.add_node(num_cpus=2, object_store_memory=150 << 20)
        assert len(there.stats()["ray"]["bytes_by_node"]) >= 2


def refuse_thirteen(batch: Any) -> Any:
    if 13 in batch["x"]:
        raise ValueError("thirteen")
    return batch


def refuse_some(row: Any) -> Any:
    if row["x"] in (13, 40):
        raise ps.DataError("a bad one")
    return row


@pytest.mark.usefixtures("cluster")
def test_an_error_comes_in_its_place_and_others_after_it() -> None:
    data = ps.from_arrays({"x": np.arange(64)}).map(refuse_thirteen).batch(4)
    seen = []
    with penstock.ray.Loader(data, workers=2) as loader:
        with pytest.raises(ValueError, match="thirteen"):
            seen.extend(batch["x"].tolist() for batch in loader)
        assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        loader.load_state_dict({**loader.state_dict(), "step": 4})
        assert next(iter(loader))["x"].tolist() == [16, 17, 18, 19]


@pytest.mark.usefixtures("cluster")
def test_the_rows_of_data_that_decide_are_made_here() -> None:
    data = ps.from_arrays({"x": np.arange(4000)}).shuffle(seed=1).filter(lambda batch: batch["x"] % 3 == 0)
    data = data.batch(8, steps=20)
    with pytest.warns(UserWarning, match=r"depend on what the rows before are"):
        there = penstock.ray.Loader(data, workers=2)
    with ps.Loader(data) as here, there:
        assert_all_same(here, there)


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_a_ledger_says_the_same(tmp_path: Path) -> None:
    with penstock.ray.Loader(images(), workers=2, ledger=tmp_path) as loader:
        for _ in loader:
            pass
    assert verify([str(tmp_path)]).wrong == []


@pytest.mark.usefixtures("cluster")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_bad_samples_are_told_and_written_down_as_here(tmp_path: Path) -> None:
    data = ps.from_arrays({"x": np.arange(64)}).map_rows(refuse_some).batch(4)
    found = {}
    for name, make in (("here", ps.Loader), ("there", penstock.ray.Loader)):
        options: dict[str, Any] = {"workers": 2} if name == "there" else {}
        place = tmp_path / name
        with make(data, on_error="substitute", quarantine=place, **options) as loader:
            rows = [batch["x"].tolist() for batch in loader]
            found[name] = rows, loader.stats()["errors"]["samples"], sorted(place.read_text().splitlines())
    assert found["here"] == found["there"]
    assert found["here"][1] == 2


@pytest.mark.usefixtures("cluster")
def test_what_cannot_work_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    data = images()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"workers": 0}, "at least one actor"),
        ({"isolation": "process"}, "processes of their own"),
    ]
    for options, text in wrong:
        with pytest.raises(ps.PlanError, match=text):
            penstock.ray.Loader(data, **options)
    monkeypatch.setattr(on_ray, "versions", lambda: {"Penstock": "0.0.1"})
    with (
        penstock.ray.Loader(data, workers=1) as loader,
        pytest.raises(ps.ProcessError, match=r"node .*its Penstock is"),
    ):
        next(iter(loader))


def test_where_no_actor_is_left_batches_are_made_here(monkeypatch: pytest.MonkeyPatch, cluster: Any) -> None:
    """The last test: Ray is gone behind it."""
    data, nowhere = images(), {"resources": {"nowhere": 1}}
    monkeypatch.setattr(on_ray, "_PATIENCE_S", 0.5)
    with ps.Loader(data) as here:
        with penstock.ray.Loader(data, workers=1, actor_options=nowhere) as there, monkeypatch.context() as within:
            within.setattr(on_ray, "_START_S", 1.0)
            with pytest.warns(match="no actor of Ray"):
                assert_all_same(here, there)
        with penstock.ray.Loader(data, workers=2) as there:
            there.set_epoch(here.epoch)
            first, *others = zip(here, there, strict=True)
            assert_same(*first)
            assert len(others) == ROWS // 8 - 1
            ray.shutdown()
            with pytest.warns(match="Ray was shut down"):
                assert_all_same(here, there)
    assert cluster
