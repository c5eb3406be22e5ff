"""The demo's two datasets and its model, as a user's script would have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

import penstock as ps

BATCH_SIZE = 128
_SIZE = 48


def training_set(folder: Path) -> ps.Dataset:
    """Shuffled and augmented crops in batches of 128."""
    return (
        ps.read(f"{folder}/train")
        .shuffle(seed=0)
        .transform(
            image=[
                ps.image.Decode(),
                ps.image.RandomResizedCrop(_SIZE, scale=(0.4, 1.0)),
                ps.image.RandomHorizontalFlip(),
                ps.image.Normalize(ps.image.IMAGENET),
            ]
        )
        .batch(BATCH_SIZE, drop_last=True)
    )


def validation_set(folder: Path) -> ps.Dataset:
    """Whole crops, in natural order, from parts of the photographs that the training set never shows."""
    return (
        ps.read(f"{folder}/validation")
        .transform(
            image=[ps.image.Decode(), ps.image.Resize((_SIZE, _SIZE)), ps.image.Normalize(ps.image.IMAGENET)],
        )
        .batch(BATCH_SIZE)
    )


class Trainer:
    """A small convolutional network with its optimizer."""

    def __init__(self, classes: int, steps: int) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)  # a network this small gains nothing from a second thread
        layers = [*_convolution(3, 32), *_convolution(32, 64), *_convolution(64, 128)]
        self._model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes))
        self._loss = nn.CrossEntropyLoss()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=3e-3)
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimizer, steps)

    def step(self, batch: dict[str, Any]) -> tuple[float, float]:
        """Train on one batch; returns its loss and accuracy."""
        self._model.train()
        scores = self._model(batch["image"])
        loss = self._loss(scores, batch["label"])
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._schedule.step()
        return loss.item(), _share_right(scores, batch["label"])

    def accuracy(self, loader: ps.Loader) -> float:
        """Share of samples that the model classifies correctly, over one pass."""
        self._model.eval()
        with torch.no_grad():
            right = sum(_share_right(self._model(b["image"]), b["label"]) * len(b["label"]) for b in loader)
        return right / len(loader.dataset)


def _convolution(channels: int, made: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, made, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU()]


def _share_right(scores: torch.Tensor, labels: torch.Tensor) -> float:
    return float((scores.argmax(dim=1) == labels).float().mean())
