"""The quick demo's model: a softmax regression in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.loader import Loader

_AREAS = 4  # along each side of an image
_RATE = 0.5

Floats = npt.NDArray[np.float32]


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

    def accuracy(self, loader: Loader) -> float:
        """Share of samples that the model classifies correctly, over one pass."""
        right = sum(self._count_right(batch["image"], batch["label"]) for batch in loader)
        return right / len(loader.dataset)

    def _count_right(self, images: Floats, labels: npt.NDArray[np.int64]) -> int:
        return int(((_mean_colours(images) @ self._weights).argmax(axis=1) == labels).sum())


def _mean_colours(images: Floats) -> Floats:
    """(rows, 3, height, width) to (rows, 48)."""
    rows, channels, height, width = images.shape
    areas = images.reshape(rows, channels, _AREAS, height // _AREAS, _AREAS, width // _AREAS)
    colours: Floats = areas.mean(axis=(3, 5)).reshape(rows, -1)
    return colours
