"""Penstock's side of the image recipes: the public API, nothing tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from common import BATCH, CLASSES, SIZE, Feed

import penstock as ps
from ours_formats import feed
from work import Data

image = ps.image


CROP = (image.RandomResizedCrop(SIZE), image.RandomHorizontalFlip())
NORMALISE = image.Normalize(image.IMAGENET)
PLAIN = (*CROP, NORMALISE)
MODERN = (*CROP, image.TrivialAugmentWide(), NORMALISE, image.RandomErasing(0.1))
SIMCLR = (
    *CROP,
    image.RandomApply([image.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
    image.RandomGrayscale(0.2),
    image.RandomApply([image.GaussianBlur(23, (0.1, 2.0))], p=0.5),
    NORMALISE,
)
EITHER = image.RandomChoice([image.MixUp(0.2, num_classes=CLASSES), image.CutMix(num_classes=CLASSES)])


def recipe(data: Data, *, workload: str, ops: Sequence[Any], views: Mapping[str, Any] = {}, mix: Any = None) -> Feed:
    """Ops on each photograph, other views of it, and a mix of the batch."""
    photographs = ps.read(str(data.photographs)).shuffle(seed=0)
    chains = {"image": [image.Decode(entry_points="off"), *ops], **views}
    train = photographs.transform(**chains).batch(BATCH[workload], drop_last=True)
    return feed(train if mix is None else train.transform(mix), "image", format="JPEG files", antialias=True)


def detection(data: Data) -> Feed:
    """Boxes and masks along with each photograph."""
    ssd = image.presets("detection-ssd", size=640).train
    chain = [image.Decode(entry_points="off"), *ssd["image"][1:]]
    boxes = [image.Boxes(of="image", format="XYWH", labels=("label", "masks")), *ssd["boxes"][1:]]
    photographs = ps.read(str(data.photographs), annotations=str(data.instances), masks=True)
    photographs = photographs.select("image", "boxes", "label", "masks")
    train = photographs.shuffle(seed=0).transform(image=chain, boxes=boxes, masks=image.Mask(of="image"))
    return feed(train.batch(BATCH["images-detection"], drop_last=True), "image", format="JPEG files, COCO's JSON")


FEEDS = {
    "images-detection": {"exact": detection},
    "images-modern": {
        "exact": partial(recipe, workload="images-modern", ops=MODERN),
        "plain recipe": partial(recipe, workload="images-modern", ops=PLAIN),
    },
    "images-mixed": {"exact": partial(recipe, workload="images-mixed", ops=MODERN, mix=EITHER)},
    "images-simclr": {
        "exact": partial(recipe, workload="images-simclr", ops=SIMCLR, views={"other": image.From("image", SIMCLR)})
    },
}
