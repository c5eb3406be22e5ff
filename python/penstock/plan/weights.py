"""Weights of a mix: what they may be, the whole numbers that stand for them, and how they change from step to step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from penstock.core.arguments import is_whole
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Weights become whole numbers with at most this sum.
_LARGEST_QUOTAS = 1 << 20
#: Where they do not, no weight is so much off by rounding.
_WORST_WEIGHT = Fraction(1, 100)

Weights: TypeAlias = tuple[float, ...]
#: Weights, and the step from which on each holds, counted over epochs: ascending.
Changes: TypeAlias = tuple[tuple[int, Weights], ...]


def read_weights(given: Any, datasets: int) -> tuple[Weights, Changes]:
    """What a user gave as weights: those from step 0 on, and those that follow; PlanError where steps are not from 0 on and ascending.

    read_weights({0: [9, 1], 1000: [1, 1]}, 2) == ((9, 1), ((1000, (1, 1)),))
    """
    if given is None:
        return (1,) * datasets, ()
    if isinstance(given, Mapping):
        pairs = [*given.items()]
    elif isinstance(given, (list, tuple)) and any(isinstance(one, (tuple, list)) for one in given):
        pairs = [*given]
    elif isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        return plain(given), ()
    else:
        raise PlanError(f"mix: weights={quoted(given)}; give a list with a weight for each dataset")
    schedule = tuple((step, plain(some)) for step, some in map(_pair, pairs))
    if not schedule or schedule[0][0] != 0:
        begin = f"from step {schedule[0][0]} on" if schedule else "for no step"
        raise PlanError(f"mix: weights are given {begin}; give those from step 0 on first")
    check_steps("mix", schedule)
    return schedule[0][1], schedule[1:]


def _pair(entry: Any) -> tuple[Any, Any]:
    if isinstance(entry, (tuple, list)) and len(entry) == 2 and isinstance(entry[1], Sequence | np.ndarray):
        return entry[0], entry[1]
    raise PlanError(
        f"mix: {quoted(entry)} among weights that change; give a step and all weights from it on: weights={{0: [9, 1], 1000: [1, 1]}}"
    )


def plain(weights: Any) -> Weights:
    """Weights as a tuple of Python's numbers."""
    return tuple(one.item() if isinstance(one, np.generic) else one for one in weights)


def check_steps(where: str, changes: Sequence[tuple[Any, Weights]]) -> None:
    """PlanError unless steps are whole numbers from 0 on and ascend."""
    last = -1
    for step, _ in changes:
        if not is_whole(step) or not 0 <= step < 2**63:
            raise PlanError(f"{where}: weights from step {quoted(step)} on; steps are counted from 0, in whole numbers")
        if step <= last:
            raise PlanError(
                f"{where}: weights from step {step} on follow those from step {last} on; give ascending steps"
            )
        last = int(step)


def check_weights(where: str, weights: Weights, datasets: int) -> None:
    """PlanError unless there is one weight above 0 for each dataset, and none is next to nothing."""
    if len(weights) != datasets:
        raise PlanError(f"{where}: {len(weights)} weights for {datasets} datasets; give one each")
    for number, weight in enumerate(weights):
        if not _is_weight(weight):
            raise PlanError(
                f"{where}: weights[{number}]={quoted(weight)}; a weight is a number above 0, so leave a dataset out instead"
            )
    if datasets:
        quotas_of(weights, where)


@lru_cache(maxsize=256)
def quotas_of(weights: Weights, where: str = "mix") -> tuple[int, ...]:
    """Weights as whole numbers, exact where these are fractions with a common denominator up to 2 ** 20."""
    exact = [_fraction(float(weight)) for weight in weights]
    scale = lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    whole = [quota // gcd(*whole) for quota in whole]
    if sum(whole) <= _LARGEST_QUOTAS:
        return tuple(whole)
    total = sum(whole)
    nearest = [max(1, round(Fraction(quota * (_LARGEST_QUOTAS - len(whole)), total))) for quota in whole]
    for number, (quota, rounded) in enumerate(zip(whole, nearest, strict=True)):
        if abs(Fraction(rounded * total, quota * sum(nearest)) - 1) > _WORST_WEIGHT:
            raise PlanError(
                f"{where}: weights[{number}]={quoted(weights[number])} is less than a twenty-thousandth of all weights together; leave that "
                f"dataset out, or give it more"
            )
    return tuple(quota // gcd(*nearest) for quota in nearest)


def _fraction(weight: float) -> Fraction:
    """What a weight stands for: 1/3 for 0.3333333333333333, 7/10 for 0.7."""
    near = Fraction(weight).limit_denominator(_LARGEST_QUOTAS)
    return near if math.isclose(near, weight, rel_tol=1e-12) else Fraction(str(weight))


def _is_weight(value: Any) -> bool:
    try:
        return isinstance(value, Real) and 0 < float(value) < math.inf
    except OverflowError:  # more digits than a float has room for
        return False
