"""What a cluster may lack or get wrong: an error that names the node and the step, or batches made here with a warning; never a hang or another batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

import penstock as ps
import penstock.ray
from penstock.ray import leases, pool
from penstock.ray.messages import versions
from support.ray_loaders import (
    STORE,
    actors_of,
    assert_all_same,
    assert_same,
    images,
    named_actors,
    numbers,
    process_of,
    source_of,
    wait_until,
)

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
NODE = r"node \S+ [0-9a-f]{8}"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    yield
    assert wait_until(lambda: not named_actors(), 90)  # one that nobody joined any more ends after a minute


def test_options_that_cannot_work() -> None:
    data = numbers(64, 4)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"workers": 0}, "at least one actor"),
        ({"workers": 1.5}, "at least one actor"),
        ({"isolation": "process"}, "processes of their own"),
        ({"compare_every": 0}, "one of how many"),
        ({"actor_options": {"name": "mine"}}, "name is not yours"),
        ({"actor_options": ["num_cpus"]}, "give a dict"),
        ({"rank": 0, "world_size": 3}, "3"),
    ]
    for options, text in wrong:
        with pytest.raises(ps.PlanError, match=text):
            penstock.ray.Loader(data, **options)


def test_functions_that_cannot_be_sent() -> None:
    lock = threading.Lock()
    data = ps.from_arrays({"x": np.arange(8)}).map(lambda batch: batch if lock else {}).batch(2)
    with pytest.raises(ps.PlanError, match=r"penstock.ray.Loader sends.*'lock', a _thread.lock.*use penstock.Loader"):
        penstock.ray.Loader(data)


@pytest.mark.parametrize("name", ["Penstock", "Python"])
def test_another_version_on_a_node(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(pool, "versions", lambda: tuple({**dict(versions()), name: "0.0.1"}.items()))
    with (
        penstock.ray.Loader(numbers(64, 4), workers=1) as loader,
        pytest.raises(ps.ProcessError, match=rf"{NODE}: its {name} is .*trainer's 0\.0\.1; install the same"),
    ):
        next(iter(loader))


def test_a_module_that_a_node_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("def twice(batch):\n    return {'x': 2 * batch['x']}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here  # type: ignore[import-not-found]

    data = ps.from_arrays({"x": np.arange(8)}).map(only_here.twice).batch(2)
    with (
        penstock.ray.Loader(data, workers=1) as loader,
        pytest.raises(ps.ProcessError, match=rf"{NODE}: the plan cannot be loaded there .*only_here"),
    ):
        next(iter(loader))


def test_an_extra_that_a_node_lacks() -> None:
    def needs(batch: Any) -> Any:
        import not_installed_anywhere  # type: ignore[import-not-found]

        return not_installed_anywhere.done(batch)

    data = ps.from_arrays({"x": np.arange(8)}).map(needs).batch(2)
    with (
        penstock.ray.Loader(data, workers=1) as loader,
        pytest.raises(ModuleNotFoundError, match="not_installed_anywhere") as caught,
    ):
        next(iter(loader))
    assert any("node" in note and "epoch 0, step 0" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("change", ["gone", "longer"])
def test_data_that_a_node_lacks_or_has_otherwise(tmp_path: Path, change: str) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": np.arange(1000)}), file)
    data = ps.read(file).batch(10)
    loader = penstock.ray.Loader(data, workers=1)
    if change == "gone":
        file.unlink()
    else:
        pq.write_table(pa.table({"x": np.arange(2000)}), file)
    found = "No such file" if change == "gone" else rf"bytes, and where the dataset was opened .*{data.digest}"
    with loader, pytest.raises(ps.ProcessError, match=rf"{NODE}: .*rows.parquet: .*{found}"):
        next(iter(loader))


def wrong_in(process: Path) -> ps.Dataset:
    """A plan that adds one where a file says so."""

    def adds(batch: Any) -> Any:
        return {"x": batch["x"] + (process.exists() and process.read_text() == str(os.getpid()))}

    return ps.from_arrays({"x": np.arange(4000)}).map(adds).batch(4)


# Ray's threads draw random numbers while functions run here: a function may be taken for one that does.
@pytest.mark.filterwarnings("ignore:penstock. map:UserWarning")
@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_that_makes_other_bytes_is_named_and_nothing_of_it_is_delivered(tmp_path: Path, workers: int) -> None:
    process = tmp_path / "process"
    seen = []
    with penstock.ray.Loader(wrong_in(process), workers=workers, compare_every=2) as loader:

        def goes_wrong() -> None:
            for batch in loader:
                seen.append(batch["x"])
                if len(seen) == 20:
                    wrong = actors_of(loader)[-1]
                    process.write_text(str(process_of(wrong)))

        with pytest.raises(ps.ProcessError, match=rf"{NODE}: its batch of epoch 0, step \d+, is not the one that this"):
            goes_wrong()
    assert len(seen) < 60 + 20
    if workers == 1:  # what was compared was right; of two neighbours at most one was not
        assert all(np.array_equal(x, np.arange(4 * n, 4 * n + 4)) for n, x in enumerate(seen) if n % 2 == 0)


@pytest.mark.filterwarnings("ignore:penstock. map:UserWarning")
def test_a_function_that_gives_something_else_each_time_is_told_of_once() -> None:
    def draws(batch: Any) -> Any:
        return {"x": batch["x"] + time.perf_counter_ns()}

    data = ps.from_arrays({"x": np.arange(64)}).map(draws).batch(4)
    with penstock.ray.Loader(data, workers=2, compare_every=1) as loader:
        with pytest.warns(UserWarning, match="gives something else when it is called again"):
            assert len([*loader]) == 16
        assert loader.stats()["ray"]["compared_items"] == 16


def test_a_consumer_that_is_slower_than_the_window_fills_nothing() -> None:
    data = images()
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=2) as there:
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            assert_same(one, other)
            if number == 2:
                made = there.stats()["ray"]["leases"]
                assert made <= 6
                time.sleep(3.0)
        item = sum(column.nbytes for column in other.values())
        assert there.stats()["ray"]["leases"] * item < 0.6 * STORE


def test_batches_that_take_most_of_a_store_go_one_by_one() -> None:
    rows = 6

    def large(batch: Any) -> Any:
        return {"x": batch["x"], "large": np.repeat(batch["x"][:, None], 60 << 17, axis=1)}

    def data() -> ps.Dataset:
        return ps.from_arrays({"x": np.arange(rows)}).map(large).batch(1)

    with penstock.ray.Loader(data(), workers=2, compare_every=None) as there, ps.Loader(data()) as here:
        assert_all_same(here, there)
        assert source_of(there)._leases.window.items(6) == 1


def test_where_no_actor_begins_batches_are_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_START_S", 1.0)
    data = images()
    nowhere = {"resources": {"nowhere": 1}}
    with (
        ps.Loader(data) as here,
        penstock.ray.Loader(data, workers=1, actor_options=nowhere) as there,
        pytest.warns(match="no actor of Ray"),
    ):
        assert_all_same(here, there)


def test_where_no_actor_gives_an_item_it_is_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_GIVE_UP_S", 2.0)
    trainer = os.getpid()

    def stands(batch: Any) -> Any:
        if 13 in batch["x"] and os.getpid() != trainer:
            time.sleep(3600.0)
        return batch

    data = ps.from_arrays({"x": np.arange(64)}).map(stands).batch(4)
    with penstock.ray.Loader(data, workers=1, compare_every=None) as loader:
        with pytest.warns(match=r"step 3 did not come from \S+ [0-9a-f]+ within 2 s"):
            rows = [row for batch in loader for row in batch["x"].tolist()]
        assert rows == [*range(64)]


def test_a_step_that_ends_its_process_is_named_and_not_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_MOST_ENDED", 3)
    trainer = os.getpid()

    def ends(batch: Any) -> Any:
        if 13 in batch["x"] and os.getpid() != trainer:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    data = ps.from_arrays({"x": np.arange(64)}).map(ends).batch(4)
    with (
        penstock.ray.Loader(data, workers=1, compare_every=None) as loader,
        pytest.raises(
            ps.ProcessError, match=r"epoch 0, step \d: 3 actors of Ray ended while they made it.*ends its process"
        ),
    ):
        list(loader)


def test_a_file_that_changes_in_the_midst_of_an_epoch(tmp_path: Path) -> None:
    """What was opened is not what is there: the error that a loader of this process has, or of an actor that begins meanwhile, and nothing of the new rows."""
    file = tmp_path / "rows.npy"
    rows = np.arange(4_000_000)  # more than is read at once
    np.save(file, rows)
    data, seen = ps.read(file).batch(200), list[int]()
    with penstock.ray.Loader(data, workers=2) as loader:

        def changes() -> None:
            for number, batch in enumerate(loader):
                [column] = batch.values()
                seen.extend(column.tolist())
                if number == 2:
                    np.save(file, rows + 1_000_000_000)

        with pytest.raises(
            (ps.DataError, ps.ProcessError), match=r"rows\.npy: (replaced or rewritten|it has .* bytes, and where)"
        ):
            changes()
    assert seen == [*range(len(seen))]


def test_more_actors_than_the_cluster_has_room_for() -> None:
    data = numbers(512, 4)
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=30) as there:
        began = time.monotonic()
        assert_all_same(here, there)
        assert time.monotonic() - began < 60
        assert 1 <= there.stats()["ray"]["actors_at_work"] <= 4


def test_sigterm_during_start_leaves_nothing(cluster: Any) -> None:
    program = (
        "import sys, ray, penstock.ray\n"
        "from support.ray_loaders import numbers\n"
        "ray.init(address=sys.argv[1], log_to_driver=False)\n"
        "loader = penstock.ray.Loader(numbers(64, 4), workers=4)\n"
        "print('made', flush=True)\n"
        "[*loader]\n"
    )
    for after_s in (0.0, 1.0):
        process = subprocess.Popen(
            [sys.executable, "-c", program, cluster.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert wait_until(lambda: not named_actors(), 90)


def test_where_ray_was_shut_down_batches_are_made_here(cluster: Any) -> None:
    """The last test: Ray is gone behind it."""
    data = images()
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=2) as there:
        assert_all_same(here, there)
        ray.shutdown()
        with pytest.warns(match="Ray was shut down"):
            assert_all_same(here, there)
    ray.init(address=cluster.address, log_to_driver=False)
