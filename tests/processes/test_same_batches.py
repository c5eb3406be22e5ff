"""Functions in processes give the batches, and the errors, that they give on threads."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

pytestmark = pytest.mark.slow

ROWS = 90


def rows() -> ps.Dataset:
    """Columns of every kind."""
    rng = np.random.default_rng(0)
    return ps.from_arrays(
        {
            "x": np.arange(ROWS),
            "flag": np.arange(ROWS) % 3 == 0,
            "half": rng.random((ROWS, 2)).astype(np.float16),
            "brain": rng.random(ROWS).astype(ml_dtypes.bfloat16),
            "image": rng.integers(0, 255, (ROWS, 60, 50, 3), dtype=np.uint8),
            "text": pa.array([f"row {number} ☃" for number in range(ROWS)]),
            "bytes": pa.array([bytes([number]) * number * 40 for number in range(ROWS)], pa.large_binary()),
            "ragged": pa.array([list(range(number % 7)) for number in range(ROWS)], pa.large_list(pa.int32())),
        }
    ).shuffle(seed=5)


def plain(batch: Any) -> dict[str, Any]:
    return {
        name: column.to_pylist()
        if isinstance(column, pa.Array)
        else (str(column.dtype), column.shape, column.tobytes())
        for name, column in batch.items()
    }


@pytest.fixture
def loaders() -> Iterator[Callable[..., ps.Loader[Any]]]:
    """Makes loaders, which are closed afterwards."""
    made = list[ps.Loader[Any]]()

    def make(dataset: ps.Dataset, **options: Any) -> ps.Loader[Any]:
        made.append(ps.Loader(dataset, **options))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def test_columns_of_every_kind_come_and_go(loaders: Any) -> None:
    def change(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        assert type(batch["image"]) is np.ndarray
        return {
            **batch,
            "drawn": rng.normal(size=len(batch["x"])),
            "mirrored": batch["image"][:, :, ::-1],
            "transposed": batch["image"].T.swapaxes(0, 3),
            "words": [str(number) for number in batch["x"]],
            "same": batch["image"],
            "length": pa.compute.list_value_length(batch["ragged"]),
        }

    expected = [*map(plain, loaders(rows().map(change).batch(20)))]
    for cpus in (1, 2, 3):
        loader = loaders(rows().map(change, workers="process").batch(20), cpus=cpus)
        assert [*map(plain, loader)] == expected
    assert plain(loader.batch_at(0, 2)) == expected[2]
    assert [*map(plain, loader)] == [
        plain(loaders(rows().map(change).batch(20)).batch_at(1, step)) for step in range(5)
    ]


def test_rows_chains_and_ops(loaders: Any) -> None:
    def one(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"x": row["x"], "y": rng.random(), "ragged": row["ragged"], "text": row["text"].upper()}

    def chained(workers: str) -> ps.Dataset:
        return (
            rows()
            .map_rows(one, workers=workers)
            .map(lambda batch: {**batch, "z": batch["y"] * 2}, workers=workers)
            .batch(16)
        )

    assert [*map(plain, loaders(chained("process"), cpus=2))] == [*map(plain, loaders(chained("thread")))]


def test_rows_by_what_the_data_says(loaders: Any) -> None:
    def split(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        if not len(batch["x"]) % 2:
            return {}
        return {
            "x": np.repeat(batch["x"], 2),
            "drawn": rng.normal(size=(len(batch["x"]), 2)).ravel(),
            "text": ["é"] * 2 * len(batch["x"]),
        }

    def chained(workers: str) -> ps.Dataset:
        some = rows().filter(lambda batch: batch["x"] % 3 > 0, workers=workers)
        return some.flat_map(split, rows=3, workers=workers).batch(10, steps=12)

    expected = [*map(plain, loaders(chained("thread")))]
    loader = loaders(chained("process"), cpus=2)
    begun = iter(loader)
    some = [plain(next(begun)) for _ in range(4)]
    state = loader.state_dict()
    loader.close()
    again = loaders(chained("thread"))
    again.load_state_dict(state)
    assert [*some, *map(plain, again)] == expected


def test_lane_functions_raise_as_on_threads(loaders: Any) -> None:
    some = ps.from_arrays({"x": np.arange(60)}).shuffle(seed=2)
    for verb, function in (
        ("filter", lambda batch: batch["x"]),
        ("flat_map", lambda batch: {"x": batch["x"], "y": batch["x"][1:]}),
    ):
        here, there = (
            raised(loaders(getattr(some, verb)(function, workers=workers).batch(20, steps=3), cpus=1))
            for workers in ("thread", "process")
        )
        assert (type(there), str(there)) == (type(here), str(here))


def test_states_load_across_workers(loaders: Any) -> None:
    def add(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"x": batch["x"], "y": batch["x"] + rng.random(len(batch["x"]))}

    threads, processes = (rows().map(add, workers=workers).batch(8) for workers in ("thread", "process"))
    assert threads.digest == processes.digest
    expected = [*map(plain, loaders(threads))]
    for first, second in ((threads, processes), (processes, threads)):
        loader = loaders(first, cpus=1)
        begun = iter(loader)
        some = [plain(next(begun)) for _ in range(5)]
        state = loader.state_dict()
        loader = loaders(second, cpus=1)
        loader.load_state_dict(state)
        assert [*some, *map(plain, loader)] == expected


def test_global_generators_give_the_same_numbers(loaders: Any) -> None:
    hidden = functools.partial(getattr, random)

    def seen(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["x"], "y": random.random() + np.random.rand()}

    def unseen(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": batch["x"], "y": np.array([hidden("random")() for _ in batch["x"]])}

    for verb, function in (("map_rows", seen), ("map", unseen)):
        with pytest.warns(UserWarning, match="draws from the global generators"):
            expected = [*map(plain, loaders(getattr(rows(), verb)(function).batch(30)))]
        loader = loaders(getattr(rows(), verb)(function, workers="process").batch(30), cpus=1)
        assert [*map(plain, loader)] == expected


def test_a_large_batch_is_the_consumers_as_long_as_it_holds_it(loaders: Any) -> None:
    large = ps.from_arrays({"x": np.arange(40), "large": np.ones((40, 1_300_000), np.uint8)})

    def multiply(batch: dict[str, Any]) -> dict[str, Any]:
        batch["large"] *= batch["x"][:, None].astype(np.uint8)  # what comes may be written to
        return batch

    held = list(loaders(large.map(multiply, workers="process").batch(2), cpus=2))  # more than a link lends
    for step, batch in enumerate(held):
        assert batch["large"].shape == (2, 1_300_000)
        assert [*batch["large"].min(axis=1)] == [*batch["large"].max(axis=1)] == [2 * step, 2 * step + 1]


def test_a_function_may_keep_what_it_got(loaders: Any) -> None:
    kept = list[Any]()

    def keep(batch: dict[str, Any]) -> dict[str, Any]:
        assert all((before == number).all() for number, before in kept)
        kept.append((int(batch["x"][0, 0]), batch["x"]))
        return {"x": batch["x"]}

    data = ps.from_arrays({"x": np.repeat(np.arange(30), 10)[:, None] * np.ones(10_000, np.int32)})
    steps = [batch["x"][0, 0] for batch in loaders(data.map(keep, workers="process").batch(10), cpus=1)]
    assert steps == [*range(30)]


def test_columns_without_values(loaders: Any) -> None:
    def empty(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": batch["x"], "none": np.empty((len(batch["x"]), 0), np.float32)}

    batches = [*loaders(rows().map(empty, workers="process").batch(50), cpus=1)]
    assert [(batch["x"].shape, batch["none"].shape) for batch in batches] == [((50,), (50, 0)), ((40,), (40, 0))]


class OwnError(Exception):
    """Its arguments are not what it is made of."""

    def __init__(self, number: int) -> None:
        super().__init__(f"number {number}")


def raised(loader: ps.Loader[Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011  # whatever it is
        list(loader)
    return caught.value


def test_errors_are_those_of_threads(loaders: Any) -> None:
    def refuse(row: dict[str, Any]) -> dict[str, Any]:
        if row["x"] == 33:
            raise ps.DataError("33 is no number")
        return {"x": row["x"]}

    def divide(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": 1 // int(batch["x"].min() - 40)}

    def leave(batch: dict[str, Any]) -> dict[str, Any]:
        raise SystemExit(3)

    def return_list(batch: dict[str, Any]) -> Any:
        return [batch["x"]]

    def shorten(batch: dict[str, Any]) -> Any:
        return {"x": batch["x"][1:]}

    def mix_shapes(row: dict[str, Any]) -> Any:
        return {"x": np.zeros((1, 1 + row["x"] % 2))}

    some = ps.from_arrays({"x": np.arange(60)})
    for verb, function in (
        ("map_rows", refuse),
        ("map", divide),
        ("map", leave),
        ("map", return_list),
        ("map", shorten),
        ("map_rows", mix_shapes),
    ):
        here, there = (
            raised(loaders(getattr(some, verb)(function, workers=workers).batch(20), cpus=1))
            for workers in ("thread", "process")
        )
        assert (type(there), str(there), there.__notes__) == (type(here), str(here), here.__notes__)
        assert "in a process" in str(there.__cause__)
        assert function.__name__ in str(there.__cause__) or isinstance(there, ps.PlanError)
    assert raised(loaders(some.map_rows(refuse, workers="process").batch(20))).row == 13


def test_an_error_that_cannot_be_sent_is_told_in_words(loaders: Any) -> None:
    def fail(batch: dict[str, Any]) -> Any:
        class HereError(Exception):
            def __init__(self) -> None:
                super().__init__("broken", lambda: 0)
                self.open = open(os.devnull)  # noqa: SIM115

        raise HereError

    error = raised(loaders(rows().map(fail, workers="process").batch(9), cpus=1))
    assert type(error) is RuntimeError
    assert "HereError" in str(error)
    assert "raise HereError" in str(error.__cause__)


def test_bad_rows_are_skipped_and_replaced(loaders: Any) -> None:
    def refuse(row: dict[str, Any]) -> dict[str, Any]:
        if row["x"] % 10 == 3:
            raise ps.DataError("no number")
        return {"x": row["x"]}

    some = ps.from_arrays({"x": np.arange(60)}).shuffle(seed=1)
    for on_error in ("skip", "substitute"):
        found = []
        for workers in ("thread", "process"):
            loader = loaders(some.map_rows(refuse, workers=workers).batch(20), on_error=on_error, cpus=2)
            with pytest.warns(UserWarning, match="no number"):
                found.append([*map(plain, loader)])
            assert loader.stats()["errors"]["samples"] == 6
        assert found[0] == found[1]
