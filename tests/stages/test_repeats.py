"""Functions that return something else when they are called again are warned of, by name and once."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import albumentations
import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock.transform import repeat_check
from penstock.transform.repeat_check import difference

AGAIN = "when it was called again with the same rows"
own = np.random.default_rng(4)


def numbers() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(64.0)}).shuffle(seed=3)


def unseeded(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["x"], "drawn": np.asarray(batch["x"]) + np.random.default_rng().random()}


def from_its_own(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"], "drawn": own.random()}


def some(batch: dict[str, Any]) -> Any:
    return np.random.default_rng().random(len(batch["x"])) < 0.5


def passed(dataset: ps.Dataset, **options: Any) -> list[Any]:
    with ps.Loader(dataset, cpus=2, **options) as loader:
        return [{name: column.tolist() for name, column in batch.items()} for batch in loader]


@pytest.mark.parametrize("workers", ["thread", pytest.param("process", marks=pytest.mark.long), "auto"])
@pytest.mark.parametrize(
    ("verb", "function"), [("map", unseeded), ("map_rows", from_its_own), ("filter", some), ("flat_map", unseeded)]
)
def test_a_function_that_does_not_repeat_is_named_once(verb: str, function: Any, workers: str) -> None:
    dataset = getattr(numbers(), verb)(function, workers=workers).batch(8, steps=8)
    with pytest.warns(UserWarning, match=AGAIN) as said:
        passed(dataset)
    assert len(said) == 1
    text = str(said[0].message)
    assert f"{verb} {function.__qualname__} returned something else" in text
    assert "parameter `rng`" in text
    if verb == "map":
        assert "'drawn'" in text


def test_functions_that_repeat_are_not_warned_of_and_are_given_what_they_expect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeat_check, "_LONG_S", 60.0)  # no call takes long, on whatever machine
    calls: list[float] = []

    def in_place(batch: dict[str, Any]) -> dict[str, Any]:
        batch["x"] += 1
        calls.append(float(batch["x"][0]))
        return {
            "x": batch["x"],
            "nan": np.full(len(batch["x"]), np.nan),
            "text": pa.array(["a", "b"] * (len(batch["x"]) // 2)),
        }

    def in_place_of_row(row: dict[str, Any]) -> dict[str, Any]:
        row["x"] = row["x"] * 2
        return {**row, "bad": float("nan")}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = passed(numbers().map(in_place).map_rows(in_place_of_row).batch(8))
    assert sorted(value for batch in made for value in batch["x"]) == [2.0 * (number + 1) for number in range(64)]
    calls.clear()
    ps.Loader(numbers().map(partial(in_place)).batch(8)).batch_at(0, 0)
    assert len(calls) == 2, "the first batch is made twice"
    assert calls[0] == calls[1]


def test_a_slow_function_is_called_again_with_few_rows() -> None:
    rows: list[int] = []

    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        rows.append(len(batch["x"]))
        time.sleep(0.3 if len(batch["x"]) > 2 else 0)
        return {"x": np.random.default_rng().random(len(batch["x"]))}

    with pytest.warns(UserWarning, match=AGAIN):
        ps.Loader(numbers().map(slow).batch(8)).batch_at(0, 0)
    assert rows == [8, 2, 2]


def test_what_fails_the_second_time_is_said_and_the_batch_comes() -> None:
    left = [1]

    def once(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": batch["x"] + left.pop()} if left else {}[0]

    with pytest.warns(UserWarning, match="map .*once raised KeyError when it was called again"):
        ps.Loader(numbers().map(once).batch(8)).batch_at(0, 0)


async def waits(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"] + np.random.default_rng().random()}


def test_async_functions_are_called_again_too() -> None:
    with pytest.warns(UserWarning, match=AGAIN):
        passed(numbers().map_rows(waits).batch(8))


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"x": np.array([1.0, np.nan])}, {"x": np.array([1.0, np.nan])}, None),
        ({"x": np.array([1.0, 2.0])}, {"x": np.array([1.0, 2.1])}, " in 'x'"),
        ({"x": torch.ones(2)}, {"x": torch.zeros(2)}, " in 'x'"),
        ({"x": torch.ones(2)}, {"x": torch.ones(2)}, None),
        ({"x": pa.array([1.0, float("nan"), None])}, {"x": pa.array([1.0, float("nan"), None])}, None),
        ({"x": pa.array(["a"])}, {"x": pa.array(["b"])}, " in 'x'"),
        ({"x": [[1, 2], [3]]}, {"x": [[1, 2], [4]]}, " in 'x'"),
        ({"x": np.array(["a", None], dtype=object)}, {"x": np.array(["a", None], dtype=object)}, None),
        ({"x": object()}, {"x": object()}, None),
        ({"x": 1}, {"y": 1}, " (columns y after x)"),
        ([{"x": 1.0}, {"x": 2.0}], [{"x": 1.0}, {"x": 3.0}], " in 'x'"),
        (np.array([True, False]), np.array([True, True]), ""),
        ({"x": {"inner": 1}}, {"x": {"inner": 2}}, " in 'x'"),
        ({"x": np.float32(0.1)}, {"x": np.float32(0.1)}, None),
    ],
)
def test_values_are_compared_as_people_do(one: Any, other: Any, found: str | None) -> None:
    assert difference(one, other) == found


# Albumentations

crop = albumentations.Compose([
    albumentations.RandomCrop(8, 8),
    albumentations.OneOf([albumentations.HorizontalFlip(p=1), albumentations.RandomBrightnessContrast(p=1)]),
])  # fmt: skip


def augment(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"], "image": crop(image=row["image"])["image"]}


class Augment:
    """Holds its transform, as a user's class does."""

    def __init__(self) -> None:
        self.steps = {"train": [albumentations.RandomCrop(8, 8)]}

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["x"], "image": self.steps["train"][0](image=row["image"])["image"]}


def enclosed() -> Any:
    inner = albumentations.Compose([albumentations.RandomCrop(8, 8)])
    return lambda row: {"x": row["x"], "image": inner(image=row["image"])["image"]}


def images() -> ps.Dataset:
    data = np.random.default_rng(0).integers(0, 256, (48, 16, 16, 3), dtype=np.uint8)
    return ps.from_arrays({"x": np.arange(48), "image": data}).shuffle(seed=1)


def by_id(batches: list[Any]) -> dict[int, Any]:
    return {number: image for batch in batches for number, image in zip(batch["x"], batch["image"], strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(augment, id="global"),
        pytest.param(Augment(), id="attribute", marks=pytest.mark.long),
        pytest.param(enclosed(), id="closure", marks=pytest.mark.long),
    ],
)
def test_albumentations_repeats(function: Any) -> None:
    """In another run, on ranks, in processes, by batch_at, in other batches."""
    dataset = images().map_rows(function).batch(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = passed(dataset)
        assert passed(dataset, prefetch=1) == first
        assert by_id(passed(images().map_rows(function).batch(12))) == by_id(first)
        halves = [passed(dataset, rank=rank, world_size=2) for rank in range(2)]
        assert by_id(halves[0]) | by_id(halves[1]) == by_id(first)
        assert passed(images().map_rows(function, workers="process").batch(8)) == first
        with ps.Loader(dataset) as loader:
            assert loader.batch_at(0, 3)["image"].tolist() == first[3]["image"]
            epochs = [by_id([{name: column.tolist() for name, column in batch.items()} for batch in loader]) for _ in range(2)]  # fmt: skip
    assert epochs[0] == by_id(first) != epochs[1]


def test_a_state_fits_after_albumentations_drew() -> None:
    dataset = images().map_rows(Augment()).batch(8)
    with ps.Loader(dataset) as loader:
        next(iter(loader))
        saved = loader.state_dict()
    with ps.Loader(images().map_rows(Augment()).batch(8)) as loader:
        loader.load_state_dict(saved)
        assert len(list(loader)) == 5


class Pictures:
    """As a torch dataset is."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, number: int) -> dict[str, Any]:
        image = np.full((16, 16, 3), np.arange(16)[:, None], dtype=np.uint8)
        return {"x": number, "image": crop(image=image)["image"]}


def test_datasets_that_use_albumentations_repeat() -> None:
    dataset = ps.from_dataset(Pictures()).shuffle(seed=1).batch(8)
    assert passed(dataset) == passed(dataset)
