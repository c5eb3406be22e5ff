"""What the peers of PyTorch's family do with one photograph: the recipe of torchvision's own references, on tensors and with transforms.v2."""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import MEAN, SIZE, STD
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

Encoded = bytes | memoryview | bytearray | torch.Tensor


def transforms(*, normalise: bool = True) -> v2.Compose:
    """Pixels (3, height, width) → a normalised float32 tensor (3, 224, 224), resized with antialias; or uint8 as it is."""
    crop = [v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()]
    return v2.Compose([*crop, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)] if normalise else crop)


def preparation(*, normalise: bool = True) -> Callable[[Encoded], torch.Tensor]:
    """A function from JPEG bytes to what `transforms` make of them."""
    chain = transforms(normalise=normalise)

    def prepare(encoded: Encoded) -> torch.Tensor:
        given = (
            encoded if isinstance(encoded, torch.Tensor) else torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        )
        return chain(decode_jpeg(given, mode=ImageReadMode.RGB))

    return prepare
