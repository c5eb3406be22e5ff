"""Masks in colours: classes, or the masks of instances, each in a colour of its own."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.columns.op_step import thinned
from penstock.core.messages import counted
from penstock.observe.picture import decoded
from penstock.observe.png import Pixels

#: (height, width).
Size: TypeAlias = tuple[int, int]

#: What a mask calls neither class nor background, and its colour; how much of the picture is covered.
_VOID, _GREY, _ALPHA = 255, (200, 200, 200), 128
#: Instances that are drawn, and classes that are listed.
_MOST, _CLASSES = 200, 8


class Undrawable(ValueError):
    """Says why something cannot be drawn."""


def colour(number: int) -> tuple[int, int, int]:
    """A colour of its own for each number: colour(0) == (255, 38, 38)."""
    red, green, blue = colorsys.hsv_to_rgb(number * 0.618034 % 1, 0.85, 1)
    return round(255 * red), round(255 * green), round(255 * blue)


def array_of(value: Any, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """A row's value as an array; Undrawable where it is none."""
    try:
        return np.asarray([] if value is None else value, dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        raise Undrawable("rows of unequal length, or no numbers") from None


def mask_colours(value: Any, size: Size) -> tuple[Pixels, str]:
    """A mask as RGBA, small, and what there is in it. Undrawable for what is none of a picture of this size."""
    if isinstance(value, bytes):
        try:
            pixels = decoded(value)
        except ValueError as error:
            raise Undrawable(f"{error}") from None
        _check_size(pixels.shape[:2], size)
        pixels = thinned(pixels)
        if (pixels != pixels[:, :, :1]).any():  # a palette's own colours
            alpha = np.where(pixels.any(axis=2, keepdims=True), np.uint8(_ALPHA), np.uint8(0))
            return np.concatenate([pixels, alpha], axis=2), "in its own colours"
        return _coloured(pixels[:, :, 0])
    mask = array_of(value, None)
    if not mask.size:
        return np.zeros((1, 1, 4), np.uint8), "empty"
    if mask.dtype.kind not in "biu":
        raise Undrawable(f"a mask of {mask.dtype}, which are no classes")
    if mask.ndim == 3 and mask.shape[2] == 1 and mask.shape[:2] == size:
        mask = mask[:, :, 0]
    _check_size(mask.shape[-2:] if mask.ndim in (2, 3) else mask.shape, size)
    if mask.ndim == 2 or len(mask) == 1:
        return _coloured(thinned(mask.reshape(size)))
    flat = np.zeros(thinned(mask[0]).shape, np.int64)
    for number, instance in enumerate(mask[:_MOST]):
        flat[thinned(instance) != 0] = number + 1
    return _coloured(flat, first=-1)[0], counted(len(mask), "instance")


def _coloured(mask: npt.NDArray[Any], first: int = 0) -> tuple[Pixels, str]:
    """Classes in their colours; `first` is added to each."""
    found, places = np.unique(mask, return_inverse=True)
    table = np.zeros((len(found), 4), np.uint8)
    for place, number in enumerate(found.tolist()):
        if number:
            table[place] = *(_GREY if mask.dtype == np.uint8 and number == _VOID else colour(number + first)), _ALPHA
    listed = ", ".join(map(str, found[:_CLASSES].tolist()))
    return table[places.reshape(mask.shape)], f"{listed}{', …' if len(found) > _CLASSES else ''}"


def _check_size(found: Sequence[int], size: Size) -> None:
    if tuple(found) != size:
        axes = " × ".join(map(str, found))
        raise Undrawable(f"a mask of {axes} over a picture of {size[0]} × {size[1]} (height × width)")
