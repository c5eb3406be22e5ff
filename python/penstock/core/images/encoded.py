"""What is asked of one encoded image, whether native code or a library decodes it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.images.by_library import HEAD_BYTES, as_png, kind_of, readable_head
from penstock.core.images.wanted import WantedPixels
from penstock.core.limits import DEFAULT_LIMITS

#: What a chain that begins with `Decode()` asks.
_USUAL = WantedPixels()


def image_mode(data: bytes) -> str:
    """The mode that holds an image unchanged; ValueError where none does."""
    return kernels.image_mode(readable_head(data))


def image_size(data: bytes, *, apply_exif: bool = False) -> tuple[int, int]:
    """(height, width), from the header; ValueError for what is no image."""
    width, height, _ = kernels.image_info(readable_head(data), apply_exif)
    return height, width


def rgb_of(data: bytes, wanted: WantedPixels = _USUAL) -> npt.NDArray[np.uint8]:
    """Pixels of shape (height, width, 3); ValueError for what is damaged or above the usual limits."""
    kind = kind_of(data[:HEAD_BYTES])
    native = data if kind is None else as_png(data, kind, DEFAULT_LIMITS, wanted)
    return kernels.decode_image(native, limits=DEFAULT_LIMITS.of_image)
