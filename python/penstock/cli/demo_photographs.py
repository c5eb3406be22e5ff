"""JPEG crops of real photographs that ship with scikit-image and scikit-learn.

The class of a crop is its photograph. A grid divides every photograph into cells, and a crop lies inside one cell. A
quarter of the cells is for validation, so no pixel is in both sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.cli.console import Report

Pixels = npt.NDArray[np.uint8]

#: Class name -> function of skimage.data. Its wheel holds all of these; nothing is downloaded.
_SKIMAGE = {
    "astronaut": "astronaut",
    "brick": "brick",
    "cameraman": "camera",
    "cat": "cat",
    "coffee": "coffee",
    "coins": "coins",
    "grass": "grass",
    "gravel": "gravel",
    "hubble": "hubble_deep_field",
    "moon": "moon",
    "motorcycle": "stereo_motorcycle",
    "retina": "retina",
    "rocket": "rocket",
    "tissue": "immunohistochemistry",
}

#: Class name -> file of sklearn.datasets.load_sample_image.
_SKLEARN = {"flower": "flower.jpg", "temple": "china.jpg"}


@dataclass(frozen=True, kw_only=True)
class Photographs:
    """A recipe: how many crops of each photograph, and of which sizes."""

    version: int = 1
    train_per_class: int = 240
    validation_per_class: int = 60
    crop_pixels: tuple[int, int] = (64, 96)
    cell_pixels: int = 100
    quality: int = 90
    flattest: float = 6.0  # crops with a smaller standard deviation (black sky) teach nothing

    def write(self, folder: Path, report: Report) -> None:
        """Make train and validation inside the folder, each with a folder for every photograph."""
        loaders = list(photographs())
        counts = {"train": self.train_per_class, "validation": self.validation_per_class}
        done, total = 0, len(loaders) * sum(counts.values())
        for number, (name, load) in enumerate(loaders):
            photograph = load()
            for split, count in counts.items():
                place = folder / split / name
                place.mkdir(parents=True)
                random = np.random.default_rng([self.version, number, split == "validation"])
                for crop in range(count):
                    _write_jpeg(place / f"{crop:04}.jpg", _crop(photograph, split, random, self), self.quality)
                    report(done := done + 1, total)


def photographs() -> Iterator[tuple[str, Callable[[], Pixels]]]:
    """Every class with a function that loads its photograph: uint8 (height, width) or (height, width, 3)."""
    import skimage.data
    from sklearn.datasets import load_sample_image

    loaders: dict[str, Callable[[], Any]] = {name: getattr(skimage.data, key) for name, key in _SKIMAGE.items()}
    loaders["motorcycle"] = lambda: skimage.data.stereo_motorcycle()[0]
    loaders |= {name: partial(load_sample_image, file) for name, file in _SKLEARN.items()}
    yield from sorted(loaders.items())


def _crop(photograph: Pixels, split: str, random: np.random.Generator, recipe: Photographs) -> Pixels:
    """A random rectangle inside a random cell of the split, with something to see in it."""
    cells = _cells(photograph.shape[0], photograph.shape[1], recipe.cell_pixels, split)
    while True:
        top, left, height, width = cells[random.integers(len(cells))]
        crop_height, crop_width = random.integers(*recipe.crop_pixels, size=2, endpoint=True)
        y = top + random.integers(height - crop_height, endpoint=True)
        x = left + random.integers(width - crop_width, endpoint=True)
        crop = photograph[y : y + crop_height, x : x + crop_width]
        if crop.std() >= recipe.flattest:
            return crop


def _cells(height: int, width: int, cell_pixels: int, split: str) -> list[tuple[int, int, int, int]]:
    """(top, left, height, width) of a split's cells. Every fourth cell, shifted from row to row, is for validation.

    _cells(200, 400, 100, "validation") == [(0, 0, 100, 100), (0, 200, 100, 100)]
    """
    rows, columns = height // cell_pixels, width // cell_pixels
    cell_height, cell_width = height // rows, width // columns
    return [
        (row * cell_height, column * cell_width, cell_height, cell_width)
        for row in range(rows)
        for column in range(columns)
        if (((row + 2 * column) % 4 == 0) == (split == "validation"))
    ]


def _write_jpeg(path: Path, pixels: Pixels, quality: int) -> None:
    from PIL import Image

    Image.fromarray(np.ascontiguousarray(pixels)).save(path, quality=quality)
