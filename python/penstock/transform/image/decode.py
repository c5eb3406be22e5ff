"""Decoding of image files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.core.errors import PlanError
from penstock.core.given import is_one_of
from penstock.transform.image.op import Chain, ImageOp, check


@dataclass(frozen=True)
class Decode(ImageOp):
    """Decodes a JPEG, PNG, WebP, BMP or GIF (first frame) file to RGB pixels, like Pillow's `convert("RGB")`.

    apply_exif: rotate the image by its EXIF orientation, like `PIL.ImageOps.exif_transpose`.

    entry_points: "auto" uses the JPEG index of the data if there is one (`penstock index --jpeg` makes it). "build" makes it
    while the first epoch decodes. "off" uses none. The pixels are the same.

    fast: resize the planes of baseline JPEGs in YCbCr, chroma straight from its own resolution, and convert colours at the
    target's size. A part that shrinks by 2, 4 or 8 in both directions is decoded at that fraction of its size. This needs a
    first resize by "bilinear" or "bicubic"; everything else stays exact. The result is the same on every machine, but not the
    exact one. On natural photographs (4:4:4 to 4:2:0, quality 75 to 97) that shrink by less than 2, the mean difference is
    at most 0.5 levels of 255, and 99.9 % of the numbers differ by at most 8. If they shrink more, these are 1.5 and 20.

    allow_truncated: fill the missing part of a baseline JPEG that ends too early with grey, like Pillow's
    LOAD_TRUNCATED_IMAGES, instead of raising an error.
    """

    apply_exif: bool = False
    fast: bool = False
    allow_truncated: bool = False
    entry_points: Literal["auto", "build", "off"] = field(default="auto", metadata={"affects_result": False})

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, is_one_of(self.entry_points, ("auto", "build", "off")), "entry_points 'auto', 'build' or 'off'")

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError if that is not its beginning."""
        if chain.number > 0 or not chain.encoded:
            raise PlanError(f"Decode() as op {chain.number}; put it first, and only for bytes")
        return replace(chain, decode=(self.apply_exif, self.fast, self.allow_truncated))
