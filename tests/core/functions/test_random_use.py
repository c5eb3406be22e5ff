"""Which functions are read to draw from global generators."""

from __future__ import annotations

import functools
import random
from random import choice
from typing import Any

import numpy as np
import numpy.random as npr
import pytest
import torch
from numpy.random import rand

from penstock.core.functions.random_use import mentions_generators

SIZES = (64, 96)


def helper() -> float:
    return random.random()


def recursive(row: dict[str, Any]) -> Any:
    return recursive(row) if row else helper()


class Augment:
    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["x"] + torch.randn(1).item()}

    def method(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["x"] + np.random.normal()}

    def quiet(self, row: dict[str, Any]) -> dict[str, Any]:
        return row


def imports_inside(row: dict[str, Any]) -> dict[str, Any]:
    import random as dice

    return {"x": dice.random()}


def takes(row: dict[str, Any], add: Any = 0) -> dict[str, Any]:
    return {"x": add(), **row}


def encloses() -> Any:
    draw = helper
    return lambda row: {"x": draw()}


@pytest.mark.parametrize(
    "function",
    [
        helper,
        recursive,
        Augment(),
        Augment().method,
        imports_inside,
        encloses(),
        random.random,
        np.random.rand,
        lambda row: choice(SIZES),
        lambda row: rand(),
        lambda row: npr.rand(),
        lambda row: np.random.rand(),
        lambda row: [np.random.permutation(3) for _ in row],
        lambda row: torch.empty(3).uniform_(),
        lambda row: torch.nn.functional.dropout(row["x"]),
        functools.partial(takes, add=random.random),
        functools.partial(functools.partial(takes), add=helper),
    ],
)
def test_drawing_is_read_from_code(function: Any) -> None:
    assert mentions_generators(function)


@pytest.mark.parametrize(
    "function",
    [
        Augment().quiet,
        lambda row: row,
        lambda row, rng: {"x": rng.random()},
        lambda row: {"x": np.random.default_rng(row["x"]).random()},
        lambda row: torch.as_tensor(row["x"]),
        lambda row: {"x": np.sqrt(row["x"]), "random": row["x"]},
        len,
        dict,
        functools.partial(takes, add=int),
        None,
    ],
)
def test_what_does_not_draw(function: Any) -> None:
    assert not mentions_generators(function)
