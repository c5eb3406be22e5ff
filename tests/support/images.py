"""Pictures for the tests, made by Pillow from seeded noise: small, and different everywhere."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from penstock.core.columns.spec import Spans


def picture(width: int, height: int, seed: int = 0, mode: str = "RGB") -> Image.Image:
    """A smooth picture with some noise."""
    random = np.random.default_rng([seed, width, height])
    coarse = random.integers(0, 256, (height // 6 + 2, width // 6 + 2, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16)
    noisy = np.clip(smooth + random.integers(-12, 13, smooth.shape), 0, 255).astype(np.uint8)
    return Image.fromarray(noisy).convert(mode)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """A picture as a file's bytes."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def as_pillow(data: bytes) -> npt.NDArray[np.uint8]:
    """What Pillow makes of a file: (height, width, 3)."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def spans(*records: bytes) -> Spans:
    """Records as spans over one buffer, with something between them."""
    buffer = np.frombuffer(b"..".join(records) + b"..", np.uint8)
    length = np.array([len(record) for record in records], np.int64)
    offset = np.concatenate([[0], np.cumsum(length + 2)[:-1]]).astype(np.int64)
    return Spans((buffer,), np.zeros(len(records), np.int64), offset, length)
