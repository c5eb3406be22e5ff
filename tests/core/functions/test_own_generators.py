"""Generators of a process of its own: each call is watched, and draws the numbers of its key."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from penstock.core.functions.own_generators import OwnGenerators


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    states = random.getstate(), np.random.get_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    OwnGenerators._shown = None


def call(calls: OwnGenerators, draw: Callable[[], Any], key: int) -> Any:
    return calls.run(draw, lambda seed: (seed(key), draw())[1], rows=1)


@pytest.mark.parametrize("draw", [random.random, np.random.rand, np.random.randn, lambda: random.gauss(0, 1)])
def test_a_function_that_draws_late_draws_by_its_key(draw: Callable[[], float]) -> None:
    np.random.randn()  # NumPy now holds a second normal number, which is taken without a change of its state
    random.gauss(0, 1)
    calls = OwnGenerators(len)  # whose code says nothing
    assert [call(calls, lambda: 0.0, key) for key in range(5)] == [0.0] * 5
    late = [call(calls, draw, key) for key in (5, 6, 5)]
    assert late[0] == late[2] != late[1]
    assert call(OwnGenerators(len), draw, 5) == late[0]


def test_functions_side_by_side_do_not_blame_each_other() -> None:
    made = list[int]()
    quiet, drawing = OwnGenerators(len), OwnGenerators(len)
    for key in range(4):
        call(quiet, lambda: made.append(1), key)
        call(drawing, random.random, key)
    assert len(made) == 4


def test_another_bit_generator_of_numpy() -> None:
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(1))
        calls = OwnGenerators(len)
        assert call(calls, lambda: 0.0, 1) == 0.0
        assert call(calls, np.random.rand, 1) == call(calls, np.random.rand, 1)
    finally:
        np.random.set_bit_generator(before)
