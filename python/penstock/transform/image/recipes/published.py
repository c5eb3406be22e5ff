"""Recipes by name, as those who published them have them in their code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from penstock.core.arguments import is_one_of, is_whole
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.transform.image.along import Mask
from penstock.transform.image.boxes import Boxes, ConvertBoundingBoxFormat, RandomIoUCrop, SanitizeBoundingBoxes
from penstock.transform.image.colour import RandomGrayscale, RandomSolarize
from penstock.transform.image.decode import Decode
from penstock.transform.image.erasing import RandomErasing
from penstock.transform.image.geometry import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize
from penstock.transform.image.jitter import ColorJitter, RandomPhotometricDistort
from penstock.transform.image.margins import RandomCrop, RandomZoomOut
from penstock.transform.image.mixes import CutMix, MixUp
from penstock.transform.image.nested import RandomApply, RandomChoice
from penstock.transform.image.numbers import IMAGENET, Normalize, ToDtype
from penstock.transform.image.op import LARGEST_SIDE, ImageOp
from penstock.transform.image.policies import TrivialAugmentWide, timm
from penstock.transform.image.quality import GaussianBlur
from penstock.transform.image.sizes import Letterbox, RandomResize
from penstock.transform.image.view import From

PresetName: TypeAlias = Literal["resnet50-v2", "deit", "simclr", "dino", "detection-ssd", "segmentation"]

#: An op or a list of ops for each column, as `transform` takes them.
Columns: TypeAlias = Mapping[str, Any]

_DECODE = Decode("RGB")
_BLURS = (0.1, 2.0)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What `presets` returns.

    Args:
        train: an op or a list of ops for each column, for `transform(**preset.train)`.
        test: the same for images that a model is tested on.
        alphas: of MixUp and of CutMix, by which batches are mixed; None where the recipe mixes none.
        source: where the recipe is published.

    Example:
        deit = ps.image.presets("deit")
        photos = ps.read("photos").shuffle(seed=0).transform(**deit.train).batch(8).transform(deit.mix(num_classes=2))
        deit.alphas == (0.8, 1.0)
    """

    train: Columns
    test: Columns
    source: str
    alphas: tuple[float, float] | None = None

    def mix(self, **options: Any) -> ImageOp:
        """MixUp or CutMix, each in half of the steps, for `batch(…).transform(preset.mix(num_classes=1000))`.

        Args:
            **options: as of `MixUp` and `CutMix`: num_classes, and labels, columns, among, per_row.

        Returns:
            An op on batches.

        Raises:
            PlanError: for a recipe that mixes no batches, and for options as `MixUp` does.

        Example:
            ps.image.presets("resnet50-v2").mix(num_classes=2).ops == (ps.image.MixUp(0.2, num_classes=2), ps.image.CutMix(1.0, num_classes=2))
        """
        if self.alphas is None:
            raise PlanError(
                f"this recipe mixes no batches ({self.source}); write ps.image.MixUp(0.2, num_classes=…) to mix them"
            )
        mixup, cutmix = self.alphas
        return RandomChoice([MixUp(mixup, **options), CutMix(cutmix, **options)])


def presets(name: PresetName, *, size: int | None = None, image: str = "image") -> Preset:
    """A published recipe: `transform(**presets("deit").train)`.

    | name | train | test | published in |
    | --- | --- | --- | --- |
    | "resnet50-v2" | crop of 176, flip, `TrivialAugmentWide`, erasing; MixUp or CutMix | 232, centre of 224 | torchvision's references/classification, the weights IMAGENET1K_V2 |
    | "deit" | crop of 224, flip, `timm("rand-m9-mstd0.5-inc1")`, erasing of noise; MixUp or CutMix | 256, centre of 224 | facebookresearch/deit |
    | "simclr" | two views of 224: crop, flip, jitter, grey, blur; from 0 to 1 | 256, centre of 224 | google-research/simclr |
    | "dino" | two views of 224 and eight of 96: crop, flip, jitter, grey, blur, solarize | 256, centre of 224 | facebookresearch/dino |
    | "detection-ssd" | distort, zoom out, crop by boxes, flip; 300, from 0 to 1 | 300 | torchvision's references/detection, "ssd" |
    | "segmentation" | 260 to 1,040, flip, crop of 480 | 520, in a frame | torchvision's references/segmentation |

    Views are decoded once: "view" is the second one, "local_1" to "local_8" are DINO's small ones. Pixels are those of our ops, whose names, arguments and distributions are torchvision's. What the sources do otherwise:
    timm warps by bicubic or bilinear interpolation by turns, SimCLR changes the contrast of each channel around its own mean, and DINO's blur is Pillow's, which is close to a kernel of 9 pixels.

    For detection the columns "boxes" and "label" lie along; boxes come as XYXY, and if yours are of another format, say it: `{**ssd.train, "boxes": [Boxes(of="image", format="XYWH", labels="label"), *ssd.train["boxes"][1:]]}`.
    The resize is what torchvision's SSD does itself. For segmentation it is "mask", with 255 where there is no image; small images get their margin on both sides, and where a reference tests images one by one, of their own sizes, here a batch holds one size.

    Args:
        name: of the recipe.
        size: pixels of both sides of the images that it trains on, to which its other sizes keep their ratios. Default: as published.
        image: the column of images. Default: "image".

    Returns:
        A `Preset`.

    Raises:
        PlanError: for a name that there is not, and for a size that is none.

    Example: two views of each photograph, `batch["image"]` and `batch["view"]`.

        simclr = ps.image.presets("simclr", size=64)
        photos = ps.read("photos").shuffle(seed=0).transform(**simclr.train).batch(8)
        photos.head(2)["view"].shape == (2, 3, 64, 64)
    """
    if not is_one_of(name, tuple(_PRESETS)):
        raise PlanError(
            f"presets: no recipe {quoted(name)}; there are {', '.join(_PRESETS)}{did_you_mean(str(name), _PRESETS)}"
        )
    make, published = _PRESETS[name]
    if size is not None and not (is_whole(size) and 8 <= size <= LARGEST_SIDE // 2):
        raise PlanError(f"presets: size={quoted(size)}; give pixels of both sides, from 8 on")
    if not isinstance(image, str):
        raise PlanError(f"presets: image={quoted(image)}; give the name of the column of images")
    return make(published if size is None else int(size), image)


def _tested(shorter: int, size: int, *numbers: ImageOp, interpolation: Any = "bicubic") -> list[ImageOp]:
    return [_DECODE, Resize(shorter, interpolation), CenterCrop(size), *numbers]


def _resnet50(size: int, image: str) -> Preset:
    train = [
        _DECODE,
        RandomResizedCrop(size),
        RandomHorizontalFlip(),
        TrivialAugmentWide(interpolation="bilinear"),
        Normalize(IMAGENET),
        RandomErasing(0.1),
    ]
    shorter, centre = round(size * 232 / 176), round(size * 224 / 176)
    return Preset(
        train={image: train},
        test={image: _tested(shorter, centre, Normalize(IMAGENET), interpolation="bilinear")},
        alphas=(0.2, 1.0),
        source="torchvision, references/classification: --auto-augment ta_wide --random-erase 0.1 --mixup-alpha 0.2 --cutmix-alpha 1.0 --train-crop-size 176 --val-resize-size 232",
    )


def _deit(size: int, image: str) -> Preset:
    train = [
        _DECODE,
        RandomResizedCrop(size, interpolation="bicubic"),
        RandomHorizontalFlip(),
        timm("rand-m9-mstd0.5-inc1"),
        Normalize(IMAGENET),
        RandomErasing(0.25, (0.02, 1 / 3), (0.3, 1 / 0.3), "random"),
    ]
    return Preset(
        train={image: train},
        test={image: _tested(round(size / 0.875), size, Normalize(IMAGENET))},
        alphas=(0.8, 1.0),
        source="facebookresearch/deit, main.py and datasets.py, by timm's create_transform",
    )


def _simclr(size: int, image: str) -> Preset:
    view = [
        RandomResizedCrop(size, interpolation="bicubic"),
        RandomHorizontalFlip(),
        RandomApply([ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        RandomGrayscale(0.2),
        RandomApply([GaussianBlur(2 * (size // 10 // 2) + 1, _BLURS)], p=0.5),
        ToDtype("float32", scale=True),
    ]
    return Preset(
        train={image: [_DECODE, *view], "view": From(image, view)},
        test={image: _tested(round(size / 0.875), size, ToDtype("float32", scale=True))},
        source="google-research/simclr, tf2/data_util.py, with a colour strength of 1",
    )


def _dino(size: int, image: str) -> Preset:
    large = _dino_view(size, (0.4, 1.0), GaussianBlur(9, _BLURS))
    other = _dino_view(size, (0.4, 1.0), RandomApply([GaussianBlur(9, _BLURS)], 0.1), RandomSolarize(128, 0.2))
    small = _dino_view(round(size * 96 / 224), (0.05, 0.4), RandomApply([GaussianBlur(9, _BLURS)], 0.5))
    views = {"view": From(image, other)} | {f"local_{number}": From(image, small) for number in range(1, 9)}
    return Preset(
        train={image: [_DECODE, *large], **views},
        test={image: _tested(round(size / 0.875), size, Normalize(IMAGENET))},
        source="facebookresearch/dino, DataAugmentationDINO of main_dino.py with its defaults; a blur of 9 pixels as in facebookresearch/dinov2",
    )


def _dino_view(size: int, scale: tuple[float, float], *blurred: ImageOp) -> Sequence[ImageOp]:
    return [
        RandomResizedCrop(size, scale, interpolation="bicubic"),
        RandomHorizontalFlip(),
        RandomApply([ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        RandomGrayscale(0.2),
        *blurred,
        Normalize(IMAGENET),
    ]


def _detection_ssd(size: int, image: str) -> Preset:
    resized = [Resize((size, size), antialias=False), ToDtype("float32", scale=True)]  # the model's own resize
    boxes = [Boxes(of=image, labels=("label",)), ConvertBoundingBoxFormat("XYXY")]
    train = [
        _DECODE,
        RandomPhotometricDistort(),
        RandomZoomOut((123, 117, 104)),
        RandomIoUCrop(),
        RandomHorizontalFlip(),
        *resized,
    ]
    return Preset(
        train={image: train, "boxes": [*boxes, SanitizeBoundingBoxes()]},
        test={image: [_DECODE, *resized], "boxes": boxes},
        source='torchvision, references/detection/presets.py: data_augmentation="ssd"',
    )


def _segmentation(size: int, image: str) -> Preset:
    base = round(size * 520 / 480)
    train = [
        _DECODE,
        RandomResize(base // 2, 2 * base),
        RandomHorizontalFlip(),
        RandomCrop(size, pad_if_needed=True),
        Normalize(IMAGENET),
    ]
    return Preset(
        train={image: train, "mask": Mask(of=image, fill=255)},
        test={image: [_DECODE, Letterbox(base), Normalize(IMAGENET)], "mask": Mask(of=image, fill=255)},
        source="torchvision, references/segmentation/presets.py, with base_size=520 and crop_size=480",
    )


#: Of each recipe what makes it, of a size and the image's column, and its published size.
_PRESETS: dict[str, tuple[Callable[[int, str], Preset], int]] = {
    "resnet50-v2": (_resnet50, 176),
    "deit": (_deit, 224),
    "simclr": (_simclr, 224),
    "dino": (_dino, 224),
    "detection-ssd": (_detection_ssd, 300),
    "segmentation": (_segmentation, 480),
}
