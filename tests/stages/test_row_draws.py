"""`rng` in map, filter and flat_map: the rows of a step are the same on any number of ranks, threads and processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest

import penstock as ps

ROWS, BATCH = 96, 24

Batch = dict[str, Any]


def noise(batch: Batch, rng: ps.RowGenerator) -> Batch:
    drawn = rng.normal(size=(len(batch["x"]), 2)) + rng.integers(0, 100, size=(len(rng), 1))
    return {**batch, "drawn": drawn, "key": rng.keys}


def of_step(batch: Batch, rng: ps.RowGenerator) -> Batch:
    return {**batch, "step": np.full(len(rng), rng.step.random())}


def often(batch: Batch, rng: ps.RowGenerator) -> Any:
    return rng.random() < 0.7


def copies(batch: Batch, rng: ps.RowGenerator) -> Batch:
    times = rng.integers(0, 4)
    return {"x": np.repeat(batch["x"], times), "drawn": np.repeat(rng.random(), times)}


def by_row(row: Batch, rng: np.random.Generator) -> Batch:
    return {**row, "own": rng.random()}


def numbers(rows: int = ROWS) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(rows)})


def plans(workers: Any = "thread") -> dict[str, Callable[[], ps.Dataset]]:
    given = {"workers": workers}
    return {
        "map before batch": lambda: numbers().shuffle(seed=1).map(noise, **given).batch(BATCH),
        "map after batch": lambda: numbers().shuffle(seed=1).batch(BATCH).map(noise, **given),
        "map of the step": lambda: numbers().shuffle(seed=1).map(of_step, **given).map(noise, **given).batch(BATCH),
        "map twice, and by row": lambda: numbers().map(noise, **given).map_rows(by_row, **given).map(noise).batch(BATCH),
        "filter": lambda: numbers().shuffle(seed=1).filter(often, **given).map(noise).batch(BATCH, steps=5),
        "flat_map": lambda: numbers().shuffle(seed=1).flat_map(copies, rows=4, **given).map(of_step).batch(BATCH, steps=5),
        "map below flat_map": lambda: numbers().map(noise, **given).flat_map(copies, rows=2, **given).batch(BATCH, steps=5),
        "repeat": lambda: numbers().shuffle(seed=1).repeat(2).map(noise, **given).batch(BATCH),
        "mix": lambda: ps.mix([numbers().shuffle(seed=1).map(noise, **given), numbers(40).shuffle(seed=2).map(noise)], weights=[2, 1], rows=ROWS).batch(BATCH),
        "concat": lambda: ps.concat([numbers().map(noise, **given), numbers(48).map(noise)]).shuffle(seed=1).map(of_step).batch(BATCH),
        "last one short": lambda: numbers(89).shuffle(seed=1).map(noise, **given).map(of_step).batch(BATCH),
    }  # fmt: skip


def passed(dataset: ps.Dataset, **options: Any) -> list[list[str]]:
    with ps.Loader(dataset, **options) as loader:
        return [rows_of(batch) for batch in loader]


def rows_of(batch: Batch) -> list[str]:
    return [str(row) for row in zip(*(column.tolist() for column in batch.values()), strict=True)]


def joined(parts: list[list[list[str]]]) -> list[list[str]]:
    """The global batches of what ranks have."""
    return [[*chain(*step)] for step in zip(*parts, strict=True)]


def on_ranks(dataset: ps.Dataset, ranks: int, **options: Any) -> list[list[str]]:
    parts = [passed(dataset, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
    return joined(parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", plans())
def test_global_batches_are_the_same_on_any_number_of_ranks(name: str) -> None:
    dataset = plans()[name]()
    alone = passed(dataset, cpus=1)
    assert len({row for step in alone for row in step}) > ROWS / 2
    for ranks in (2, 3, 4):
        assert on_ranks(dataset, ranks, cpus=2) == alone
    assert passed(dataset, cpus=4, prefetch=3) == alone


@pytest.mark.parametrize("name", plans())
def test_any_step_can_be_made_again_and_gone_on_from(name: str) -> None:
    dataset = plans()[name]()
    with ps.Loader(dataset) as loader:
        epochs = [[rows_of(batch) for batch in loader] for _ in range(2)]
    assert epochs[0][0] != epochs[1][0]
    with ps.Loader(dataset) as loader:
        is_counted = any(verb in name for verb in ("filter", "flat_map"))
        if not is_counted:
            assert rows_of(loader.batch_at(1, 2)) == epochs[1][2]
        for number, _ in enumerate(loader):
            if number == 1:
                saved = json.dumps(loader.state_dict())
                break
    for ranks in (1, 2):
        parts = []
        for rank in range(ranks):
            with ps.Loader(dataset, rank=rank, world_size=ranks) as loader:
                loader.load_state_dict(json.loads(saved))
                parts.append([rows_of(batch) for batch in loader])
        assert joined(parts) == epochs[0][2:]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["process", "auto"])
@pytest.mark.parametrize("name", ["map of the step", "filter", "flat_map"])
def test_processes_draw_the_same(name: str, workers: str) -> None:
    assert passed(plans(workers)[name](), cpus=2) == passed(plans()[name]())


@pytest.mark.slow
def test_a_loader_in_a_process_draws_the_same() -> None:
    dataset = plans()["map of the step"]()
    assert on_ranks(dataset, 2, isolation="process") == passed(dataset)


def test_copies_of_a_row_draw_for_themselves() -> None:
    with ps.Loader(numbers(8).repeat(3).map(noise).batch(24)) as loader:
        (batch,) = loader
    assert sorted(batch["x"].tolist()) == sorted([*range(8)] * 3)
    assert len(set(batch["key"].tolist())) == 24


def refuses(row: Batch) -> Batch:
    if row["x"] % 13 == 5:
        raise ps.DataError("bad")
    return row


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_rows_beside_bad_ones_draw_the_same_on_any_number_of_ranks(on_error: Any) -> None:
    dataset = numbers().shuffle(seed=1).map(noise).map_rows(refuses).map(noise).batch(BATCH)
    with pytest.warns(UserWarning, match="bad"):
        alone = passed(dataset, on_error=on_error)
    if on_error == "skip":
        dataset.count_rows(on_error="skip")
    with pytest.warns(UserWarning, match="bad"):
        assert on_ranks(dataset, 2, on_error=on_error) == alone


def test_substitutes_are_of_the_step_that_they_come_to() -> None:
    dataset = numbers().shuffle(seed=1).map(of_step).map_rows(refuses).batch(BATCH)
    with pytest.warns(UserWarning, match="bad"), ps.Loader(dataset, on_error="substitute") as loader:
        assert all(len(set(batch["step"].tolist())) == 1 for batch in loader)


@pytest.mark.parametrize(
    "plan",
    [
        lambda: numbers().filter(lambda batch, rng: rng.step.random() < batch["x"]).batch(8, steps=2),
        lambda: numbers().flat_map(of_step).batch(8, steps=2),
        lambda: numbers().map(of_step).filter(lambda batch: batch["x"] > 3).batch(8, steps=2),
        lambda: numbers().map(of_step).cache(freeze_random=True).batch(8),
    ],
)
def test_rows_of_no_step_have_no_generator_of_it(plan: Callable[[], ps.Dataset]) -> None:
    with pytest.raises(ps.PlanError, match=r"rng\.step is the generator of a global batch.*rng\.keys"):
        passed(plan())


def test_frozen_rows_keep_what_epoch_0_drew() -> None:
    dataset = numbers().shuffle(seed=1).map(noise).cache(freeze_random=True).batch(BATCH)
    with ps.Loader(dataset) as loader:
        epochs = [sorted(row for batch in loader for row in rows_of(batch)) for _ in range(2)]
    assert epochs[0] == epochs[1]


def test_a_filter_that_draws_from_global_generators_is_the_same_on_ranks() -> None:
    """Which rows come to it together is a matter of time: it is seeded for each."""

    def seldom(batch: Batch) -> Any:
        return np.random.rand(len(batch["x"])) < 0.5

    dataset = numbers(500).shuffle(seed=1).filter(seldom).batch(BATCH, steps=5)
    with pytest.warns(UserWarning, match="draws from the global generators"):
        alone = passed(dataset)
    with pytest.warns(UserWarning, match="draws from the global generators"):
        assert on_ranks(dataset, 2) == alone


def test_rows_keep_numpys_generator_and_its_numbers() -> None:
    """As they were before functions on batches drew by rows."""
    with ps.Loader(numbers(4).map_rows(by_row).batch(4)) as loader:
        (batch,) = loader
    assert batch["own"].tolist() == pytest.approx(PINNED_ROWS, abs=1e-12)


PINNED_ROWS = [0.11127830069549172, 0.7826108679700596, 0.4896029102890176, 0.6906354488801117]
