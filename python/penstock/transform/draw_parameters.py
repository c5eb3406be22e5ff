"""Parameters of random numbers, as users give them: numbers or arrays, checked."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

_WORD = (1 << 64) - 1


def floats(method: str, **given: Any) -> list[npt.NDArray[np.float64]]:
    """Each as floats; PlanError for what is none."""
    made = []
    for name, value in given.items():
        try:
            made.append(np.asarray(value, dtype=np.float64))
        except (TypeError, ValueError):
            raise PlanError(f"rng.{method}: {name}={quoted(value)}; pass a number, or an array of numbers") from None
    return made


def integers(name: str, value: Any) -> npt.NDArray[Any]:
    """Python's integers, of any size; PlanError for what is none."""
    made = np.asarray(value)
    if made.dtype.kind == "f" and (made == np.floor(made)).all():
        made = made.astype(np.int64)
    if made.dtype.kind not in "iubO" or not all(isinstance(one, (int, np.integer)) for one in made.ravel().tolist()):
        raise PlanError(f"rng.integers: {name}={quoted(value)}; pass an integer, or an array of integers")
    return made.astype(object)


def words(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Integers modulo 2⁶⁴."""
    flat = [one & _WORD for one in values.ravel().tolist()]
    return np.array(flat, dtype=np.uint64).reshape(values.shape)


def chances(given: Any, entries: int) -> npt.NDArray[np.float64]:
    """Probabilities of entries; PlanError unless there is one each, and all come to 1."""
    (made,) = floats("choice", p=given)
    if made.shape != (entries,) or not (made >= 0).all() or abs(made.sum() - 1) > 1e-8 * max(1, entries):
        raise PlanError(
            f"rng.choice: p={quoted(given)}; pass {entries:,} probabilities, 0 or more each, that come to 1 (p / p.sum())"
        )
    return made


def check(method: str, name: str, value: npt.NDArray[Any], is_right: Any, wanted: str) -> None:
    """PlanError unless a parameter is right everywhere."""
    wrong = ~np.asarray(is_right, dtype=bool)
    if wrong.any():
        raise PlanError(f"rng.{method}: {name} is {value[wrong].ravel()[0]}; it must be {wanted}")


def axes(size: int | Sequence[int]) -> tuple[int, ...]:
    """A size as a shape; TypeError or ValueError for what is none."""
    made = tuple(map(operator.index, size)) if isinstance(size, (Sequence, np.ndarray)) else (operator.index(size),)
    if any(length < 0 for length in made):
        raise ValueError(size)
    return made


def spread(values: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Along one axis: the one for all numbers of a shape, or one for each."""
    if values.size == 1:
        return values.reshape(1)
    return np.ascontiguousarray(np.broadcast_to(values, shape)).reshape(-1)


def scaled(made: npt.NDArray[Any], begin: npt.NDArray[np.float64], width: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """The same numbers, times a width and from a beginning on, in place."""
    if width.ndim or width != 1:
        np.multiply(made, width, out=made, casting="same_kind")
    if begin.ndim or begin:
        np.add(made, begin, out=made, casting="same_kind")
    return made
