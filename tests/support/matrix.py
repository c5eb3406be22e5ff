"""Matrices of cases, of which `make test` runs a part and `make test-long` all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def crossed(*axes: Sequence[Any]) -> list[Any]:
    """All combinations of what the axes hold, for pytest's parametrize; but for as many as hold every value of each axis, they are `long`."""
    near = {tuple(number % len(axis) for axis in axes) for number in range(max(map(len, axes)))}
    places = itertools.product(*(range(len(axis)) for axis in axes))
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(axes, one, strict=True)), marks=() if one in near else pytest.mark.long
        )
        for one in places
    ]
