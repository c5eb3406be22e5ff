"""The demo's images: JPEG crops of real photographs that ship with scikit-image and scikit-learn.

The class of a crop is its photograph. A grid divides every photograph into cells, and a crop lies inside one cell. A
quarter of the cells is for validation, so no pixel is in both sets.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.cli.console import Report
from penstock.core.errors import SourceError

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

_RECIPE_FILE = "recipe.json"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is built; the same recipe gives the same images."""

    version: int = 1
    train_per_class: int = 240
    validation_per_class: int = 60
    crop_pixels: tuple[int, int] = (64, 96)
    cell_pixels: int = 100
    quality: int = 90
    flattest: float = 6.0  # crops with a smaller standard deviation (black sky) teach nothing


def build(folder: Path, recipe: Recipe, report: Report) -> bool:
    """Make folder/train and folder/validation with a folder for every class; False if they exist already.

    Raises SourceError if the folder holds something else. An interrupted build leaves nothing behind.
    """
    wanted = asdict(recipe) | {"crop_pixels": list(recipe.crop_pixels)}
    if (folder / _RECIPE_FILE).is_file() and json.loads((folder / _RECIPE_FILE).read_text()) == wanted:
        return False
    if folder.exists() and any(folder.iterdir()):
        raise SourceError(f"{folder}: holds something other than this demo's images; choose another --dir or empty it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write_all(unfinished, recipe, report)
        (unfinished / _RECIPE_FILE).write_text(json.dumps(wanted))
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return True


def default_folder(recipe: Recipe) -> Path:
    """A folder for the recipe in the user's cache directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.blake2b(json.dumps(asdict(recipe)).encode(), digest_size=4).hexdigest()
    return cache / "penstock" / f"demo-{digest}"


def photographs() -> Iterator[tuple[str, Callable[[], Pixels]]]:
    """Every class with a function that loads its photograph: uint8 (height, width) or (height, width, 3)."""
    import skimage.data
    from sklearn.datasets import load_sample_image

    loaders: dict[str, Callable[[], Any]] = {name: getattr(skimage.data, key) for name, key in _SKIMAGE.items()}
    loaders["motorcycle"] = lambda: skimage.data.stereo_motorcycle()[0]
    loaders |= {name: partial(load_sample_image, file) for name, file in _SKLEARN.items()}
    yield from sorted(loaders.items())


def _write_all(folder: Path, recipe: Recipe, report: Report) -> None:
    loaders = list(photographs())
    counts = {"train": recipe.train_per_class, "validation": recipe.validation_per_class}
    done, total = 0, len(loaders) * sum(counts.values())
    for number, (name, load) in enumerate(loaders):
        photograph = load()
        for split, count in counts.items():
            place = folder / split / name
            place.mkdir(parents=True)
            random = np.random.default_rng([recipe.version, number, split == "validation"])
            for crop in range(count):
                _write_jpeg(place / f"{crop:04}.jpg", _crop(photograph, split, random, recipe), recipe.quality)
                report(done := done + 1, total)


def _crop(photograph: Pixels, split: str, random: np.random.Generator, recipe: Recipe) -> Pixels:
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
