"""Several changes of colours by random factors. Names, defaults and the order of arguments are torchvision v2's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from penstock.transform.image.colour import ColourOp
from penstock.transform.image.op import Span, check, check_probability, checked_range, set_fields

#: A number, by which a factor is at most away from the one that changes nothing, or its range.
Jitter: TypeAlias = float | Sequence[float] | None

#: The factors that there may be, and the one that changes nothing.
_FACTORS: dict[str, tuple[float, float, float]] = {
    "brightness": (0.0, math.inf, 1.0),
    "contrast": (0.0, math.inf, 1.0),
    "saturation": (0.0, math.inf, 1.0),
    "hue": (-0.5, 0.5, 0.0),
}


@dataclass(frozen=True)
class ColorJitter(ColourOp):
    """Brightness, contrast, saturation and hue by random factors, in a random order.

    As in torchvision v2, a number is how far a factor may be from 1 (hue: from 0). Pixels are torchvision's of tensors, on processors with AVX2: brightness, contrast and
    saturation within 1 level, and 999 of 1,000 equal; hue within 2. Saturation and hue leave grey images alone.

    Args:
        brightness: the factor's range is 1 ± this, not below 0; or give (low, high). Default: None, which changes nothing.
        contrast: as brightness: of a blend with the mean of all pixels' grey.
        saturation: as brightness: of a blend with each pixel's grey.
        hue: the range is ± this, at most 0.5, half the circle; or give (low, high).

    Raises:
        PlanError: for what is no number or range, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.ColorJitter(0.4, 0.4, 0.4, 0.1)])
    """

    is_random = True
    drawn_by = tuple(_FACTORS)

    brightness: Jitter = None
    contrast: Jitter = None
    saturation: Jitter = None
    hue: Jitter = None

    def settle(self) -> None:
        """See `ImageOp`."""
        for name in _FACTORS:
            value = getattr(self, name)
            if value is not None:
                set_fields(self, **{name: self._range(name, value)})

    def _range(self, name: str, value: float | Sequence[float]) -> Span | None:
        least, most, neutral = _FACTORS[name]
        if isinstance(value, (Sequence, np.ndarray)):
            span = checked_range(self, value)
        else:
            check(self, 0 <= value < math.inf, f"{name} from 0 on")
            low = neutral - value
            span = (float(low if least else max(low, 0.0)), float(neutral + value))
        check(self, least <= span[0] and span[1] <= most, f"{name} from {least:g} to {most:g}")
        return None if span == (neutral, neutral) else span


@dataclass(frozen=True)
class RandomPhotometricDistort(ColourOp):
    """The distortions of SSD (Liu et al. 2016), each with a probability: `ColorJitter`'s four, contrast first or last, and the channels in another order.

    Pixels are torchvision v2's as those of `ColorJitter` are.

    Args:
        brightness: range of the factor. Default: (0.875, 1.125).
        contrast: range of the factor. Default: (0.5, 1.5).
        saturation: range of the factor. Default: (0.5, 1.5).
        hue: range, within ± 0.5. Default: (-0.05, 0.05).
        p: the probability of each. Default: 0.5.

    Raises:
        PlanError: for what is no range or probability, and for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomPhotometricDistort()])
    """

    is_random = True
    drawn_by = (*_FACTORS, "p")

    brightness: Span = (0.875, 1.125)
    contrast: Span = (0.5, 1.5)
    saturation: Span = (0.5, 1.5)
    hue: Span = (-0.05, 0.05)
    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        check_probability(self, self.p)
        for name, (least, most, _) in _FACTORS.items():
            low, high = checked_range(self, getattr(self, name))
            check(self, least <= low and high <= most, f"{name} from {least:g} to {most:g}")
            set_fields(self, **{name: (low, high)})


@dataclass(frozen=True)
class RandomChannelPermutation(ColourOp):
    """The channels in a random order: exactly torchvision v2's. Grey images have but one, and stay.

    Raises:
        PlanError: for pixels that are neither RGB nor grey.

    Example:
        ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.RandomChannelPermutation()])
    """

    is_random = True
