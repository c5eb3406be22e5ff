"""Makes the bench's photographs and rows; runs in the environment "data" (scikit-image, scikit-learn, Pillow, NumPy).

Every photograph is a crop of one that ships inside scikit-image or scikit-learn, scaled a little, with light noise, so that sizes, detail and
entropy are those of real pictures. All of it follows from one seed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from skimage import data as skimage_data
from sklearn.datasets import load_sample_image

from work import FLOATS, INTS, LARGE, TITLES, Data

SEED = 20_261_120
PHOTOGRAPHS = 96 if LARGE else 2_048
ROWS = 1_048_576
SOURCES = (
    "astronaut",
    "chelsea",
    "coffee",
    "hubble_deep_field",
    "immunohistochemistry",
    "retina",
    "rocket",
    "china.jpg",
    "flower.jpg",
)

Pixels = NDArray[np.uint8]


def source(name: str) -> Image.Image:
    """source("china.jpg"), source("coffee"): one of the shipped photographs."""
    pixels = load_sample_image(name) if "." in name else getattr(skimage_data, name)()
    return Image.fromarray(np.ascontiguousarray(pixels[..., :3]))


def crop(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    """A crop of about 480×400 (or 3,000×2,000), scaled by 0.8 to 1.25 (more where the source is small), with noise of 3 to 7 levels."""
    size = (2_700, 3_301, 1_800, 2_201) if LARGE else (432, 529, 360, 441)
    width, height = int(random.integers(*size[:2])), int(random.integers(*size[2:]))
    scale = max(width / picture.width, height / picture.height, float(random.uniform(0.8, 1.25)))
    box_width, box_height = min(picture.width, width / scale), min(picture.height, height / scale)
    left, top = random.uniform(0, picture.width - box_width), random.uniform(0, picture.height - box_height)
    piece = picture.resize(
        (width, height), Image.Resampling.BICUBIC, box=(left, top, left + box_width, top + box_height)
    )
    noise = random.normal(0.0, random.uniform(3.0, 7.0), (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(piece) + noise, 0, 255).astype(np.uint8))


def write_photographs(data: Data) -> None:
    """2,048 JPEG files (96 large ones) of quality 90 to 97 in one class folder per source."""
    random = np.random.default_rng(SEED)
    pictures = {name.partition(".")[0]: source(name) for name in SOURCES}
    names = sorted(pictures)
    for number in range(PHOTOGRAPHS):
        name = names[number % len(names)]
        path = data.photographs / name / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        crop(pictures[name], random).save(path, quality=int(random.integers(90, 98)))


def write_rows(data: Data) -> None:
    """1,048,576 rows of 32 floats, 16 ints and a label."""
    random = np.random.default_rng(SEED)
    data.rows.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        data.rows,
        floats=random.standard_normal((ROWS, FLOATS), dtype=np.float32),
        ints=random.integers(0, 1_000, (ROWS, INTS), dtype=np.int64),
        label=random.integers(0, 10, ROWS, dtype=np.int64),
    )


if __name__ == "__main__":
    write_photographs(Data(Path(sys.argv[1])))
    if "b" in TITLES:
        write_rows(Data(Path(sys.argv[1])))
