"""What becomes of a pixel's bytes: dtype, mean and standard deviation, the order of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from penstock.core.arguments import is_one_of
from penstock.core.errors import PlanError
from penstock.transform.image.op import Chain, ImageOp, Numbers, check, set_fields

_DTYPES = ("uint8", "uint16", "float16", "bfloat16", "float32")


class Statistics(NamedTuple):
    """Mean and standard deviation of each channel, of numbers in [0, 1].

    Attributes:
        mean: a number for each channel.
        std: a number for each channel.

    Example:
        greys = ps.image.Statistics(mean=(0.5,), std=(0.25,))
        ps.image.Normalize(greys) == ps.image.Normalize(0.5, 0.25)
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""The statistics of ImageNet's training images, which most pretrained models of photographs expect."""


@dataclass(frozen=True)
class Normalize(ImageOp):
    """(x - mean) / std by channel; uint8 and uint16 are first scaled to [0, 1], and become float32.

    Args:
        mean: one number, or one a channel; `IMAGENET`, or other `Statistics`, stands for both arguments.
        std: one number, or one a channel.

    Raises:
        PlanError: for numbers that are not finite, stds that are not above 0, another number of channels, and indices of a palette.

    Example:
        I = ps.image
        I.Normalize(I.IMAGENET) == I.Normalize(I.IMAGENET.mean, I.IMAGENET.std)
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.Normalize(I.IMAGENET)])
    """

    mean: Sequence[float] | float | Statistics
    std: Sequence[float] | float | None = None

    def settle(self) -> None:
        """See `ImageOp`."""
        mean, std = self.mean if isinstance(self.mean, Statistics) and self.std is None else (self.mean, self.std)
        check(self, std is not None, "mean and std, or Normalize(IMAGENET)")
        set_fields(self, mean=_floats(mean), std=_floats(std))
        check(self, len(self.means) == len(self.stds), "as many means as stds: one a channel, or 1")
        check(self, all(math.isfinite(x) for x in self.means), "finite means")
        check(self, all(math.isfinite(x) and x > 0 for x in self.stds), "finite stds above 0")

    @property
    def means(self) -> tuple[float, ...]:
        """The mean of each channel."""
        return _floats(self.mean.mean if isinstance(self.mean, Statistics) else self.mean)

    @property
    def stds(self) -> tuple[float, ...]:
        """The standard deviation of each channel."""
        return () if self.std is None else _floats(self.std)

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError if the images have another number of channels, or are indices."""
        if chain.mode == "P":
            raise PlanError(
                f'{self}: the images are indices into a palette (mode "P"), which have no mean; leave it out'
            )
        if len(self.stds) not in (1, chain.channels):
            raise PlanError(
                f"{self}: the images have {chain.channels} channels; give {chain.channels} means and stds, or 1"
            )
        before = ToDtype("float32", scale=True).converted(chain.numbers) if chain.numbers.is_raw else chain.numbers
        mean, std = _of_four(self.means), _of_four(self.stds)
        scale = tuple(a / s for a, s in zip(before.scale, std, strict=True))
        bias = tuple((b - m) / s for b, m, s in zip(before.bias, mean, std, strict=True))
        return replace(chain, numbers=replace(before, scale=scale, bias=bias, one=None))


@dataclass(frozen=True)
class ToDtype(ImageOp):
    """The numbers as another dtype.

    Args:
        dtype: "float16", "bfloat16", "float32", or the one that the images had, "uint8" or "uint16".
        scale: True also converts from 0 … 255, or 0 … 65,535 for uint16, to 0 … 1 (and back), like torchvision's. Default: False.

    Raises:
        PlanError: for another dtype, and for numbers that are no bytes any more that it could restore.

    Example:
        I = ps.image
        photos = ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.ToDtype("float32", scale=True)])
        photos.head(2)["image"].max() <= 1
    """

    dtype: str
    scale: bool = False

    def settle(self) -> None:
        """See `ImageOp`."""
        set_fields(self, dtype=_dtype_name(self.dtype))
        check(self, self.dtype in _DTYPES, f"one of {', '.join(_DTYPES)}")

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError if the numbers are no bytes any more that it could restore."""
        numbers = self.converted(chain.numbers)
        if chain.is_erased and numbers.is_raw:
            raise PlanError(
                f"{self}: follows RandomErasing, which has put floats there; put that before Normalize and ToDtype, or leave this out"
            )
        return replace(chain, numbers=numbers)

    def converted(self, numbers: Numbers) -> Numbers:
        """The numbers as this op makes them."""
        if self.dtype == numbers.dtype:
            return numbers
        if self.dtype in ("uint8", "uint16"):
            raw = Numbers.of(numbers.source)
            if self.dtype != raw.dtype:
                wanted = "I16" if self.dtype == "uint16" else "L"
                raise PlanError(f'{self}: the images are {raw.dtype}; leave it out, or say Decode(mode="{wanted}")')
            if numbers.one != (1.0 if self.scale else raw.one):
                raise PlanError(f"{self}: the numbers before it are not bytes or bytes / 255; leave it out")
            return raw
        if numbers.is_raw and self.scale:
            largest = Numbers.of(numbers.source).one or 1.0
            return replace(numbers, dtype=self.dtype, scale=(1 / largest,) * 4, one=1.0)
        return replace(numbers, dtype=self.dtype)


@dataclass(frozen=True)
class ToLayout(ImageOp):
    """The order of a batch's axes.

    Args:
        layout: "NCHW", the default and torch's, or "NHWC".

    Raises:
        PlanError: for another layout.

    Example:
        photos = ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64)), ps.image.ToLayout("NHWC")])
        photos.head(2)["image"].shape == (2, 64, 64, 3)
    """

    layout: Literal["NCHW", "NHWC"] = "NCHW"

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, is_one_of(self.layout, ("NCHW", "NHWC")), '"NCHW" or "NHWC"')

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end."""
        return replace(chain, layout=self.layout)


def _of_four(values: tuple[float, ...]) -> tuple[float, ...]:
    """A number for each of four channels; those that there are not have the last one's."""
    return values + values[-1:] * (4 - len(values))


def _floats(values: Any) -> tuple[float, ...]:
    if isinstance(values, Sized) and not 1 <= len(values) <= 4:
        raise ValueError(f"{len(values):,} numbers")
    values = values.tolist() if hasattr(values, "tolist") else values  # NumPy's and PyTorch's
    return tuple(float(value) for value in values) if isinstance(values, Sequence) else (float(values),)


def _dtype_name(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if name in _DTYPES:
        return name
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return name
