"""What one op of a chain did to one row, to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

#: Pixels of the longer side that are kept to look at, and the most that are looked at.
_LONGEST, MOST_PIXELS = 320, 1 << 26


@dataclass(frozen=True, kw_only=True)
class OpStep:
    """A row behind an op.

    op: its place and class, "1 RandomResizedCrop", and what it was given. size: (height, width). dtype: of its numbers. pixels: (height, width, channels), thinned; None for what
    cannot be shown, and `note` says why. drawn: what the op, and those inside of it, drew for the row. columns: what goes along with it there.
    """

    op: str
    given: str
    size: tuple[int, int] | None = None
    dtype: str = ""
    pixels: npt.NDArray[Any] | None = None
    note: str = ""
    drawn: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)


def thinned(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Every n-th pixel both ways, so that what is kept stays small."""
    every = max(1, -(-max(pixels.shape[:2]) // _LONGEST))
    return pixels[::every, ::every]
