"""The end of a chain of image ops in numbers, for whoever does it: what becomes of each byte, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layout = Literal["NCHW", "NHWC"]

#: Bits of a row's flag: the image is mirrored left to right, top to bottom.
HORIZONTAL, VERTICAL = 1, 2


@dataclass(frozen=True, kw_only=True)
class PixelOps:
    """uint8 pixels to numbers: byte × scale + bias by channel in float32, rounded to `dtype`, from one layout to another.

    dtype: "float16", "bfloat16" or "float32". scale, bias: three each; images of one channel use the first.
    """

    dtype: str
    scale: tuple[float, ...]
    bias: tuple[float, ...]
    layout_from: Layout
    layout_to: Layout
