"""Margins, and crops that may reach into them. Names, defaults and the order of arguments are torchvision v2's; sizes are (height, width)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from penstock.core.arguments import is_one_of
from penstock.core.errors import PlanError
from penstock.transform.image.op import (
    LARGEST_SIDE,
    Chain,
    Pair,
    PixelOp,
    Span,
    both_sides,
    check,
    check_probability,
    checked_range,
    set_fields,
)

PaddingMode: TypeAlias = Literal["constant", "edge", "reflect", "symmetric"]

#: A number for all channels, or one for each.
Fill: TypeAlias = float | Sequence[float]


def settled_fill(op: object, fill: Fill | None) -> Fill | None:
    """The number, or the numbers; PlanError for what is neither."""
    if fill is None:
        return None
    is_number = isinstance(fill, (int, float, np.integer, np.floating)) and not isinstance(fill, bool)
    are_numbers = isinstance(fill, (list, tuple)) and len(fill) > 0
    check(op, is_number or are_numbers, "fill as a number, or one for each channel")
    numbers = tuple(float(one) for one in fill) if isinstance(fill, Sequence) else (float(fill),)
    return numbers[0] if len(numbers) == 1 else numbers


class FilledOp(PixelOp):
    """An op that may leave places without pixels, and fills them."""

    fill: Fill | None

    def settle(self) -> None:
        """See `ImageOp`."""
        set_fields(self, fill=settled_fill(self, 0 if self.fill is None else self.fill))

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError as for every op on pixels, and for a fill of other channels, or of numbers that pixels cannot be."""
        numbers = self.fill if isinstance(self.fill, Sequence) else () if self.fill is None else (self.fill,)
        if len(numbers) > 1 and len(numbers) != chain.channels:
            raise PlanError(
                f'{self}: fills {len(numbers)} channels, and the images are of mode "{chain.mode}"; give {chain.channels} numbers, or one'
            )
        largest = np.iinfo(chain.numbers.source).max
        if not all(0 <= number <= largest for number in numbers):
            raise PlanError(f"{self}: pixels are numbers from 0 to {largest:,}; give such a fill")
        return super().extend(chain)


def _settle_margin(op: Pad | RandomCrop) -> None:
    modes = ("constant", "edge", "reflect", "symmetric")
    check(op, is_one_of(op.padding_mode, modes), f"padding_mode as one of {', '.join(modes)}")
    check(
        op,
        op.padding_mode == "constant" or not isinstance(op.fill, Sequence),
        'fill for each channel with padding_mode="constant"',
    )


def _four_sides(op: object, padding: int | Sequence[int]) -> tuple[int, ...]:
    """(left, top, right, bottom) of one number, of (left and right, top and bottom), or of four."""
    sides = tuple(padding[:5]) if isinstance(padding, Sequence) else (padding,)
    are_whole = all(isinstance(side, (int, np.integer)) and not isinstance(side, bool) for side in sides)
    is_padding = len(sides) in (1, 2, 4) and are_whole and all(abs(side) <= LARGEST_SIDE for side in sides)
    check(op, is_padding, "padding as one, two or four whole numbers of pixels")
    return tuple(int(side) for side in sides) * (4 // len(sides))


@dataclass(frozen=True)
class Pad(FilledOp):
    """The image with a margin around: exactly torchvision v2's. A margin wider than the image mirrors it again and again, where torchvision gives up.

    Args:
        padding: pixels on every side, (left and right, top and bottom), or (left, top, right, bottom). Negative ones take pixels away.
        fill: what stands in a constant margin, for all channels or each. Default: 0.
        padding_mode: "constant", the default; "edge", the last pixel again and again; "reflect", mirrored at the last pixel; "symmetric", mirrored behind it.

    Raises:
        PlanError: for what is no padding, and a fill of other channels than the images'.

    Example:
        I = ps.image
        photos = ps.read("photos").transform(image=[I.Decode(), I.Resize((56, 56)), I.Pad(4, padding_mode="reflect")])
        photos.head(2)["image"].shape == (2, 3, 64, 64)
    """

    padding: int | Sequence[int]
    fill: Fill | None = 0
    padding_mode: PaddingMode = "constant"

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        set_fields(self, padding=_four_sides(self, self.padding))
        _settle_margin(self)


@dataclass(frozen=True)
class RandomCrop(FilledOp):
    """A random part of the image, with a margin around it first: exactly torchvision v2's for the same place.

    Args:
        size: of the part: pixels of both sides, or (height, width).
        padding: of the margin, as in `Pad`. Default: none.
        pad_if_needed: whether a side that is too short gets a margin, on both ends as wide as what it lacks. Otherwise such an image is an error. Default: False.
        fill: as in `Pad`. Default: 0.
        padding_mode: as in `Pad`. Default: "constant".

    Raises:
        PlanError: for a size or padding that is none.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.RandomCrop(64, padding=4)])
    """

    is_random = draws_by_size = moves_pixels = True
    drawn_by = ("size", "padding", "pad_if_needed")

    size: int | Pair
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: Fill | None = 0
    padding_mode: PaddingMode = "constant"

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        set_fields(self, size=both_sides(self, self.size))
        if self.padding is not None:
            set_fields(self, padding=_four_sides(self, self.padding))
        _settle_margin(self)

    @property
    def fixes_size(self) -> bool:
        """Whether all results have one size."""
        return True


@dataclass(frozen=True)
class RandomZoomOut(FilledOp):
    """The image somewhere in a larger one, with a probability: torchvision v2's, of SSD. An op that fixes the size follows.

    Args:
        fill: what stands around, for all channels or each. Default: 0.
        side_range: range of times as long as the sides become. Default: (1, 4).
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for a range that begins below 1, or no probability.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.RandomZoomOut(fill=(123, 117, 104)), I.Resize((64, 64))])
    """

    is_random = draws_by_size = moves_pixels = True
    drawn_by = ("side_range", "p")

    fill: Fill | None = 0
    side_range: Span = (1.0, 4.0)
    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        check_probability(self, self.p)
        set_fields(self, side_range=checked_range(self, self.side_range))
        check(self, self.side_range[0] >= 1, "side_range from 1 on")
