"""A contact sheet: small images of a dataset side by side, as a PNG."""

from __future__ import annotations

import math

import numpy as np

from penstock.cli.opening import image_columns, spread_images
from penstock.core.errors import PlanError
from penstock.core.images.encoded import rgb_of
from penstock.dataset import Dataset
from penstock.observe.png import Pixels, png

_TILE, _GAP = 128, 4
_PAPER, _UNREADABLE = 255, 128


def contact_sheet(dataset: Dataset, images: int = 48) -> bytes:
    """A PNG with the centres of images from all over the dataset; grey for an unreadable one.

    Raises PlanError if no column holds images.
    """
    columns = image_columns(dataset)
    if not columns:
        raise PlanError(f"--sheet: no column holds images (columns: {', '.join(dataset.spec)}); leave --sheet out")
    spread = spread_images(dataset, columns[0], min(images, len(dataset)))
    return png(_laid_out([_tile(data) for data in spread]))


def _laid_out(tiles: list[Pixels]) -> Pixels:
    across = max(1, math.ceil(math.sqrt(1.5 * len(tiles))))
    down = -(-len(tiles) // across)
    step = _TILE + _GAP
    sheet = np.full((down * step + _GAP, across * step + _GAP, 3), _PAPER, np.uint8)
    for number, tile in enumerate(tiles):
        top, left = (_GAP + step * place for place in divmod(number, across))
        sheet[top : top + _TILE, left : left + _TILE] = tile
    return sheet


def _tile(data: bytes) -> Pixels:
    try:
        image = rgb_of(data)
    except ValueError:
        return np.full((_TILE, _TILE, 3), _UNREADABLE, np.uint8)
    side = min(image.shape[:2])
    top, left = ((axis - side) // 2 for axis in image.shape[:2])
    middle = image[top : top + side, left : left + side]
    return _resized(middle) if middle.shape[2] == 3 else np.repeat(_resized(middle[:, :, :1]), 3, axis=2)


def _resized(square: Pixels) -> Pixels:
    """Means of whole squares of pixels, then the nearest mean."""
    factor = max(1, len(square) // _TILE)
    whole = len(square) // factor * factor
    parts = square[:whole, :whole].reshape(whole // factor, factor, whole // factor, factor, -1)
    small: Pixels = parts.mean(axis=(1, 3)).astype(np.uint8)
    nearest = (np.arange(_TILE) * len(small)) // _TILE
    return small[nearest][:, nearest]
