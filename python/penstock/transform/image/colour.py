"""Other colours for the same pixels."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import PlanError
from penstock.transform.image.op import Chain, PixelOp, TableOp, check_probability


@dataclass(frozen=True)
class RandomGrayscale(PixelOp):
    """The image in grey, with a probability: three equal channels, as Pillow's `convert("L")` computes them.

    Images of mode "L" are grey already, and stay.

    Args:
        p: the probability. Default: 0.1.

    Raises:
        PlanError: for what is no probability, and for pixels that have no colours.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomGrayscale(p=0.2)])
    """

    is_random = True
    drawn_by = ("p",)

    p: float = 0.1

    def settle(self) -> None:
        """See `ImageOp`."""
        check_probability(self, self.p)

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError for pixels that have no colours."""
        if chain.mode not in ("RGB", "L"):
            raise PlanError(f'{self}: works on colours, and the images are of mode "{chain.mode}"; leave it out')
        return super().extend(chain)


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
