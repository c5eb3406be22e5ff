"""Descriptions of the image ops: frozen, checked when made, plain values only (they can be written as JSON).

Names, defaults and the order of arguments are torchvision v2's. Sizes are (height, width).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from penstock.core.errors import PlanError

Interpolation: TypeAlias = Literal["nearest", "bilinear", "bicubic"]
Pair: TypeAlias = tuple[int, int]
Span: TypeAlias = tuple[float, float]

_DTYPES = ("uint8", "float16", "bfloat16", "float32")
_LARGEST_SIDE = 1 << 16


class Statistics(NamedTuple):
    """Mean and standard deviation of each channel, of numbers in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Decode:
    """Decodes a JPEG, PNG, WebP, BMP or GIF (first frame) file to RGB pixels, like Pillow's `convert("RGB")`.

    apply_exif: rotate the image by its EXIF orientation, like `PIL.ImageOps.exif_transpose`.

    entry_points: "auto" uses the JPEG index of the data if there is one (`penstock index --jpeg` makes it). "build" makes it
    while the first epoch decodes. "off" uses none. The pixels are the same.

    fast: resize the planes of baseline JPEGs in YCbCr, chroma straight from its own resolution, and convert colours at the
    target's size. A part that shrinks by 2, 4 or 8 in both directions is decoded at that fraction of its size. This needs a
    first resize by "bilinear" or "bicubic"; everything else stays exact. The result is the same on every machine, but not the
    exact one. On natural photographs (4:4:4 to 4:2:0, quality 75 to 97) that shrink by less than 2, the mean difference is
    at most 0.5 levels of 255, and 99.9 % of the numbers differ by at most 8. If they shrink more, these are 1.5 and 20.

    allow_truncated: fill the missing part of a baseline JPEG that ends too early with grey, like Pillow's
    LOAD_TRUNCATED_IMAGES, instead of raising an error.
    """

    apply_exif: bool = False
    fast: bool = False
    allow_truncated: bool = False
    entry_points: Literal["auto", "build", "off"] = field(default="auto", metadata={"affects_result": False})

    def __post_init__(self) -> None:
        _check(self, self.entry_points in ("auto", "build", "off"), "entry_points 'auto', 'build' or 'off'")

    @property
    def switches(self) -> tuple[bool, bool, bool]:
        """The arguments of the native program."""
        return self.apply_exif, self.fast, self.allow_truncated


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the image, resized to `size`: up to ten draws, then the centre.

    scale: range of the part's share of the area. ratio: range of its width / height, uniform in the logarithm.
    """

    size: int | Pair
    scale: Span = (0.08, 1.0)
    ratio: Span = (3 / 4, 4 / 3)
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        _set(self, size=_both_sides(self, self.size))
        _set(self, scale=_range(self, self.scale), ratio=_range(self, self.ratio))
        _check(self, self.scale[0] > 0 and self.ratio[0] > 0, "scale and ratio above 0")
        _check_interpolation(self, self.interpolation)


@dataclass(frozen=True)
class Resize:
    """The whole image, resized: its shorter side to `size` pixels, or both sides to `size` = (height, width).

    With antialias, the result is within 1 level of 255 of Pillow's two passes, columns first (bilinear: one value in many
    thousands within 2). Since version 13, Pillow starts with the rows if they become far fewer; its bicubic may then differ
    by several levels at hard edges in tall images. max_size: most pixels of the longer side, if size is one number.
    """

    size: int | Pair
    interpolation: Interpolation = "bilinear"
    max_size: int | None = None
    antialias: bool = True

    def __post_init__(self) -> None:
        size = self.size[0] if isinstance(self.size, Sequence) and len(self.size) == 1 else self.size
        both = _both_sides(self, size)
        _set(self, size=both if isinstance(size, Sequence) else both[0])
        if self.max_size is not None:
            _check(
                self,
                not isinstance(size, Sequence) and size < self.max_size <= _LARGEST_SIDE,
                "max_size above size, which is one number",
            )
        _check_interpolation(self, self.interpolation)


@dataclass(frozen=True)
class CenterCrop:
    """The central `size` of the image; a smaller image is padded with zeros."""

    size: int | Pair

    def __post_init__(self) -> None:
        _set(self, size=_both_sides(self, self.size))


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """The image mirrored left to right, with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        _check(self, 0 <= self.p <= 1, "a probability from 0 to 1")


@dataclass(frozen=True)
class RandomVerticalFlip:
    """The image mirrored top to bottom, with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        _check(self, 0 <= self.p <= 1, "a probability from 0 to 1")


@dataclass(frozen=True)
class RandomGrayscale:
    """The image in grey, with probability `p`: three equal channels, as Pillow's `convert("L")` computes them."""

    p: float = 0.1

    def __post_init__(self) -> None:
        _check(self, 0 <= self.p <= 1, "a probability from 0 to 1")


@dataclass(frozen=True)
class Normalize:
    """(x - mean) / std by channel; uint8 is first scaled to [0, 1], and becomes float32.

    `Normalize(IMAGENET)` is short for `Normalize(IMAGENET.mean, IMAGENET.std)`.
    """

    mean: Sequence[float] | float | Statistics
    std: Sequence[float] | float | None = None

    def __post_init__(self) -> None:
        mean, std = self.mean if isinstance(self.mean, Statistics) and self.std is None else (self.mean, self.std)
        _check(self, std is not None, "mean and std, or Normalize(IMAGENET)")
        _set(self, mean=_numbers(mean), std=_numbers(std))
        _check(self, len(self.means) == len(self.stds) in (1, 3), "as many means as stds: 3, or 1")
        _check(self, all(math.isfinite(x) for x in self.means), "finite means")
        _check(self, all(math.isfinite(x) and x > 0 for x in self.stds), "finite stds above 0")

    @property
    def means(self) -> tuple[float, ...]:
        """The mean of each channel."""
        return _numbers(self.mean.mean if isinstance(self.mean, Statistics) else self.mean)

    @property
    def stds(self) -> tuple[float, ...]:
        """The standard deviation of each channel."""
        return () if self.std is None else _numbers(self.std)


@dataclass(frozen=True)
class ToDtype:
    """The numbers as another dtype: "uint8", "float16", "bfloat16" or "float32".

    scale: also convert from 0 … 255 to 0 … 1 (and back), like torchvision's.
    """

    dtype: str
    scale: bool = False

    def __post_init__(self) -> None:
        _set(self, dtype=_dtype_name(self.dtype))
        _check(self, self.dtype in _DTYPES, f"one of {', '.join(_DTYPES)}")


@dataclass(frozen=True)
class ToLayout:
    """The order of a batch's axes: "NCHW", the default and torch's, or "NHWC"."""

    layout: Literal["NCHW", "NHWC"] = "NCHW"

    def __post_init__(self) -> None:
        _check(self, self.layout in ("NCHW", "NHWC"), '"NCHW" or "NHWC"')


ImageOp: TypeAlias = (
    Decode
    | RandomResizedCrop
    | Resize
    | CenterCrop
    | RandomHorizontalFlip
    | RandomVerticalFlip
    | RandomGrayscale
    | Normalize
    | ToDtype
    | ToLayout
)
#: Ops on bytes, before these become other numbers.
PIXEL_OPS = (RandomResizedCrop, Resize, CenterCrop, RandomHorizontalFlip, RandomVerticalFlip, RandomGrayscale)


def _set(op: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(op, name, value)


def _check(op: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise PlanError(f"{op}; give {wanted}")


def _check_interpolation(op: object, interpolation: str) -> None:
    _check(op, interpolation in ("nearest", "bilinear", "bicubic"), 'interpolation "bilinear", "bicubic" or "nearest"')


def _is_side(size: object) -> bool:
    return isinstance(size, (int, np.integer)) and not isinstance(size, bool) and 1 <= int(size) <= _LARGEST_SIDE


def _both_sides(op: object, size: int | Sequence[int]) -> Pair:
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    is_size = len(sides) == 2 and all(_is_side(side) for side in sides)
    _check(op, is_size, "a size from 1 to 65,536, or (height, width)")
    return int(sides[0]), int(sides[1])


def _range(op: object, span: Sequence[float]) -> Span:
    low, high = (float(bound) for bound in span) if hasattr(span, "__len__") and len(span) == 2 else (1.0, 0.0)
    _check(op, low <= high < math.inf, "ranges as (low, high)")
    return low, high


def _numbers(values: Any) -> tuple[float, ...]:
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
