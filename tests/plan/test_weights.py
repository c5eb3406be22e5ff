"""Weights of a mix as they are given: plain, or with the steps from which on they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.plan.nodes import Mix
from penstock.plan.weights import read_weights


def two(weights: Any, **options: Any) -> ps.Dataset:
    return ps.mix([ps.from_arrays({"x": np.arange(first, first + 9)}) for first in (0, 9)], weights=weights, **options)


@pytest.mark.parametrize(
    "given",
    [
        {0: [9, 1], 1000: [1, 1]},
        [(0, [9, 1]), (1000, [1, 1])],
        ((0, (9, 1)), [1000, np.array([1, 1])]),
        {0: np.array([9, 1]), np.int64(1000): (1, 1)},
    ],
)
def test_a_schedule_is_read(given: Any) -> None:
    assert read_weights(given, 2) == ((9, 1), ((1000, (1, 1)),))


def test_plain_weights_are_no_schedule() -> None:
    assert read_weights(None, 3) == ((1, 1, 1), ())
    assert read_weights(np.array([0.5, 1.5]), 2) == ((0.5, 1.5), ())
    assert read_weights({0: [1, 2]}, 2) == ((1, 2), ())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: two({1000: [1, 1]}, rows=8), r"mix: weights are given from step 1000 on; give those from step 0 on first"),
        (lambda: two({}, rows=8), r"mix: weights are given for no step; give those from step 0"),
        (lambda: two([(0, [1, 1]), (9, [1, 2]), (5, [1, 3])], rows=8), r"mix: weights from step 5 on follow those from step 9 on; give ascending"),
        (lambda: two([(0, [1, 1]), (0, [1, 2])], rows=8), r"mix: weights from step 0 on follow those from step 0 on"),
        (lambda: two({0: [1, 1], 1.5: [1, 2]}, rows=8), r"mix: weights from step 1.5 on; steps are counted from 0, in whole numbers"),
        (lambda: two([(0, [1, 1]), (-3, [1, 2])], rows=8), r"mix: weights from step -3 on; steps"),
        (lambda: two({0: [1, 1], 5: [1, 2, 3]}, rows=8), r"mix: from step 5 on: 3 weights for 2 datasets; give one each"),
        (lambda: two({0: [1, 1], 5: [1, -1]}, rows=8), r"mix: from step 5 on: weights\[1\]=-1; a weight is a number above 0"),
        (lambda: two({0: [1, 1], 5: [1, 0]}, rows=8), r"mix: from step 5 on: weights\[1\]=0"),
        (lambda: two({0: [1, 1], 5: 3}, rows=8), r"mix: \(5, 3\) among weights that change; give a step and all weights"),
        (lambda: two({0: [1, 1], 5: [1e-9, 1]}, rows=8), r"mix: from step 5 on: weights\[0\]=1e-09 is less than a twenty-thousandth"),
        (lambda: two({0: [1, 1], 5: [1, 2]}), r"mix: weights that change need epochs of so many rows.*write mix\(…, rows=…\)"),
        (lambda: two({0: [1, 1], 5: [1, 2]}, stop="all_exhausted"), r"mix: weights that change need epochs of so many rows"),
        (lambda: two({0: [1, 1], 5: [1, 2]}, rows=8).take(4), r"take: comes after a mix whose weights change by step"),
        (lambda: ps.mix([two({0: [1, 1], 5: [1, 2]}, rows=8)], rows=8), r"mix: comes after a mix whose weights change"),
        (lambda: two({0: [1, 1], 5: [1, 2]}, rows=8).shard([8, 9]), r"shard: where weights of a mix change by step, shard\(…\) must give all nodes equally many"),
    ],
)  # fmt: skip
def test_what_is_no_schedule(make: Callable[[], ps.Dataset], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()


def test_digests_of_older_states_stay() -> None:
    """A mix of many datasets is a digest in a state; fields that came later are no part of it where they are not given."""
    many = ps.mix([ps.from_arrays({"x": np.arange(9)}) for _ in range(30)]).root
    assert isinstance(many, Mix)
    with ps.Loader(ps.Dataset(many).batch(4, lanes=2), rank=0, world_size=1) as loader:
        assert "mix 01cf01da" in loader.state_dict()["plan"]


def test_columns_are_selected_behind_a_mix_whose_weights_change() -> None:
    def batches(data: ps.Dataset) -> list[list[int]]:
        with ps.Loader(data.batch(4)) as loader:
            return [batch["x"].tolist() for batch in loader]

    halves = [ps.from_arrays({"x": 100 * part + np.arange(40), "y": np.arange(40)}) for part in range(2)]
    mixed = ps.mix(halves, weights={0: [1, 1], 3: [9, 1]}, rows=40)
    assert batches(mixed.select("x")) == batches(mixed)
