"""Today's recipes for photographs with transforms.v2 on tensors, as torchvision's own references and SimCLR's paper have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from common import CLASSES, MEAN, SIZE, STD
from pycocotools.mask import decode, frPyObjects, merge
from torch.utils.data import default_collate
from torchvision import tv_tensors
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


def with_boxes() -> Callable[[torch.Tensor, dict[str, Any]], tuple[Any, ...]]:
    """A function from JPEG bytes, boxes and outlines to those of SSD's recipe at 640 × 640, as torchvision's references/detection has it, with the model's resize."""
    chain = v2.Compose(
        [
            v2.RandomPhotometricDistort(),
            v2.RandomZoomOut(fill={tv_tensors.Image: (123, 117, 104), "others": 0}),
            v2.RandomIoUCrop(),
            v2.RandomHorizontalFlip(),
            v2.Resize((640, 640), antialias=False),
            v2.ToDtype(torch.float32, scale=True),
            v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY),
            v2.SanitizeBoundingBoxes(),
        ]
    )

    def prepare(encoded: torch.Tensor, objects: dict[str, Any]) -> tuple[Any, ...]:
        image = tv_tensors.Image(decode_jpeg(encoded, mode=ImageReadMode.RGB))
        size = image.shape[-2:]
        boxes = tv_tensors.BoundingBoxes(objects["boxes"], format="XYWH", canvas_size=size)  # type: ignore[call-overload]
        runs = [merge(frPyObjects(outline, *size)) for outline in objects["outlines"]]
        masks = tv_tensors.Mask(decode(runs).transpose(2, 0, 1))
        made: tuple[Any, ...] = chain(image, {"boxes": boxes, "labels": objects["labels"], "masks": masks})
        return made

    return prepare


def listed(rows: list[tuple[Any, int]]) -> list[Any]:
    """A batch of images, and lists of boxes and labels."""
    made = [one for one, _ in rows]
    return [torch.stack([image for image, _ in made]), [target for _, target in made]]
