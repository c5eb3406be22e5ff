"""Writes tests/golden/colours.json, what the ops on colours make of a picture for a few rows: python tests/golden/make_colours.py.

They are written anew only on purpose: a change here changes every augmentation.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from penstock.core.columns.spec import Field
from penstock.transform import image

CASES: dict[str, image.ImageOp | list[image.ImageOp]] = {
    "ColorJitter": image.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "GaussianBlur": image.GaussianBlur(5),
    "GaussianNoise": image.GaussianNoise(),
    "Grayscale": image.Grayscale(),
    "JPEG": image.JPEG((10, 90)),
    "RandomAdjustSharpness": image.RandomAdjustSharpness(2),
    "RandomAutocontrast": image.RandomAutocontrast(),
    "RandomChannelPermutation": image.RandomChannelPermutation(),
    "RandomEqualize": image.RandomEqualize(),
    "RandomErasing": image.RandomErasing(value=(200, 100, 0)),
    "RandomErasing, random": [image.Normalize(image.IMAGENET), image.RandomErasing(value="random")],
    "RandomPhotometricDistort": image.RandomPhotometricDistort(),
    "RandomPosterize": image.RandomPosterize(3),
    "RandomSolarize": image.RandomSolarize(100),
}


def picture() -> np.ndarray:
    """Slopes, and squares of noise: 61 × 83 pixels that no library makes."""
    y, x = np.mgrid[:61, :83]
    squares = (y * 7919 + x * 104_729) % 251 * ((y // 8 + x // 8) % 2)
    return np.stack([y * 4 % 256, x * 3 % 256, (squares + x + y) % 256], axis=-1).astype(np.uint8)


def hashes() -> dict[str, str]:
    """Of what each op makes of the picture as rows 0 to 7."""
    found, pixels = {}, np.stack([picture()] * 8)
    for name, ops in CASES.items():
        kernel = image.fuse(ops if isinstance(ops, list) else [ops], Field("uint8", pixels.shape[1:]), lambda: (0, 0))
        out = np.empty((8, *kernel.field.shape), kernel.field.numpy_dtype)
        kernel(pixels, np.arange(8), key=11, out=out, threads=1)
        found[name] = hashlib.sha256(out.tobytes()).hexdigest()[:32]
    return found


if __name__ == "__main__":
    Path(__file__).with_name("colours.json").write_text(json.dumps(hashes(), indent=2) + "\n")
