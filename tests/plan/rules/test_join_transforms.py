"""Transforms that run together: as one kernel a column, or at least as one stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.plan.rules import optimize
from penstock.plan.tree import flow
from support.promises import assert_same, keep
from support.seams import lowered_of, with_rules

FLIPS = [ps.image.RandomHorizontalFlip(), ps.image.RandomVerticalFlip()]


def table() -> ps.Dataset:
    draw = np.random.default_rng(0)
    return ps.from_arrays(
        {"id": np.arange(24), **{name: draw.integers(0, 255, (24, 8, 8, 3), np.uint8) for name in "abc"}}
    )


def batches(dataset: ps.Dataset) -> list[dict[str, Any]]:
    with ps.Loader(dataset) as loader:
        return [keep(batch) for batch in loader]


def runs(dataset: ps.Dataset) -> list[str]:
    return [node.verb for node in flow(optimize(dataset.root))]


BETWEEN = {
    "nothing": lambda data: data,
    "shuffle": lambda data: data.shuffle(seed=2),
    "take": lambda data: data.take(20),
    "several": lambda data: data.skip(2).shuffle(seed=1).take(17),
    "repeat": lambda data: data.repeat(2),
    "select": lambda data: data.select("c", "b", "a"),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_one_stage_with_the_same_random_numbers(between: str) -> None:
    plan = BETWEEN[between](table().transform(a=FLIPS)).transform(b=FLIPS, draws="apart").batch(8)
    plan = plan.transform(c=FLIPS, draws="apart")
    assert runs(plan).count("transform") == 1
    with ps.Loader(plan) as loader:
        assert sum(stage.name.startswith("transform") for stage in lowered_of(loader).stages) == 1
    with with_rules(()):
        wanted = batches(plan)
    for found, other in zip(batches(plan), wanted, strict=True):
        assert_same(found, other)


def test_a_select_between_ops_of_one_column() -> None:
    """One chain, as without the select."""
    begun = table().transform(a=FLIPS)
    plan = begun.select("a").transform(a=[ps.image.CenterCrop(4)]).batch(8)
    assert runs(plan) == ["read", "transform", "batch"]
    wanted = batches(table().transform(a=[*FLIPS, ps.image.CenterCrop(4)]).batch(8))
    for found, other in zip(batches(plan), wanted, strict=True):
        assert_same(found, {"a": other["a"]})


def test_a_second_chain_stays_one() -> None:
    """What a chain begins with has the axes that the first one made; joined, it would give others."""
    first = table().transform(a=[ps.image.CenterCrop(6), ps.image.ToLayout("NHWC")])
    plan = first.shuffle(seed=0).transform(a=[ps.image.CenterCrop(4)]).batch(8)
    assert runs(plan).count("transform") == 2
    assert batches(plan)[0]["a"].shape == (8, 3, 4, 4)


def test_a_function_between_is_not_looked_through() -> None:
    plan = table().transform(a=FLIPS).map(dict).transform(b=FLIPS, draws="apart").batch(8)
    assert runs(plan).count("transform") == 2
