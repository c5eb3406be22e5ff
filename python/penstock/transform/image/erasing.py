"""A random rectangle of the image that is erased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.core.errors import PlanError
from penstock.transform.image.op import (
    Chain,
    ImageOp,
    Span,
    check,
    check_one_image,
    check_probability,
    checked_range,
    set_fields,
)

_DRAWN = ("random", "color")


@dataclass(frozen=True)
class RandomErasing(ImageOp):
    """A random rectangle of the image erased, with a probability (Zhong et al. 2020), with torchvision v2's sampling: ten tries of area and shape, and no change if the rectangle never fits.

    Behind `Normalize` or `ToDtype` it acts on the floats that a batch gets, of any dtype and in either layout. `value` counts as numbers do where the op stands, and what follows in the
    chain is done to it too: zero behind `Normalize` is the mean colour. Among bytes it erases bytes, from 0 to 255 (65,535 of mode "I16"); values outside become the nearest. Alpha is a channel like the
    others. A mask is not erased with its image, as in torchvision; one that shall be gets a RandomErasing of its own, with `draws="together"`.

    The pixels are torchvision's for the same rectangle. On a GPU, numbers are written by the device; with "random" and "color" the chain stays on the CPU.

    Args:
        p: the probability. Default: 0.5.
        scale: the range of the erased part of the area. Default: (0.02, 0.33).
        ratio: the range of height / width, each as likely as its inverse. Default: (0.3, 3.3).
        value: a number, or one a channel; "random": a normal number for each channel of each pixel; "color": a normal number for each channel (timm's "rand"). Default: 0.

    Raises:
        PlanError: for what is no probability, range or value; as many values as the images have no channels; and "random" or "color" among bytes or for indices of a palette.

    Example:
        I = ps.image
        photos = ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.Normalize(I.IMAGENET), I.RandomErasing(p=0.25)])
        noise = I.RandomErasing(scale=(0.1, 0.2), value="random")
    """

    is_random = True
    drawn_by = ("p", "scale", "ratio")
    draws_by_size = True

    p: float = 0.5
    scale: Span = (0.02, 0.33)
    ratio: Span = (0.3, 3.3)
    value: float | Sequence[float] | Literal["random", "color"] = 0.0

    def settle(self) -> None:
        """See `ImageOp`."""
        check_probability(self, self.p)
        scale, ratio = checked_range(self, self.scale), checked_range(self, self.ratio)
        check(self, scale[0] >= 0 and scale[1] <= 1, "a scale inside of (0, 1)")
        check(self, ratio[0] > 0, "ratios above 0")
        set_fields(self, p=float(self.p), scale=scale, ratio=ratio, value=self._settled())

    def _settled(self) -> Any:
        wanted = 'value=, a finite number, one a channel, "random" or "color"'
        if isinstance(self.value, str):
            check(self, self.value in _DRAWN, wanted)
            return self.value
        values = self.value.tolist() if hasattr(self.value, "tolist") else self.value  # NumPy's and PyTorch's
        values = tuple(float(one) for one in (values if isinstance(values, Sequence) else (values,)))
        check(self, 1 <= len(values) <= 4 and all(map(math.isfinite, values)), wanted)
        return values[0] if len(values) == 1 else values

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError for values that the numbers there cannot have."""
        check_one_image(self, chain)
        is_drawn, count = isinstance(self.value, str), len(self.value) if isinstance(self.value, tuple) else 1
        if is_drawn and (chain.numbers.is_raw or chain.mode == "P"):
            what = 'indices of a palette (mode "P")' if chain.mode == "P" else "bytes here"
            raise PlanError(
                f"{self}: draws floats around 0, and the images are {what}; put it behind Normalize, or give value=, a number"
            )
        if count not in (1, chain.channels):
            raise PlanError(f"{self}: the images have {chain.channels} channels; give {chain.channels} values, or 1")
        described: dict[str, Any] = {"op": "RandomErasing", "p": self.p, "scale": self.scale, "ratio": self.ratio}
        described["value"] = self.value
        if not chain.numbers.is_raw:
            described |= {"unit_scale": chain.numbers.scale, "unit_bias": chain.numbers.bias}
        return replace(
            chain,
            geometry=(*chain.geometry, (chain.number, described)),
            by_size=(*chain.by_size, len(chain.geometry)),
            is_erased=chain.is_erased or not chain.numbers.is_raw,
        )
