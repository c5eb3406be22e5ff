"""Other colours for the same pixels. Names, defaults and the order of arguments are torchvision v2's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from penstock.core.errors import PlanError
from penstock.transform.image.op import Chain, PixelOp, TableOp, check, check_probability


class ColourOp(PixelOp):
    """An op on colours. modes: of the images that it works on."""

    is_geometric = False
    modes: ClassVar[tuple[str, ...]] = ("RGB", "L")

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError for pixels of other modes, and behind Normalize or ToDtype."""
        if chain.mode not in self.modes:
            raise PlanError(f'{self}: works on colours, and the images are of mode "{chain.mode}"; leave it out')
        return super().extend(chain)


class RandomColourOp(ColourOp):
    """An op on colours with probability `p`."""

    is_random = True
    drawn_by = ("p",)

    p: float

    def settle(self) -> None:
        """See `ImageOp`."""
        check_probability(self, self.p)


@dataclass(frozen=True)
class RandomGrayscale(RandomColourOp):
    """The image in grey, with a probability: three equal channels, as Pillow's `convert("L")` computes them.

    Images of mode "L" are grey already, and stay. `Grayscale` has torchvision's grey of tensors, which is up to 1 level darker.

    Args:
        p: the probability. Default: 0.1.

    Raises:
        PlanError: for what is no probability, and for pixels that have no colours.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomGrayscale(p=0.2)])
    """

    p: float = 0.1


@dataclass(frozen=True)
class Grayscale(ColourOp):
    """The image in grey, 0.2989 red + 0.587 green + 0.114 blue, cut off: torchvision v2's of tensors, in which white becomes 254.

    The mode of the images is "L" from here on, or "RGB" with three channels. Grey images stay as they are, or get three equal channels.

    Args:
        num_output_channels: 1 or 3. Default: 1.

    Raises:
        PlanError: for another number, and for pixels that have no colours.

    Example:
        grey = ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((48, 64)), ps.image.Grayscale()])
        grey.head(2)["image"].shape == (2, 1, 48, 64)
    """

    num_output_channels: int = 1

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, self.num_output_channels in (1, 3), "num_output_channels 1 or 3")

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError for pixels that have no colours."""
        mode = "L" if self.num_output_channels == 1 else "RGB"
        done = super().extend(chain)
        return done if mode == chain.mode else replace(done, mode=mode, first_mode=chain.first_mode or chain.mode)


@dataclass(frozen=True)
class RandomInvert(TableOp):
    """The negative of the image, 255 - x, with a probability: exactly torchvision v2's, of RGB and grey images.

    Args:
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for what is no probability, and for pixels of other modes.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomInvert(p=0.2)])
    """

    p: float = 0.5

    def table(self) -> bytes:
        """See `TableOp`."""
        return bytes(range(255, -1, -1))


@dataclass(frozen=True)
class RandomSolarize(TableOp):
    """The negative of all numbers from a threshold on, with a probability: exactly torchvision v2's, of RGB and grey images.

    Args:
        threshold: the least number that is inverted, 255 at most.
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for a threshold above 255, what is no probability, and for pixels of other modes.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomSolarize(128, p=0.2)])
    """

    threshold: float
    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        check(self, -math.inf < self.threshold <= 255, "a threshold of 255 at most")  # the largest byte

    def table(self) -> bytes:
        """See `TableOp`."""
        return bytes(255 - number if number >= self.threshold else number for number in range(256))


@dataclass(frozen=True)
class RandomPosterize(TableOp):
    """The upper bits of all numbers alone, with a probability: exactly torchvision v2's, of RGB and grey images.

    Args:
        bits: how many are kept, 0 to 8.
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for another number of bits, what is no probability, and for pixels of other modes.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomPosterize(4)])
    """

    bits: int
    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        check(self, self.bits in range(9), "bits from 0 to 8")

    def table(self) -> bytes:
        """See `TableOp`."""
        mask = 256 - (256 >> int(self.bits))
        return bytes(number & mask for number in range(256))


@dataclass(frozen=True)
class RandomAutocontrast(RandomColourOp):
    """Each channel stretched to 0 … 255, with a probability: exactly torchvision v2's, of RGB and grey images.

    Args:
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for what is no probability, and for pixels of other modes.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomAutocontrast()])
    """

    p: float = 0.5


@dataclass(frozen=True)
class RandomEqualize(RandomColourOp):
    """Each channel's histogram made flat, with a probability: exactly torchvision v2's, of RGB and grey images.

    Args:
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for what is no probability, and for pixels of other modes.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomEqualize()])
    """

    p: float = 0.5
