"""Rotations and other warps. Names, defaults and the order of arguments are torchvision v2's, and so is the arithmetic: float32, on tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.core.arguments import is_one_of
from penstock.core.errors import PlanError
from penstock.transform.image.margins import Fill, FilledOp, settled_fill
from penstock.transform.image.op import Chain, Span, check, check_probability, checked_range, set_fields

WarpInterpolation: TypeAlias = Literal["nearest", "bilinear"]


class WarpOp(FilledOp):
    """An op that takes pixels from places between pixels: of palettes and 16 bits, the nearest ones alone."""

    is_random = moves_pixels = True

    interpolation: WarpInterpolation

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, is_one_of(self.interpolation, ("nearest", "bilinear")), 'interpolation "nearest" or "bilinear"')
        set_fields(self, fill=settled_fill(self, self.fill))

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError as for every op on pixels, for a fill of other channels, and for 16 bits that would be averaged."""
        if chain.mode == "I16" and self.interpolation != "nearest":
            raise PlanError(
                f'{self}: takes numbers of 16 bits as they are alone; say {type(self).__name__}(…, interpolation="nearest")'
            )
        return super().extend(chain)


def _numbers(op: object, value: object, wanted: str, *lengths: int) -> tuple[float, ...]:
    """Finite numbers, as many as one of the lengths; PlanError otherwise."""
    numbers = tuple(float(one) for one in value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    check(op, len(numbers) in lengths and all(map(math.isfinite, numbers)), wanted)
    return numbers


def _angles(op: object, value: float | Sequence[float], name: str, *lengths: int) -> tuple[float, ...]:
    """(low, high) of one number or two, or two such pairs."""
    wanted = f"{name} from 0 on, or (low, high)"
    angles = _numbers(op, value if isinstance(value, Sequence) else (-value, value), wanted, *lengths)
    check(op, all(low <= high for low, high in zip(angles[::2], angles[1::2], strict=True)), wanted)
    return angles


def _center(op: object, value: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if value is None else _numbers(op, value, "center=(x, y)", 2)


@dataclass(frozen=True)
class RandomRotation(WarpOp):
    """The image rotated by a random angle.

    Multiples of 90 degrees around the middle move every pixel as it is (90 and 270 of images that are square, or with expand). Against torchvision: of "nearest", 1 pixel in
    1,000 at most is its neighbour; of "bilinear", 1 in 1,000 is more than 1 level off.

    Args:
        degrees: most degrees to both sides, or a range (low, high); anticlockwise.
        interpolation: "nearest", the default, or "bilinear".
        expand: whether the result holds all of the image, and so has another size for each angle. Default: False.
        center: (x, y) of the pixel that stays. Default: the middle.
        fill: what stands outside, for all channels or each, as in `RandomAffine`. Default: 0.

    Raises:
        PlanError: for angles that are no range, and "bilinear" of palettes and of 16 bits.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.RandomRotation(15, "bilinear")])
    """

    drawn_by = ("degrees",)

    degrees: float | Span
    interpolation: WarpInterpolation = "nearest"
    expand: bool = False
    center: Sequence[float] | None = None
    fill: Fill | None = 0

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        set_fields(self, degrees=_angles(self, self.degrees, "degrees", 2), center=_center(self, self.center))


@dataclass(frozen=True)
class RandomAffine(WarpOp):
    """The image rotated, moved, scaled and sheared at random; its size stays. As close to torchvision as `RandomRotation`.

    Args:
        degrees: most degrees to both sides, or a range (low, high); clockwise.
        translate: how far it moves at most, as shares (of the width, of the height). Default: not at all.
        scale: range of times as large. Default: it stays as large.
        shear: most degrees along x to both sides, a range (low, high), or (low, high, low, high) along x and y. Default: none.
        interpolation: "nearest", the default, or "bilinear".
        fill: what stands outside, for all channels or each. "bilinear" blends it over what zeros have darkened at the edges already, as torchvision does; None leaves it at the
            zeros. Default: 0.
        center: (x, y) of the pixel that stays. Default: the middle.

    Raises:
        PlanError: for what is no range, and "bilinear" of palettes and of 16 bits.

    Example:
        I = ps.image
        moved = I.RandomAffine(10, translate=(0.1, 0.1), scale=(0.9, 1.1), interpolation="bilinear")
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), moved])
    """

    draws_by_size = True
    drawn_by = ("degrees", "translate", "scale", "shear")

    degrees: float | Span
    translate: Span | None = None
    scale: Span | None = None
    shear: float | Sequence[float] | None = None
    interpolation: WarpInterpolation = "nearest"
    fill: Fill | None = 0
    center: Sequence[float] | None = None

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        set_fields(self, degrees=_angles(self, self.degrees, "degrees", 2), center=_center(self, self.center))
        if self.translate is not None:
            shares = _numbers(self, self.translate, "translate=(of the width, of the height)", 2)
            check(self, all(0 <= share <= 1 for share in shares), "translate from 0 to 1")
            set_fields(self, translate=shares)
        if self.scale is not None:
            set_fields(self, scale=checked_range(self, self.scale))
            check(self, self.scale[0] > 0, "scale above 0")
        if self.shear is not None:
            set_fields(self, shear=_angles(self, self.shear, "shear", 2, 4))


@dataclass(frozen=True)
class RandomPerspective(WarpOp):
    """The image as seen from aside, with a probability: each corner moves inwards by a random number of pixels. Its size stays.

    1 pixel in 1,000 at most is more than 1 level off torchvision's ("nearest": is another one). Images of one row or column stay.

    Args:
        distortion_scale: how far the corners move at most, as a share of half a side. Default: 0.5.
        p: the probability. Default: 0.5.
        interpolation: "bilinear", the default, or "nearest".
        fill: what stands outside, as in `RandomAffine`. Default: 0.

    Raises:
        PlanError: for what is no share or probability, and "bilinear" of palettes and of 16 bits.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.RandomPerspective(0.3)])
    """

    draws_by_size = True
    drawn_by = ("distortion_scale", "p")

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: WarpInterpolation = "bilinear"
    fill: Fill | None = 0

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        check_probability(self, self.p)
        check(self, 0 <= self.distortion_scale <= 1, "distortion_scale from 0 to 1")


@dataclass(frozen=True)
class ElasticTransform(WarpOp):
    """The image as seen through water: every pixel comes from a random place nearby, which changes smoothly from pixel to pixel.

    Of the same displacements, the pixels are torchvision's as in `RandomPerspective`. It mirrors images smaller than the Gaussian as often as it takes, where torchvision gives up.

    Args:
        alpha: how far, or (along x, along y): in pixels, half of it at most. Default: 50.
        sigma: how smoothly, or (along x, along y): the standard deviation of a Gaussian in pixels, both above 0, or both 0 for plain noise. Default: 5.
        interpolation: "bilinear", the default, or "nearest".
        fill: what stands outside, as in `RandomAffine`. Default: 0.

    Raises:
        PlanError: for numbers that are not finite or below 0, and "bilinear" of palettes and of 16 bits.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.ElasticTransform(alpha=40)])
    """

    draws_by_size = True
    drawn_by = ("alpha", "sigma")

    alpha: float | Sequence[float] = 50.0
    sigma: float | Sequence[float] = 5.0
    interpolation: WarpInterpolation = "bilinear"
    fill: Fill | None = 0

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        for name in ("alpha", "sigma"):
            value = getattr(self, name)
            both = _numbers(self, value if isinstance(value, Sequence) else (value,), f"{name}, or two", 1, 2)
            set_fields(self, **{name: (both[0], both[-1])})
        x, y = self.sigma  # type: ignore[misc]  # two by now
        check(
            self,
            0 <= x < _LARGEST_SIGMA and 0 <= y < _LARGEST_SIGMA and (x > 0) == (y > 0),
            "sigma above 0 and below 1,000, or 0 both",
        )


#: Eight of them are the taps of a Gaussian, of which every pixel takes as many products.
_LARGEST_SIGMA = 1_000
