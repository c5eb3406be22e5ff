"""Crops, resizes and flips. Names, defaults and the order of arguments are torchvision v2's; sizes are (height, width)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.core.columns.pixel_ops import HORIZONTAL, VERTICAL
from penstock.transform.image.op import (
    LARGEST_SIDE,
    Pair,
    PixelOp,
    Span,
    both_sides,
    check,
    check_interpolation,
    check_probability,
    checked_range,
    set_fields,
)

Interpolation: TypeAlias = Literal["nearest", "nearest-exact", "bilinear", "bicubic"]


@dataclass(frozen=True)
class RandomResizedCrop(PixelOp):
    """A random part of the image, resized: up to ten draws, then the centre.

    Args:
        size: of the result: pixels of both sides, or (height, width).
        scale: range of the part's share of the area. Default: (0.08, 1.0).
        ratio: range of its width / height, uniform in the logarithm. Default: (3/4, 4/3).
        interpolation: as in `Resize`. Default: "bilinear".
        antialias: as in `Resize`. Default: True.

    Raises:
        PlanError: for a size or range that is none.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(64, scale=(0.2, 1))])
    """

    is_random = draws_by_size = moves_pixels = True
    drawn_by = ("scale", "ratio")

    size: int | Pair
    scale: Span = (0.08, 1.0)
    ratio: Span = (3 / 4, 4 / 3)
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    def settle(self) -> None:
        """See `ImageOp`."""
        set_fields(self, size=both_sides(self, self.size))
        set_fields(self, scale=checked_range(self, self.scale), ratio=checked_range(self, self.ratio))
        check(self, self.scale[0] > 0 and self.ratio[0] > 0, "scale and ratio above 0")
        check_interpolation(self, self.interpolation)

    @property
    def fixes_size(self) -> bool:
        """Whether all results have one size."""
        return True


@dataclass(frozen=True)
class Resize(PixelOp):
    """The whole image, resized.

    With antialias, the result is within 1 level of 255 of Pillow's two passes, columns first (bilinear: one value in many thousands within 2). Since version 13,
    Pillow starts with the rows if they become far fewer; its bicubic may then differ by several levels at hard edges in tall images.

    Args:
        size: pixels of the shorter side, or both sides as (height, width).
        interpolation: "bilinear", the default, "bicubic", "nearest" or "nearest-exact". "nearest" takes every pixel as it is, which masks need: the one
            at the centre, as Pillow and torchvision's NEAREST_EXACT do. "nearest-exact" finds the centre with PyTorch's arithmetic, so that its pixels
            are those of torchvision's on tensors. torchvision's NEAREST of tensors takes the pixel above and to the left of the centre, which shifts a
            mask against its image; it is not offered.
        max_size: most pixels of the longer side, if size is one number. Default: no bound.
        antialias: False takes the nearest four or sixteen pixels alone, however much the image shrinks. Default: True.

    Raises:
        PlanError: for a size that is none, or an interpolation that there is not.

    Example:
        photos = ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((48, 64))])
        photos.head(2)["image"].shape == (2, 3, 48, 64)
    """

    size: int | Pair
    interpolation: Interpolation = "bilinear"
    max_size: int | None = None
    antialias: bool = True

    def settle(self) -> None:
        """See `ImageOp`."""
        size = self.size[0] if isinstance(self.size, Sequence) and len(self.size) == 1 else self.size
        both = both_sides(self, size)
        set_fields(self, size=both if isinstance(size, Sequence) else both[0])
        if self.max_size is not None:
            check(
                self,
                not isinstance(size, Sequence) and size < self.max_size <= LARGEST_SIDE,
                "max_size above size, which is one number",
            )
        check_interpolation(self, self.interpolation)

    @property
    def fixes_size(self) -> bool:
        """Whether all results have one size."""
        return not isinstance(self.size, int)


@dataclass(frozen=True)
class CenterCrop(PixelOp):
    """The centre of the image; a smaller image is padded with zeros.

    Args:
        size: of the result: pixels of both sides, or (height, width).

    Raises:
        PlanError: for a size that is none.

    Example:
        photos = ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize(72), ps.image.CenterCrop(64)])
        photos.head(2)["image"].shape == (2, 3, 64, 64)
    """

    size: int | Pair

    def settle(self) -> None:
        """See `ImageOp`."""
        set_fields(self, size=both_sides(self, self.size))

    @property
    def fixes_size(self) -> bool:
        """Whether all results have one size."""
        return True


@dataclass(frozen=True)
class RandomHorizontalFlip(PixelOp):
    """The image mirrored left to right, with a probability.

    Args:
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for what is no probability.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomHorizontalFlip()])
    """

    is_random = moves_pixels = True
    device_flag = HORIZONTAL
    drawn_by = ("p",)

    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        check_probability(self, self.p)


@dataclass(frozen=True)
class RandomVerticalFlip(PixelOp):
    """The image mirrored top to bottom, with a probability.

    Args:
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for what is no probability.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomVerticalFlip(p=0.1)])
    """

    is_random = moves_pixels = True
    device_flag = VERTICAL
    drawn_by = ("p",)

    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        check_probability(self, self.p)
