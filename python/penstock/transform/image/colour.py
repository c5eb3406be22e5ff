"""Other colours for the same pixels."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.transform.image.op import PixelOp, check


@dataclass(frozen=True)
class RandomGrayscale(PixelOp):
    """The image in grey, with probability `p`: three equal channels, as Pillow's `convert("L")` computes them."""

    is_random = True
    drawn_by = ("p",)

    p: float = 0.1

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, not isinstance(self.p, bool) and 0 <= self.p <= 1, "a probability from 0 to 1")
