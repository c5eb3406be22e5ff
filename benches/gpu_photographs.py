"""Images for `make gpu`: JPEG files in a folder a class; where Pillow is missing, an array of pixels."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

CLASSES = 10
#: In a folder with this file there are no photographs.
PIXELS, SIDE = "images.npy", 256


def make_images(folder: Path, images: int) -> str:
    """Makes them; says what they are."""
    if importlib.util.find_spec("PIL") is None:
        make_pixels(folder, images)
        return f"arrays of {SIDE}×{SIDE} pixels, since Pillow is not installed: nothing is decoded"
    make_photographs(folder, images)
    return "JPEG files of 500×400 pixels, smooth with some noise, some 60 KB each"


def make_pixels(folder: Path, images: int) -> None:
    folder.mkdir(exist_ok=True)
    np.save(folder / PIXELS, np.random.default_rng(0).integers(0, 256, (images, SIDE, SIDE, 3), np.uint8))


def make_photographs(folder: Path, images: int) -> None:
    for number in range(CLASSES):
        (folder / f"{number:02}").mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(_make, range(images), [folder] * images))


def _make(number: int, folder: Path) -> None:
    from PIL import Image

    random = np.random.default_rng(number)
    coarse = Image.fromarray(random.integers(0, 256, (20, 25, 3), np.uint8))
    smooth = np.asarray(coarse.resize((500, 400), Image.Resampling.BICUBIC), np.int16)
    noisy = np.clip(smooth + random.integers(-12, 13, smooth.shape, np.int16), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(folder / f"{number % CLASSES:02}" / f"{number:05}.jpg", quality=85)
