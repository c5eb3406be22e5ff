"""Sharper, softer, noisier and compressed images. Names, defaults and the order of arguments are torchvision v2's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.transform.image.colour import ColourOp, RandomColourOp
from penstock.transform.image.op import (
    LARGEST_SIDE,
    Pair,
    Span,
    both_sides,
    check,
    checked_range,
    set_fields,
)


@dataclass(frozen=True)
class GaussianBlur(ColourOp):
    """The image blurred by a Gaussian kernel of random width, at the cost of its width plus its height.

    Within 1 level of torchvision v2's, and 999 of 1,000 numbers equal. Pixels are mirrored at the edges; where the kernel is larger than that allows once, for which torchvision
    raises, again and again. Alpha is blurred as the colours are.

    Args:
        kernel_size: columns of the kernel and rows, odd; or (columns, rows).
        sigma: the deviation in pixels, or its range. Default: (0.1, 2.0).

    Raises:
        PlanError: for an even size, a deviation that is not above 0, and for pixels of mode "P" or "I16".

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.GaussianBlur(5, (0.1, 2.0))])
    """

    is_random = True
    drawn_by = ("sigma",)
    modes = ("RGB", "L", "RGBA", "LA")

    kernel_size: int | Pair
    sigma: float | Span = (0.1, 2.0)

    def settle(self) -> None:
        """See `ImageOp`."""
        size = self.kernel_size
        only = size[0] if isinstance(size, Sequence) and len(size) == 1 else size
        sides = both_sides(self, only)
        check(self, all(side % 2 for side in sides), f"odd numbers of pixels below {LARGEST_SIDE:,}")
        sigma = self.sigma if isinstance(self.sigma, Sequence) else (self.sigma,)
        low, high = checked_range(self, (sigma[0], sigma[-1]) if len(sigma) == 1 else sigma)
        check(self, low > 0, "sigma above 0")
        set_fields(self, kernel_size=sides, sigma=(low, high))


@dataclass(frozen=True)
class RandomAdjustSharpness(RandomColourOp):
    """The image sharper or softer, with a probability: a blend with its mean over 3 × 3 pixels.

    Torchvision v2's of tensors, on processors with AVX2: within 1 level, and 999 of 1,000 numbers equal. Pixels at the edges stay.

    Args:
        sharpness_factor: 0 for the soft image, 1 for the image as it is, 2 for twice as sharp, and so on.
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for a factor below 0, what is no probability, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomAdjustSharpness(2)])
    """

    sharpness_factor: float
    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        check(self, 0 <= self.sharpness_factor < math.inf, "a sharpness_factor from 0 on")
        set_fields(self, sharpness_factor=float(self.sharpness_factor))


@dataclass(frozen=True)
class GaussianNoise(ColourOp):
    """Noise of a normal distribution on every number, by row, place and epoch.

    As torchvision v2's on uint8: the noise is cut off to whole numbers, and has exactly the probabilities of that; which numbers are drawn differs.

    Args:
        mean: of the noise; 1 stands for 255. Default: 0.
        sigma: its deviation. Default: 0.1.
        clip: False lets numbers beyond 0 … 255 wrap around. Default: True.

    Raises:
        PlanError: for a deviation below 0, what is no finite number, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.GaussianNoise(sigma=0.05)])
    """

    is_random = True
    drawn_by = ("sigma",)

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool = True

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, math.isfinite(self.mean) and 0 <= self.sigma < math.inf, "a finite mean, and sigma from 0 on")
        set_fields(self, mean=float(self.mean), sigma=float(self.sigma))


@dataclass(frozen=True)
class JPEG(ColourOp):
    """The image as a JPEG of random quality would give it back, without the file.

    Bit for bit what libjpeg-turbo reads of what it has written with its defaults, as torchvision v2's `JPEG` does: chroma at half the size (4:2:0), Annex K's tables.

    Args:
        quality: from 1 to 100, or a range of it, with both ends.

    Raises:
        PlanError: for a quality that there is not, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.JPEG((30, 95))])
    """

    is_random = True
    drawn_by = ("quality",)

    quality: int | Pair

    def settle(self) -> None:
        """See `ImageOp`."""
        low, high = both_sides(self, self.quality)
        check(self, low <= high <= 100, "a quality from 1 to 100, or (low, high)")  # libjpeg's best
        set_fields(self, quality=(low, high))
