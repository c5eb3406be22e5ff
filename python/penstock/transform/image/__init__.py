"""Image ops: `ps.image.Decode()`, `ps.image.RandomResizedCrop(224)` and others; a row here for each.

`op` says what an op is; `recipes` has what others wrote; `along` and `boxes` what lies along with an image, `decode`, `geometry`, `crops`, `margins`, `sizes`, `warps`, `colour`, `jitter`, `quality`, `erasing`, `policies`, `nested`, `numbers`, `view` and `mixes` have them; `mix_kernel` runs those, `along_kernel` what lies along; `kernel` fuses a chain
of them into one native call, `device` says what of one a GPU can do, and
`family` is the door for the engine.
"""

from penstock.transform.image.along import KeyPoints, Mask
from penstock.transform.image.boxes import (
    Boxes,
    ClampBoundingBoxes,
    ConvertBoundingBoxFormat,
    RandomIoUCrop,
    SanitizeBoundingBoxes,
)
from penstock.transform.image.colour import (
    Grayscale,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from penstock.transform.image.crops import FiveCrop, TenCrop
from penstock.transform.image.decode import Decode, loss_in_words
from penstock.transform.image.erasing import RandomErasing
from penstock.transform.image.geometry import (
    CenterCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from penstock.transform.image.jitter import ColorJitter, RandomChannelPermutation, RandomPhotometricDistort
from penstock.transform.image.kernel import ImageKernel, as_first_is, fuse, gives_indices, image_size
from penstock.transform.image.margins import Pad, RandomCrop, RandomZoomOut
from penstock.transform.image.mixes import CutMix, MixUp
from penstock.transform.image.nested import Compose, RandomApply, RandomChoice, RandomOrder
from penstock.transform.image.numbers import IMAGENET, Normalize, Statistics, ToDtype, ToLayout
from penstock.transform.image.op import ImageOp
from penstock.transform.image.policies import AugMix, AutoAugment, RandAugment, TimmAugment, TrivialAugmentWide, timm
from penstock.transform.image.quality import JPEG, GaussianBlur, GaussianNoise, RandomAdjustSharpness
from penstock.transform.image.recipes import Preset, from_albumentations, from_torchvision, presets
from penstock.transform.image.sizes import Letterbox, RandomResize, RandomShortestSize, ScaleJitter
from penstock.transform.image.view import From
from penstock.transform.image.warps import ElasticTransform, RandomAffine, RandomPerspective, RandomRotation

__all__ = [
    "IMAGENET",
    "JPEG",
    "AugMix",
    "AutoAugment",
    "Boxes",
    "CenterCrop",
    "ClampBoundingBoxes",
    "ColorJitter",
    "Compose",
    "ConvertBoundingBoxFormat",
    "CutMix",
    "Decode",
    "ElasticTransform",
    "FiveCrop",
    "From",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "ImageKernel",
    "ImageOp",
    "KeyPoints",
    "Letterbox",
    "Mask",
    "MixUp",
    "Normalize",
    "Pad",
    "Preset",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "SanitizeBoundingBoxes",
    "ScaleJitter",
    "Statistics",
    "TenCrop",
    "TimmAugment",
    "ToDtype",
    "ToLayout",
    "TrivialAugmentWide",
    "as_first_is",
    "from_albumentations",
    "from_torchvision",
    "fuse",
    "gives_indices",
    "image_size",
    "loss_in_words",
    "presets",
    "timm",
]
