"""What is asked of a file that can become more than one kind of pixels, and the error of one that becomes none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: Which values become black and white: the file's own, all that its bits can state, or a centre and a width. See `Decode`.
Window: TypeAlias = tuple[float, float] | Literal["file", "full"] | None


@dataclass(frozen=True)
class WantedPixels:
    """is_wide: grey of 16 bits, where the file has more than 8. window: see `Decode`."""

    is_wide: bool = False
    window: Window = None


class UnreadFileError(ValueError):
    """A file that its library does not decode: what was found, and what to do about it."""

    def __init__(self, found: str, do: str) -> None:
        super().__init__(f"{found}; {do}")
        self.found, self.do = found, do
