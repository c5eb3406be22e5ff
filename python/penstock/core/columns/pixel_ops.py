"""The end of a chain of image ops in numbers, for whoever does it: what becomes of each byte, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Layout = Literal["NCHW", "NHWC"]

#: Bits of a row's flag: the image is mirrored left to right, top to bottom; from `FIRST_TABLE` on, a bit for each table that it goes through, the lowest first.
HORIZONTAL, VERTICAL, FIRST_TABLE = 1, 2, 4
#: Tables at most, since a flag is a byte.
MOST_TABLES = 6


@dataclass(frozen=True, kw_only=True)
class PixelOps:
    """uint8 pixels to numbers: through tables, then byte × scale + bias by channel in float32, then parts erased; rounded to `dtype`, from one layout to another.

    tables: of 256 bytes each, for the rows whose flags say so. erased: for each erasing, in order, what a part of the image becomes, three numbers; which part each row's patches say
    (top, left, height, width). dtype: "float16", "bfloat16" or "float32". scale, bias: three each; images of one channel use the first.
    """

    dtype: str
    scale: tuple[float, ...]
    bias: tuple[float, ...]
    layout_from: Layout
    layout_to: Layout
    tables: tuple[bytes, ...] = ()
    erased: tuple[tuple[float, ...], ...] = ()

    def shape(self, pixels: Sequence[Any]) -> tuple[Any, ...]:
        """The axes of an image, of the axes of its bytes."""
        height, width, channels = pixels if self.layout_from == "NHWC" else (*pixels[1:], pixels[0])
        return (height, width, channels) if self.layout_to == "NHWC" else (channels, height, width)
