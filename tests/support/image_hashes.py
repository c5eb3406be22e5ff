"""What geometry ops make of noise, as hashes: see golden/make_image_geometry.py."""

from __future__ import annotations

import hashlib

import numpy as np

from penstock.core.columns.spec import Field
from penstock.transform import image

OPS = (
    image.RandomRotation(40),
    image.RandomRotation(40, "bilinear", fill=(9, 8, 7)),
    image.RandomRotation((90, 90), expand=True),
    image.RandomAffine(40, (0.2, 0.2), (0.5, 1.5), 20),
    image.RandomAffine(40, (0.2, 0.2), (0.5, 1.5), (-5, 5, 0, 9), "bilinear", None, (3, 4)),
    image.RandomAffine(0, (0.3, 0.3)),
    image.RandomPerspective(),
    image.ElasticTransform(),
    image.Pad((1, 2, 3, 4), (5, 6, 7)),
    image.Pad(9, padding_mode="reflect"),
    image.RandomCrop((40, 50), 5, padding_mode="symmetric"),
    image.RandomCrop((80, 50), pad_if_needed=True),
    image.RandomZoomOut(p=1.0, side_range=(2, 2)),
    image.RandomResize(30, 31),
    image.RandomShortestSize([31], 40),
    image.ScaleJitter((90, 90), (0.7, 0.7)),
    image.Letterbox((64, 50), 114),
    image.FiveCrop((20, 31)),
    image.TenCrop((20, 31)),
    image.TenCrop(20, vertical_flip=True),
)


def geometry_hashes() -> dict[str, str]:
    """A hash of eight rows' pixels for every op."""
    pixels = np.random.default_rng(7).integers(0, 256, (8, 47, 61, 3), dtype=np.uint8)
    found = {}
    for op in OPS:
        kernel = image.fuse([op], Field("uint8", (47, 61, 3)), lambda: (47, 61))
        out = np.empty((8, *kernel.field.shape), np.uint8)
        kernel(pixels, np.arange(8), key=5, out=out, threads=1)
        found[repr(op)] = hashlib.sha256(out.tobytes()).hexdigest()[:16]
    return found
