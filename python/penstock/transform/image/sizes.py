"""Random sizes, as in torchvision v2, and frames that keep the ratio. An op that fixes the size follows the random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.transform.image.geometry import Interpolation
from penstock.transform.image.margins import Fill, FilledOp
from penstock.transform.image.op import (
    LARGEST_SIDE,
    Pair,
    PixelOp,
    Span,
    both_sides,
    check,
    check_interpolation,
    checked_range,
    set_fields,
)


@dataclass(frozen=True)
class RandomResize(PixelOp):
    """The image, resized to a random length of its shorter side.

    Args:
        min_size: the shortest length.
        max_size: the first that is too long.
        interpolation: as in `Resize`. Default: "bilinear".
        antialias: as in `Resize`. Default: True.

    Raises:
        PlanError: for a max_size that is not above min_size.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.RandomResize(64, 97), I.RandomCrop(64)])
    """

    is_random = moves_pixels = True
    drawn_by = ("min_size", "max_size")

    min_size: int
    max_size: int
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    def settle(self) -> None:
        """See `ImageOp`."""
        both_sides(self, (self.min_size, self.max_size))
        check(self, self.min_size < self.max_size, "max_size above min_size")
        check_interpolation(self, self.interpolation)


@dataclass(frozen=True)
class RandomShortestSize(PixelOp):
    """The image, resized so that its shorter side has one of some lengths, at random.

    Args:
        min_size: the length, or several.
        max_size: most pixels of the longer side. Default: no bound.
        interpolation: as in `Resize`. Default: "bilinear".
        antialias: as in `Resize`. Default: True.

    Raises:
        PlanError: for a size that is none.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.RandomShortestSize([64, 72, 80], max_size=133), I.RandomCrop(64, pad_if_needed=True)])
    """

    is_random = moves_pixels = True
    drawn_by = ("min_size", "max_size")

    min_size: int | Sequence[int]
    max_size: int | None = None
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    def settle(self) -> None:
        """See `ImageOp`."""
        sizes = tuple(self.min_size) if isinstance(self.min_size, Sequence) else (self.min_size,)
        check(self, len(sizes) > 0, "at least one min_size")
        set_fields(self, min_size=tuple(both_sides(self, size)[0] for size in sizes))
        if self.max_size is not None:
            set_fields(self, max_size=both_sides(self, self.max_size)[0])
        check_interpolation(self, self.interpolation)


@dataclass(frozen=True)
class ScaleJitter(PixelOp):
    """The image, resized to a random share of the largest size that fits into a frame.

    As in torchvision, a frame's first number is held against the width, and its second against the height.

    Args:
        target_size: the frame.
        scale_range: range of the share. Default: (0.1, 2.0).
        interpolation: as in `Resize`. Default: "bilinear".
        antialias: as in `Resize`. Default: True.

    Raises:
        PlanError: for a frame or range that is none.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.ScaleJitter((64, 64)), I.RandomCrop(64, pad_if_needed=True)])
    """

    is_random = moves_pixels = True
    drawn_by = ("scale_range",)

    target_size: Pair
    scale_range: Span = (0.1, 2.0)
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    def settle(self) -> None:
        """See `ImageOp`."""
        set_fields(self, target_size=both_sides(self, self.target_size))
        set_fields(self, scale_range=checked_range(self, self.scale_range))
        check(self, self.scale_range[0] > 0 and self.scale_range[1] <= LARGEST_SIDE, "scale_range above 0")
        check_interpolation(self, self.interpolation)


@dataclass(frozen=True)
class Letterbox(FilledOp):
    """All of the image, as large as a frame holds it with its ratio, in the middle of the frame.

    Sides are rounded, and of an odd margin the larger part is on the right and below, as in YOLO's pipelines (which fill with 114).

    Args:
        size: of the frame: pixels of both sides, or (height, width).
        fill: what stands around, for all channels or each. Default: 0.
        interpolation: as in `Resize`. Default: "bilinear".
        antialias: as in `Resize`. Default: True.

    Raises:
        PlanError: for a size that is none, and a fill of other channels than the images'.

    Example:
        photos = ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Letterbox(64, fill=114)])
        photos.head(2)["image"].shape == (2, 3, 64, 64)
    """

    size: int | Pair
    fill: Fill | None = 0
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        set_fields(self, size=both_sides(self, self.size))
        check_interpolation(self, self.interpolation)

    @property
    def fixes_size(self) -> bool:
        """Whether all results have one size."""
        return True
