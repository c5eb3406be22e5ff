"""Rows in buckets by a number of each, its length say."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

_MOST = 1 << 10
#: More than rows of any dataset that is held in this way.
_MOST_NUMBERS = 1 << 36


@dataclass(frozen=True, eq=False)
class Buckets:
    """The bucket of each row, from 0 on; none is empty. boundaries: where one ends and the next begins. digest: of all that."""

    codes: npt.NDArray[np.uint16] = field(metadata={"affects_result": False})
    boundaries: tuple[float, ...]
    digest: str

    def __str__(self) -> str:
        return f"{len(self.boundaries) + 1}:{self.digest}"

    @classmethod
    def of(cls, by: Any, boundaries: Sequence[float] | None, quantiles: int | None) -> Buckets:
        """Buckets of rows by their numbers: by=[3, 9, 5], boundaries=[5] puts 3 into the first, and 9 and 5 into the second."""
        numbers = _numbers(by)
        edges = _edges(numbers, boundaries, quantiles)
        codes = np.searchsorted(edges, numbers, side="right")
        _, compact = np.unique(codes, return_inverse=True)
        held = compact.astype(np.uint16)
        return cls(held, tuple(edges.tolist()), hashlib.blake2b(held.tobytes(), digest_size=8).hexdigest())


def _numbers(by: Any) -> npt.NDArray[Any]:
    numbers = _array(by)
    if isinstance(by, str) or numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        raise PlanError(
            f"batch_bucketed: by={quoted(by if isinstance(by, str) else type(by).__name__)} is no number for each row; pass an array of them, the rows' lengths "
            f"for example"
        )
    if len(numbers) > _MOST_NUMBERS:
        raise PlanError(f"batch_bucketed: by= has {len(numbers):,} numbers; give one for each row")
    if wrong := np.flatnonzero(~np.isfinite(numbers))[:1].tolist():
        raise PlanError(f"batch_bucketed: by[{wrong[0]}] is {numbers[wrong[0]]}; give every row a number")
    return numbers


def _array(values: Any) -> npt.NDArray[Any]:
    """Values as an array, one of no dimension where they are none."""
    try:
        return np.asarray(values)
    except (ValueError, MemoryError):
        return np.empty(())


def _edges(numbers: npt.NDArray[Any], boundaries: Any, quantiles: Any) -> npt.NDArray[Any]:
    if (boundaries is None) == (quantiles is None):
        raise PlanError(
            "batch_bucketed: give either boundaries=[…], or quantiles= for as many buckets of equally many rows"
        )
    if boundaries is not None:
        edges = _array(boundaries)
        if (
            edges.ndim != 1
            or not 1 <= len(edges) < _MOST
            or edges.dtype.kind not in "iuf"
            or not (np.diff(edges) > 0).all()
        ):
            raise PlanError(
                f"batch_bucketed: boundaries={quoted(boundaries)}; pass up to {_MOST - 1:,} numbers that rise"
            )
        return edges
    if isinstance(quantiles, bool) or not isinstance(quantiles, Integral) or not 2 <= int(quantiles) <= _MOST:
        raise PlanError(
            f"batch_bucketed: quantiles={quoted(quantiles)}; it is a number of buckets, from 2 to {_MOST:,}"
        )
    places = np.arange(1, int(quantiles)) * len(numbers) // int(quantiles)
    return np.unique(np.sort(numbers)[places]) if len(numbers) else np.empty(0)
