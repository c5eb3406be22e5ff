"""Today's recipes for photographs with transforms.v2 on tensors, as torchvision's own references and SimCLR's paper have them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import CLASSES, MEAN, SIZE, STD
from torch.utils.data import default_collate
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2


def modern() -> Callable[[torch.Tensor], torch.Tensor]:
    """A function from JPEG bytes to a normalised float32 tensor: crop, flip, TrivialAugmentWide, erasing."""
    chain = v2.Compose(
        [
            v2.RandomResizedCrop(SIZE, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.TrivialAugmentWide(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
            v2.RandomErasing(0.1),
        ]
    )
    return lambda encoded: chain(decode_jpeg(encoded, mode=ImageReadMode.RGB))


def mixed(rows: list[tuple[torch.Tensor, int]]) -> list[torch.Tensor]:
    """A batch of rows, blended or cut into one another."""
    either = v2.RandomChoice([v2.MixUp(alpha=0.2, num_classes=CLASSES), v2.CutMix(num_classes=CLASSES)])
    batch: list[torch.Tensor] = either(*default_collate(rows))
    return batch


def two_views() -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """A function from JPEG bytes to SimCLR's two views."""
    chain = v2.Compose(
        [
            v2.RandomResizedCrop(SIZE, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
            v2.RandomGrayscale(0.2),
            v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], p=0.5),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )

    def views(encoded: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decoded = decode_jpeg(encoded, mode=ImageReadMode.RGB)
        return chain(decoded), chain(decoded)

    return views
