"""`source=…`: which dataset a row came of, through everything that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from promises.test_composed import three
from support import promises


def of(first: int, count: int = 30) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(first, first + count)})


def twice(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {**batch, "y": batch["x"] * 2}


def batches(dataset: ps.Dataset, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(dataset, rank=0, world_size=1, **options) as loader:
        return [promises.keep(batch) for batch in loader]


@pytest.mark.parametrize(
    "make",
    [
        lambda some: ps.mix(some, source="of"),
        lambda some: ps.mix(some, weights=[5, 2, 3], rows=96, source="of").shuffle(seed=1),
        lambda some: ps.mix([one.map(twice) for one in some], source="of").shuffle(seed=1),
        lambda some: ps.mix(some, source="of").map(twice).shuffle(seed=1),
        lambda some: ps.concat(some, source="of").shuffle(seed=2),
        lambda some: ps.concat([some[0].repeat(1), some[1].repeat(2), some[2].repeat(1)], source="of").skip(7),
        lambda some: ps.concat(some, source="of").take(50),
    ],
)
def test_rows_say_which_dataset_they_came_of(make: Callable[[list[ps.Dataset]], ps.Dataset]) -> None:
    plan = make([of(0), of(100, 50), of(200, 40)]).batch(12, lanes=4, pad=True)
    found = batches(plan)
    for batch in found:
        assert batch["of"].dtype == np.int32
        assert batch["of"].tolist() == (batch["x"] // 100).tolist()
    assert {*np.concatenate([batch["of"] for batch in found]).tolist()} <= {0, 1, 2}


def test_one_dataset_alone() -> None:
    assert [batch["of"].tolist() for batch in batches(ps.mix([of(5)], source="of").batch(15, lanes=1))] == [
        [0] * 15
    ] * 2


def test_mixes_of_mixes_name_their_own() -> None:
    inner = [ps.mix([of(0), of(100)], source="inner"), ps.mix([of(200), of(300)], source="inner")]
    plan = ps.mix(inner, weights=[2, 1], source="outer").shuffle(seed=3).batch(12, lanes=4)
    for batch in batches(plan):
        number = batch["x"] // 100
        assert batch["outer"].tolist() == (number // 2).tolist()
        assert batch["inner"].tolist() == (number % 2).tolist()


def test_rows_of_files(tmp_path: Path) -> None:
    plan = ps.mix(three(tmp_path), weights=[1, 2, 1], source="of").shuffle(seed=1, block_rows=3).batch(12, lanes=4)
    promises.resume_is_exact(plan)
    for batch in batches(plan):
        assert batch["of"].tolist() == np.searchsorted([23, 63], batch["id"], side="right").tolist()


def test_as_tensors() -> None:
    with ps.Loader(ps.mix([of(0), of(100)], source="of").batch(4), to="torch", rank=0, world_size=1) as loader:
        first = next(iter(loader))
        assert first["of"].dtype == torch.int32
        assert first["of"].tolist() == (first["x"] // 100).tolist()


def test_a_plan_may_get_the_column_later() -> None:
    """The order is the same with and without: a state loads, if asked to."""
    plain, named = (ps.mix([of(0), of(100)], source=name).batch(4, lanes=2) for name in (None, "of"))
    with ps.Loader(plain, rank=0, world_size=1) as loader:
        state = loader.state_dict()
    with ps.Loader(named, rank=0, world_size=1) as loader:
        assert loader.state_dict()["plan"][-2].startswith("source ")
        with pytest.raises(ps.StateError, match=r"verb 4, 'source .*', is new"):
            loader.load_state_dict(state)
        with pytest.warns(UserWarning, match="of the same order"):
            loader.load_state_dict(state, strict=False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.mix([of(0), of(9)], source="x"), r"mix: source='x' names a column that the datasets have already"),
        (lambda: ps.concat([of(0), of(9)], source="x"), r"concat: source='x' names a column"),
        (lambda: ps.mix([of(0), of(9)], source=""), r"mix: source=''; give the new column a name"),
        (lambda: ps.mix([of(0), of(9)], source=3), r"mix: source=3; give the new column a name"),
        (lambda: ps.concat([of(0), of(9)], "of"), r"concat: 'of' is passed by position"),
        (lambda: ps.mix([ps.mix([of(0)], source="of"), of(9)], source="b"), r"mix: dataset 0 .* has a column 'of', and dataset 1"),
        (lambda: ps.mix([ps.mix([of(0)], source="of")] * 2, source="of"), r"mix: source='of' names a column"),
        (lambda: batches(ps.mix([of(0).map(twice), of(9).map(twice)], source="y").batch(4)), r"mix: source='y' names a column that a function returned"),
    ],
)  # fmt: skip
def test_what_cannot_be(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()
