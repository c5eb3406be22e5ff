"""The demo's folder of images: built once from a recipe, found again by the next run.

A recipe is either JPEG crops of real photographs that ship with scikit-image and scikit-learn, or drawings in PNG, which need
no other package.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock.cli.console import Report
from penstock.core.errors import SourceError
from penstock.observe.png import Pixels, png

_RECIPE_FILE = "recipe.json"
_BLOCK_PIXELS = 8

#: Class name -> function of skimage.data. Its wheel holds all of these; nothing is downloaded.
_PLAIN = ("astronaut", "brick", "cat", "coffee", "coins", "grass", "gravel", "moon", "retina", "rocket")
_SKIMAGE = {name: name for name in _PLAIN} | {
    "cameraman": "camera",
    "hubble": "hubble_deep_field",
    "motorcycle": "stereo_motorcycle",
    "tissue": "immunohistochemistry",
}
#: Class name -> file of sklearn.datasets.load_sample_image.
_SKLEARN = {"flower": "flower.jpg", "temple": "china.jpg"}


@dataclass(frozen=True, kw_only=True)
class Photographs:
    """How many crops of each photograph, and of which sizes; the class of a crop is its photograph.

    A grid divides every photograph into cells, and a crop lies inside one cell. A quarter of the cells is for validation, so no
    pixel is in both sets.
    """

    version: int = 1
    train_per_class: int = 240
    validation_per_class: int = 60
    crop_pixels: tuple[int, int] = (64, 96)
    cell_pixels: int = 100
    quality: int = 90
    flattest: float = 6.0  # crops with a smaller standard deviation (black sky) teach nothing

    def write(self, folder: Path, report: Report) -> None:
        """Make train and validation inside the folder, each with a folder for every photograph."""
        loaders, counts = photographs(), (self.train_per_class, self.validation_per_class)
        classes = ((name, partial(self._crop, load())) for name, load in loaders)
        _write(folder, ".jpg", classes, counts, self.version, lambda done: report(done, len(loaders) * sum(counts)))

    def _crop(self, photograph: Pixels, split: str, random: np.random.Generator) -> bytes:
        """A random rectangle inside a random cell of the split, with something to see in it."""
        from PIL import Image

        cells = _cells(photograph.shape[0], photograph.shape[1], self.cell_pixels, split)
        while True:
            top, left, height, width = cells[random.integers(len(cells))]
            crop_height, crop_width = random.integers(*self.crop_pixels, size=2, endpoint=True)
            y = top + random.integers(height - crop_height, endpoint=True)
            x = left + random.integers(width - crop_width, endpoint=True)
            crop = photograph[y : y + crop_height, x : x + crop_width]
            if crop.std() >= self.flattest:
                file = io.BytesIO()
                Image.fromarray(np.ascontiguousarray(crop)).save(file, "JPEG", quality=self.quality)
                return file.getvalue()


@dataclass(frozen=True, kw_only=True)
class Drawings:
    """How many hues, how many drawings of each, and of which sizes in blocks; the class of a drawing is its hue."""

    version: int = 1
    hues: int = 8
    train_per_hue: int = 128
    validation_per_hue: int = 32
    blocks: tuple[int, int] = (8, 12)

    def write(self, folder: Path, report: Report) -> None:
        """Make train and validation inside the folder, each with a folder for every hue."""
        hues, counts = range(self.hues), (self.train_per_hue, self.validation_per_hue)
        classes = ((f"hue-{360 * hue // self.hues:03}", partial(self._draw, hue)) for hue in hues)
        _write(folder, ".png", classes, counts, self.version, lambda done: report(done, self.hues * sum(counts)))

    def _draw(self, hue: int, _: str, random: np.random.Generator) -> bytes:
        """Blocks of random brightness, from grey to the full hue."""
        colour = 0.5 + 0.5 * np.cos(2 * np.pi * (hue / self.hues - np.array([0, 1 / 3, 2 / 3])))
        height, width = random.integers(*self.blocks, size=2, endpoint=True)
        brightness, strength = random.random((2, height, width, 1))
        blocks: Pixels = (255 * brightness * (1 - strength * (1 - colour))).astype(np.uint8)
        return png(blocks.repeat(_BLOCK_PIXELS, axis=0).repeat(_BLOCK_PIXELS, axis=1))


#: What is built; the same recipe gives the same images.
Recipe = Photographs | Drawings


def build(folder: Path, recipe: Recipe, report: Report) -> bool:
    """Make folder/train and folder/validation with a folder for every class; False if they exist already.

    Raises SourceError if the folder holds something else. An interrupted build leaves nothing behind.
    """
    wanted = json.dumps(asdict(recipe))
    if (folder / _RECIPE_FILE).is_file() and json.loads((folder / _RECIPE_FILE).read_text()) == json.loads(wanted):
        return False
    if folder.exists() and any(folder.iterdir()):
        raise SourceError(f"{folder}: holds something other than this demo's images; choose another --dir or empty it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        recipe.write(unfinished, report)
        (unfinished / _RECIPE_FILE).write_text(wanted)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return True


def default_folder(recipe: Recipe) -> Path:
    """A folder for the recipe in the user's cache directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.blake2b(json.dumps(asdict(recipe)).encode(), digest_size=4).hexdigest()
    return cache / "penstock" / f"demo-{digest}"


def _write(
    folder: Path,
    suffix: str,
    classes: Iterable[tuple[str, Callable[[str, np.random.Generator], bytes]]],
    counts: tuple[int, int],
    version: int,
    report: Callable[[int], None],
) -> None:
    """Numbered files of every class and split, by the function of the class; every split has random numbers of its own."""
    done = 0
    for number, (name, make) in enumerate(classes):
        for split, count in zip(("train", "validation"), counts, strict=True):
            place = folder / split / name
            place.mkdir(parents=True)
            random = np.random.default_rng([version, number, split == "validation"])
            for image in range(count):
                (place / f"{image:04}{suffix}").write_bytes(make(split, random))
                report(done := done + 1)


def photographs() -> list[tuple[str, Callable[[], Pixels]]]:
    """Every class with a function that loads its photograph: uint8 (height, width) or (height, width, 3)."""
    import skimage.data
    from sklearn.datasets import load_sample_image

    loaders: dict[str, Callable[[], Any]] = {name: getattr(skimage.data, key) for name, key in _SKIMAGE.items()}
    loaders["motorcycle"] = lambda: skimage.data.stereo_motorcycle()[0]
    loaders |= {name: partial(load_sample_image, file) for name, file in _SKLEARN.items()}
    return sorted(loaders.items())


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
