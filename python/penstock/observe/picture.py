"""Values as small pictures for a page: files as they are while they are small, everything else as a small PNG."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.op_step import MOST_PIXELS, thinned
from penstock.core.images.by_library import HEAD_BYTES
from penstock.core.images.encoded import image_size, rgb_of
from penstock.core.images.heads import is_image
from penstock.observe.png import Pixels, png

#: Longest side of a picture in a page.
SIDE = 160
#: The largest file that a page gets as it is, and the shortest side of an array that is taken for a picture.
_MOST_BYTES, _SHORTEST = 300_000, 8
#: How files begin that browsers show.
_KINDS = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png", b"GIF8": "gif", b"BM": "bmp"}
#: Of an array that nobody says to be a picture.
_CHANNELS = (1, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture in a page. size: (height, width) of what it shows, in whose pixels boxes are. note: what was done to the numbers so that they can be seen."""

    kind: str
    data: bytes
    size: tuple[int, int]
    note: str = ""

    @property
    def source(self) -> str:
        """What an `img` shows."""
        return f"data:image/{self.kind};base64,{base64.b64encode(self.data).decode()}"


def picture_of(value: Any) -> Picture | None:
    """A file of an image, or an array that has the shape of one; None for what is no picture, damaged, or too large to be made small."""
    if isinstance(value, bytes):
        return _of_file(value)
    pixels = pixels_of(value)
    return None if pixels is None else picture_of_pixels(pixels)


def file_kind(value: bytes) -> str:
    """The kind of a file that browsers show; "" for another one: file_kind(b"BM") == "bmp"."""
    if value[:4] == b"RIFF":
        return "webp" if value[8:12] == b"WEBP" else ""
    return next((kind for head, kind in _KINDS.items() if value.startswith(head)), "")


def _of_file(value: bytes) -> Picture | None:
    if not is_image(value[:HEAD_BYTES]):
        return None
    try:
        kind = file_kind(value)
        if kind and len(value) <= _MOST_BYTES:
            return Picture(kind=kind, data=value, size=image_size(value))
        return picture_of_pixels(decoded(value))
    except ValueError:
        return None


def decoded(value: bytes) -> Pixels:
    """The pixels of a file, RGB; ValueError for one that is damaged, or too large to be looked at."""
    height, width = image_size(value)
    if width * height > MOST_PIXELS:
        raise ValueError(f"{width} × {height} pixels, too many to be looked at")
    return rgb_of(value)


def picture_of_pixels(pixels: npt.NDArray[Any]) -> Picture:
    """Pixels (height, width, channels), of which grey and its alpha have one or two, as a picture; alpha is left out."""
    shown, note = as_bytes(thinned(pixels)[:, :, : 3 if pixels.shape[2] >= 3 else 1])
    data = png(np.broadcast_to(shown, (*shown.shape[:2], 3)))
    return Picture(kind="png", data=data, size=(pixels.shape[0], pixels.shape[1]), note=note)


def pixels_of(value: Any) -> npt.NDArray[Any] | None:
    """An array that has the shape of an image, with its rows or its channels first: (height, width, channels)."""
    if not isinstance(value, np.ndarray) or value.ndim != 3 or value.dtype.kind not in "uif" or not value.size:
        return None
    if value.shape[2] not in _CHANNELS:
        value = np.moveaxis(value, 0, 2)
    return value if value.shape[2] in _CHANNELS and min(value.shape[:2]) >= _SHORTEST else None


def as_bytes(pixels: npt.NDArray[Any]) -> tuple[Pixels, str]:
    """Numbers as bytes, and how: those that are none are stretched, from their least to their most, to 0 … 255. What is not finite is as the least."""
    if pixels.dtype == np.uint8:
        return pixels, ""
    numbers = pixels.astype(np.float64) / 2  # so that no difference is infinite
    finite = np.isfinite(numbers)
    if not finite.any():
        return np.zeros(pixels.shape, np.uint8), "no finite number"
    low, high = numbers[finite].min(), numbers[finite].max()
    stretched = (np.where(finite, numbers, low) - low) / ((high - low) or 1) * 255
    return np.rint(stretched).astype(np.uint8), f"{2 * low:.4g} … {2 * high:.4g} shown as 0 … 255"
