"""Users' functions that draw from global generators: batches repeat, and the loop's random numbers stay the same."""

from __future__ import annotations

import random
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils import resample

import penstock as ps

ROWS = 60
DRAWS = "draws from the global generators of"


def numbers(rows: int = ROWS) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(rows)}).shuffle(seed=3)


def from_random(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.0002)  # long enough that threads would take turns
    return {"x": row["x"], "drawn": random.random() + random.gauss(0, 1)}


def from_numpy(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"], "drawn": np.random.normal() + np.random.randint(5)}


def from_torch(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"], "drawn": torch.rand(1).item() + torch.randn(1).item()}


def from_library(row: dict[str, Any]) -> dict[str, Any]:
    """Nothing in its own code says that it draws."""
    return {"x": row["x"], "drawn": float(resample(np.arange(1000), n_samples=1)[0])}


def from_all(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    drawn = [random.random(), np.random.rand(), torch.rand(1).item(), rng.random()]
    return {"x": row["x"], "drawn": np.array(drawn)}


EACH = pytest.mark.parametrize("function", [from_random, from_numpy, from_torch, from_library, from_all])


def drawn_by_loop() -> list[float]:
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.normal(), torch.rand(1).item()]


def seed_loop() -> None:
    random.seed(11)
    np.random.seed(11)
    torch.manual_seed(11)


def trained(dataset: ps.Dataset, **options: Any) -> tuple[dict[int, Any], list[float]]:
    """What was drawn for each row, and what the loop drew between batches."""
    seed_loop()
    rows, own = {}, []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".*{DRAWS}")
        for batch in ps.Loader(dataset, **options):
            rows.update(zip(batch["x"].tolist(), np.asarray(batch["drawn"]).tolist(), strict=True))
            own.extend(drawn_by_loop())
    return rows, own


@EACH
def test_rows_repeat_and_the_loops_numbers_stay(function: Any) -> None:
    dataset = numbers().map_rows(function).batch(4)
    rows, own = trained(dataset, cpus=4)
    seed_loop()
    assert own == [number for _ in range(ROWS // 4) for number in drawn_by_loop()]
    assert len(rows) == ROWS
    assert len({str(drawn) for drawn in rows.values()}) > ROWS * 0.9, "each row draws its own"
    random.seed(5)
    assert trained(dataset, cpus=1, prefetch=1)[0] == rows
    assert trained(numbers().map_rows(function).batch(10))[0] == rows, "whatever the batch"
    halves = [trained(dataset, rank=rank, world_size=2)[0] for rank in range(2)]
    assert halves[0] | halves[1] == rows
    assert len(halves[0]) == len(halves[1]) == ROWS // 2


@EACH
def test_any_batch_can_be_made_again(function: Any) -> None:
    loader = ps.Loader(numbers().map_rows(function).batch(4), cpus=3)
    seed_loop()
    before = drawn_by_loop()
    seed_loop()
    with pytest.warns(UserWarning, match=DRAWS):
        again = [loader.batch_at(1, step) for step in (7, 2)]
    assert drawn_by_loop() == before
    loader.set_epoch(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".*{DRAWS}")
        made = list(loader)
        first = list(ps.Loader(loader.dataset))
    for mine, other in zip(again, (made[7], made[2]), strict=True):
        np.testing.assert_array_equal(mine["drawn"], other["drawn"])
    by_row = [dict(zip(np.concatenate([b["x"] for b in epoch]).tolist(), np.concatenate([b["drawn"] for b in epoch]).tolist(), strict=True)) for epoch in (first, made)]  # fmt: skip
    assert by_row[0] != by_row[1], "another epoch draws other numbers"


def test_whole_batches() -> None:
    def noisy(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": batch["x"], "drawn": np.random.rand(len(batch["x"])) + torch.rand(len(batch["x"])).numpy()}

    dataset = numbers().map(noisy).batch(4)
    rows, own = trained(dataset, cpus=4)
    assert (rows, own) == trained(dataset, cpus=1)
    assert len(set(rows.values())) == ROWS


class Noisy:
    """As a torch dataset with a random transform is."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"x": number, "drawn": torch.rand(1).item() + np.random.rand()}


class NoisyTogether(Noisy):
    def __getitems__(self, wanted: list[int]) -> list[dict[str, Any]]:
        return [self[number] for number in wanted]


class NoisyColumns(Noisy):
    def __getitems__(self, wanted: list[int]) -> dict[str, Any]:
        return {"x": np.array(wanted), "drawn": np.random.rand(len(wanted)) + torch.rand(len(wanted)).numpy()}


@pytest.mark.parametrize(("kind", "threads"), [(Noisy, 1), (Noisy, 3), (NoisyTogether, 1), (NoisyColumns, 1)])
def test_objects_that_draw(kind: Any, threads: int) -> None:
    seed_loop()
    before = drawn_by_loop()
    seed_loop()
    with pytest.warns(UserWarning, match=f"from_dataset.{kind.__name__}. {DRAWS}"):
        dataset = ps.from_dataset(kind(), threads=threads).shuffle(seed=1).batch(4)
    assert drawn_by_loop() == before, "opening looks at the first item"
    rows, own = trained(dataset, cpus=4)
    assert (rows, own) == trained(dataset, cpus=1)
    seed_loop()
    assert own == [number for _ in range(ROWS // 4) for number in drawn_by_loop()]
    loader = ps.Loader(dataset)
    again = loader.batch_at(0, 3)
    assert [rows[number] for number in again["x"].tolist()] == again["drawn"].tolist()
    loader.set_epoch(1)
    later = next(iter(loader))
    assert [rows[number] for number in later["x"].tolist()] != later["drawn"].tolist()
    loader.close()


def test_the_cost_is_said_once() -> None:
    loader = ps.Loader(numbers().map_rows(from_numpy).batch(4), cpus=2)
    with pytest.warns(UserWarning, match=DRAWS) as said:
        assert len([batch for _ in range(3) for batch in loader]) == 3 * ROWS // 4
    assert len(said) == 1
    text = str(said[0].message)
    assert "map_rows from_numpy draws from the global generators" in text
    assert "ms for 4 rows" in text
    assert "parameter `rng`" in text


def test_functions_that_do_not_draw_run_side_by_side() -> None:
    """The calls that are watched wait for the loop; the others do not, and none is warned of."""
    meet = threading.Barrier(2, timeout=100)
    calls: list[int] = []
    lock = threading.Lock()

    def work(batch: dict[str, Any]) -> dict[str, Any]:
        with lock:
            calls.append(len(calls) + 1)
            number = calls[-1]
        if number in (22, 23):  # far from those that are watched
            meet.wait()
        return batch

    assert len(list(ps.Loader(ps.from_arrays({"x": np.arange(120)}).map(work).batch(4), cpus=2))) == 30


def test_a_loop_may_stop_while_a_function_waits_for_it() -> None:
    for steps in (1, 3):
        loader, before = ps.Loader(numbers(4000).map_rows(from_random).batch(4), cpus=4), {*threading.enumerate()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=f".*{DRAWS}")
            passing = iter(loader)
            for _ in range(steps):
                next(passing)
        began_at = time.monotonic()
        loader.close()
        assert time.monotonic() - began_at < 60
        left = {*threading.enumerate()} - before
        assert not [thread for thread in left if thread.name.startswith("penstock-map_rows from_random")]


def test_two_loaders_in_turn_and_in_threads() -> None:
    datasets = [numbers().map_rows(function).batch(4) for function in (from_torch, from_numpy)]
    alone = [trained(dataset)[0] for dataset in datasets]
    found: list[dict[int, float]] = [{}, {}]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".*{DRAWS}")
        for pair in zip(*map(ps.Loader, datasets), strict=True):
            for rows, batch in zip(found, pair, strict=True):
                rows.update(zip(batch["x"].tolist(), batch["drawn"].tolist(), strict=True))
        assert found == alone

        def collect(place: int) -> None:
            for batch in ps.Loader(datasets[place]):
                found[place].update(zip(batch["x"].tolist(), batch["drawn"].tolist(), strict=True))

        found = [{}, {}]
        threads = [threading.Thread(target=collect, args=(place,)) for place in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
    assert found == alone


def test_another_bit_generator_of_the_users_own() -> None:
    before: Any = np.random.get_bit_generator()
    rows = trained(numbers().map_rows(from_numpy).batch(4))[0]
    try:
        np.random.set_bit_generator(np.random.PCG64(1))
        own = np.random.get_bit_generator()
        with pytest.warns(UserWarning, match=DRAWS):
            batch = ps.Loader(numbers().map_rows(from_numpy).batch(4)).batch_at(0, 0)
        assert np.random.get_bit_generator() is own
        assert own.state["state"] == np.random.PCG64(1).state["state"]
    finally:
        np.random.set_bit_generator(before)
    assert [rows[number] for number in batch["x"].tolist()] == batch["drawn"].tolist()


def test_a_generator_drawn_while_the_training_runs_is_warned_of() -> None:
    def make() -> Any:
        for number in range(8):
            yield {"x": number, "drawn": random.random()}

    with pytest.warns(UserWarning, match="from_iterable.*make.*does not repeat.*default_rng"):
        dataset = ps.from_iterable(make, samples=8, spool=False)
    assert len(dataset) == 8
