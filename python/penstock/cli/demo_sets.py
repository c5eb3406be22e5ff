"""The demo's two datasets, as a user's script would have them."""

from __future__ import annotations

from pathlib import Path

import penstock as ps

BATCH_SIZE = 128
_SIZE = 48


def training_set(folder: Path) -> ps.Dataset:
    """Shuffled and augmented images in batches of 128."""
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
    """Whole images that the training set never shows, in natural order."""
    return (
        ps.read(f"{folder}/validation")
        .transform(
            image=[ps.image.Decode(), ps.image.Resize((_SIZE, _SIZE)), ps.image.Normalize(ps.image.IMAGENET)],
        )
        .batch(BATCH_SIZE)
    )
