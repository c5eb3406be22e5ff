"""What the demo trains, and on what.

The full demo trains a PyTorch network on photographs. The quick one needs only Penstock's own dependencies: it trains a
softmax regression in NumPy on drawings.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import penstock as ps
from penstock.cli.demo_images import Drawings, Photographs, Recipe
from penstock.cli.demo_proof import Framework
from penstock.core.errors import PlanError
from penstock.core.installing import pip_install

BATCH_SIZE = 128
_PIXELS = 48
_AREAS = 4  # along each side of an image
_RATE = 0.5

Floats = npt.NDArray[np.float32]


class Trainer(Protocol):
    """A model with its optimizer."""

    def step(self, batch: dict[str, Any]) -> tuple[float, float]:
        """Train on one batch; returns its loss and accuracy."""

    def accuracy(self, loader: ps.Loader) -> float:
        """Share of samples that the model classifies correctly, over one pass."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """A model and its images.

    images: what they are, with {classes} for the number; trainer: makes one from the numbers of classes and steps;
    needed: packages beyond Penstock's own, module -> name.
    """

    recipe: Recipe
    images: str
    framework: Framework
    trainer: Callable[[int, int], Trainer]
    epochs: int
    needed: dict[str, str] = field(default_factory=dict)

    def check_installed(self) -> None:
        """PlanError if packages are missing."""
        missing = [name for module, name in self.needed.items() if importlib.util.find_spec(module) is None]
        if missing:
            raise PlanError(
                f"the demo needs {', '.join(missing)}; {pip_install(*missing)}, "
                f"or run penstock demo --quick, which needs none of them"
            )


def _torch_trainer(classes: int, steps: int) -> Trainer:
    from penstock.cli.demo_train import TorchTrainer

    return TorchTrainer(classes, steps)


class SoftmaxTrainer:
    """A matrix of weights from the mean colours of an image's 16 areas to class scores."""

    def __init__(self, classes: int, steps: int) -> None:
        self._weights: Floats = np.zeros((3 * _AREAS * _AREAS, classes), dtype=np.float32)

    def step(self, batch: dict[str, Any]) -> tuple[float, float]:
        """Train on one batch; returns its loss and accuracy."""
        colours, labels = _mean_colours(batch["image"]), batch["label"]
        rows = np.arange(len(labels))
        odds = np.exp(colours @ self._weights)
        chances = odds / odds.sum(axis=1, keepdims=True)
        loss = -float(np.log(chances[rows, labels]).mean())
        accuracy = float((chances.argmax(axis=1) == labels).mean())
        chances[rows, labels] -= 1  # now the gradient of the scores
        self._weights -= _RATE / len(labels) * (colours.T @ chances)
        return loss, accuracy

    def accuracy(self, loader: ps.Loader) -> float:
        """Share of samples that the model classifies correctly, over one pass."""
        scores = ((_mean_colours(batch["image"]) @ self._weights, batch["label"]) for batch in loader)
        return sum(int((found.argmax(axis=1) == labels).sum()) for found, labels in scores) / len(loader.dataset)


def _mean_colours(images: Floats) -> Floats:
    """(rows, 3, height, width) to (rows, 48)."""
    rows, channels, height, width = images.shape
    areas = images.reshape(rows, channels, _AREAS, height // _AREAS, _AREAS, width // _AREAS)
    colours: Floats = areas.mean(axis=(3, 5)).reshape(rows, -1)
    return colours


def training_set(folder: Path) -> ps.Dataset:
    """Shuffled and augmented images in batches of 128."""
    return (
        ps.read(f"{folder}/train")
        .shuffle(seed=0)
        .transform(
            image=[
                ps.image.Decode(),
                ps.image.RandomResizedCrop(_PIXELS, scale=(0.4, 1.0)),
                ps.image.RandomHorizontalFlip(),
                ps.image.Normalize(ps.image.IMAGENET),
            ]
        )
        .batch(BATCH_SIZE, drop_last=True)
    )


def validation_set(folder: Path) -> ps.Dataset:
    """Whole images that the training set never shows, in natural order."""
    return (
        ps.read(f"{folder}/validation")
        .transform(
            image=[ps.image.Decode(), ps.image.Resize((_PIXELS, _PIXELS)), ps.image.Normalize(ps.image.IMAGENET)],
        )
        .batch(BATCH_SIZE)
    )


FULL = Course(
    recipe=Photographs(),
    images="crops of {classes} photographs",
    framework="torch",
    trainer=_torch_trainer,
    epochs=8,
    needed={"torch": "torch", "skimage": "scikit-image", "sklearn": "scikit-learn", "PIL": "pillow"},
)

QUICK = Course(
    recipe=Drawings(),
    images="drawings in {classes} hues",
    framework="numpy",
    trainer=SoftmaxTrainer,
    epochs=3,
)
