"""A length for each row: what it costs in a batch of so many tokens."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: More than rows of any dataset that is held in this way.
_MOST_NUMBERS = 1 << 36


@dataclass(frozen=True, eq=False)
class Lengths:
    """Whole numbers from 0 on, by row, in as few bytes as can be. digest: of all of them."""

    numbers: npt.NDArray[np.unsignedinteger] = field(metadata={"affects_result": False})
    digest: str

    def __str__(self) -> str:
        return f"#{self.digest}"

    @classmethod
    def of(cls, verb: str, by: Any) -> Lengths:
        """What a user gave, an array or a list; PlanError if it holds no length for each row."""
        numbers = _whole_numbers(verb, by)
        if len(wrong := np.flatnonzero(numbers < 0)):
            raise PlanError(
                f"{verb}: row {wrong[0]:,} has the length {numbers[wrong[0]]:,} ({len(wrong):,} such rows of {len(numbers):,}); a length is 0 or more"
            )
        if not len(numbers):
            raise PlanError(f"{verb}: there are no rows")
        held = numbers.astype(np.min_scalar_type(int(numbers.max())))
        return cls(held, hashlib.blake2b(held.tobytes(), digest_size=8).hexdigest())

    @property
    def longest(self) -> int:
        """The greatest."""
        return int(self.numbers.max())


def _whole_numbers(verb: str, by: Any) -> Any:
    try:
        numbers = np.asarray(by)
    except (ValueError, MemoryError):  # lists of several lengths
        numbers = np.empty(())
    if isinstance(by, str) or numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        raise PlanError(
            f"{verb}: by={quoted(by if isinstance(by, str) else type(by).__name__)} is no length for each row; pass an array of whole numbers, or the name of a column"
        )
    if len(numbers) > _MOST_NUMBERS:
        raise PlanError(f"{verb}: by= has {len(numbers):,} lengths; give one for each row")
    if numbers.dtype.kind == "f" and len(wrong := np.flatnonzero(numbers != np.floor(np.nan_to_num(numbers, nan=0.5)))):
        raise PlanError(
            f"{verb}: row {wrong[0]:,} has the length {numbers[wrong[0]]}; lengths are whole numbers, so count in smaller units (milliseconds, frames)"
        )
    if len(wrong := np.flatnonzero(np.abs(numbers.astype(np.float64)) >= 2.0**53)):
        raise PlanError(f"{verb}: row {wrong[0]:,} has the length {numbers[wrong[0]]}; give every row its own length")
    return numbers
