"""Each image op alone on 224² uint8 and one thread, beside torchvision v2 and albumentations: python benches/image_ops.py [NAME …] [--rounds 25] [--json FILE].

Every side takes 32 photographs in memory and ends with a batch of them: ours writes into one, (channels, rows, columns) of pixels (rows, columns, channels);
torchvision's tensors have their channels first from the start and are stacked at the end; albumentations' arrays stay (rows, columns, channels) and are stacked. "no op" is
what that costs alone. The sides take turns. A figure is the least wall time of many rounds, or for ops whose cost hangs on what they draw the middle one, in
microseconds an image; a ratio is theirs over ours: above 1, ours is faster. Ours runs in a thread of its own, whose CPU time the process's clock may count a round too late: hence wall time.

Needs torch, torchvision, albumentations, scikit-learn and rich.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import albumentations
import cv2
import numpy as np
import torch
import torchvision
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_sample_images
from torchvision.transforms import v2

from penstock.core.columns.spec import Field
from penstock.transform import image

ROWS, SIDE = 32, 224
VERSIONS = {"torchvision": torchvision.__version__.partition("+")[0], "albumentations": albumentations.__version__}

#: By name: ours, torchvision's, and albumentations' where it has the op.
OPS: dict[str, tuple[Any, Any, Any]] = {
    "no op": (image.ToLayout("NCHW"), v2.Identity(), albumentations.NoOp()),
    "brightness": (
        image.ColorJitter(brightness=(1.3, 1.3)),
        v2.ColorJitter(brightness=(1.3, 1.3)),
        albumentations.ColorJitter((1.3, 1.3), (1, 1), (1, 1), (0, 0), p=1),
    ),
    "contrast": (
        image.ColorJitter(contrast=(1.3, 1.3)),
        v2.ColorJitter(contrast=(1.3, 1.3)),
        albumentations.ColorJitter((1, 1), (1.3, 1.3), (1, 1), (0, 0), p=1),
    ),
    "saturation": (
        image.ColorJitter(saturation=(1.3, 1.3)),
        v2.ColorJitter(saturation=(1.3, 1.3)),
        albumentations.ColorJitter((1, 1), (1, 1), (1.3, 1.3), (0, 0), p=1),
    ),
    "hue": (
        image.ColorJitter(hue=(0.1, 0.1)),
        v2.ColorJitter(hue=(0.1, 0.1)),
        albumentations.ColorJitter((1, 1), (1, 1), (1, 1), (0.1, 0.1), p=1),
    ),
    "ColorJitter": (
        image.ColorJitter(0.4, 0.4, 0.4, 0.1),
        v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
        albumentations.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=1),
    ),
    "PhotometricDistort": (image.RandomPhotometricDistort(), v2.RandomPhotometricDistort(), None),
    "Grayscale": (image.Grayscale(3), v2.Grayscale(3), albumentations.ToGray(p=1)),
    "Invert": (image.RandomInvert(1), v2.RandomInvert(1), albumentations.InvertImg(p=1)),
    "Solarize": (
        image.RandomSolarize(128, 1),
        v2.RandomSolarize(128, 1),
        albumentations.Solarize(threshold_range=(0.5, 0.5), p=1),
    ),
    "Posterize": (image.RandomPosterize(4, 1), v2.RandomPosterize(4, 1), albumentations.Posterize(4, p=1)),
    "Autocontrast": (image.RandomAutocontrast(1), v2.RandomAutocontrast(1), albumentations.AutoContrast(p=1)),
    "Equalize": (image.RandomEqualize(1), v2.RandomEqualize(1), albumentations.Equalize(p=1)),
    "Sharpness": (image.RandomAdjustSharpness(2, 1), v2.RandomAdjustSharpness(2, 1), albumentations.Sharpen(p=1)),
    "Channels": (
        image.RandomChannelPermutation(),
        v2.RandomChannelPermutation(),
        albumentations.ChannelShuffle(p=1),
    ),
    "GaussianBlur 5": (
        image.GaussianBlur(5),
        v2.GaussianBlur(5),
        albumentations.GaussianBlur(blur_limit=(5, 5), sigma_limit=(0.1, 2.0), p=1),
    ),
    "GaussianBlur 23": (
        image.GaussianBlur(23),
        v2.GaussianBlur(23),
        albumentations.GaussianBlur(blur_limit=(23, 23), sigma_limit=(0.1, 2.0), p=1),
    ),
    "GaussianNoise": (
        image.GaussianNoise(),
        v2.GaussianNoise(),
        albumentations.GaussNoise(std_range=(0.1, 0.1), p=1),
    ),
    "JPEG": (image.JPEG(75), v2.JPEG(75), albumentations.ImageCompression(quality_range=(75, 75), p=1)),
    "RandomHorizontalFlip": (
        image.RandomHorizontalFlip(1),
        v2.RandomHorizontalFlip(1),
        albumentations.HorizontalFlip(p=1),
    ),
    "RandomVerticalFlip": (image.RandomVerticalFlip(1), v2.RandomVerticalFlip(1), albumentations.VerticalFlip(p=1)),
    "CenterCrop": (image.CenterCrop(192), v2.CenterCrop(192), albumentations.CenterCrop(192, 192)),
    "Resize": (image.Resize(160), v2.Resize(160), albumentations.Resize(160, 160, cv2.INTER_AREA)),
    "Resize, no antialias": (
        image.Resize(160, antialias=False),
        v2.Resize(160, antialias=False),
        albumentations.Resize(160, 160),
    ),
    "RandomResizedCrop": (
        image.RandomResizedCrop(160),
        v2.RandomResizedCrop(160),
        albumentations.RandomResizedCrop((160, 160), interpolation=cv2.INTER_AREA, p=1),
    ),
    "Pad": (image.Pad(16), v2.Pad(16), albumentations.Pad(16, p=1)),
    "Pad, reflect": (
        image.Pad(16, padding_mode="reflect"),
        v2.Pad(16, padding_mode="reflect"),
        albumentations.Pad(16, border_mode=cv2.BORDER_REFLECT_101, p=1),
    ),
    "RandomCrop": (
        image.RandomCrop(224, padding=16),
        v2.RandomCrop(224, padding=16),
        albumentations.Compose([albumentations.Pad(16, p=1), albumentations.RandomCrop(224, 224, p=1)]),
    ),
    "Letterbox": (
        image.Letterbox((160, 224)),
        None,
        albumentations.Compose([albumentations.LongestMaxSize(160), albumentations.PadIfNeeded(160, 224)]),
    ),
    "RandomRotation": (
        image.RandomRotation(30),
        v2.RandomRotation(30),
        albumentations.Rotate(30, interpolation=cv2.INTER_NEAREST, border_mode=cv2.BORDER_CONSTANT, p=1),
    ),
    "RandomAffine": (
        image.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, "bilinear"),
        v2.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, v2.InterpolationMode.BILINEAR),
        albumentations.Affine(
            scale=(0.8, 1.2), translate_percent=(-0.1, 0.1), rotate=(-30, 30), shear={"x": (-10, 10), "y": (0, 0)}, p=1
        ),
    ),
    "RandomPerspective": (
        image.RandomPerspective(0.5, 1),
        v2.RandomPerspective(0.5, 1),
        albumentations.Perspective(scale=(0.05, 0.25), p=1),
    ),
    "ElasticTransform": (
        image.ElasticTransform(),
        v2.ElasticTransform(),
        albumentations.ElasticTransform(alpha=50, sigma=5, p=1),
    ),
    "RandomErasing": (
        image.RandomErasing(1),
        v2.RandomErasing(1),
        albumentations.Erasing(scale=(0.02, 0.33), ratio=(0.3, 3.3), p=1),
    ),
    "AutoAugment": (image.AutoAugment(), v2.AutoAugment(), None),
    "RandAugment": (image.RandAugment(), v2.RandAugment(), None),
    "TrivialAugmentWide": (image.TrivialAugmentWide(), v2.TrivialAugmentWide(), None),
    "AugMix": (image.AugMix(), v2.AugMix(), None),
}

#: Ops on batches: ours and torchvision's.
MIXES: dict[str, tuple[Any, Any]] = {
    "MixUp": (image.MixUp(num_classes=10), v2.MixUp(num_classes=10)),
    "CutMix": (image.CutMix(num_classes=10), v2.CutMix(num_classes=10)),
}

#: The ops whose cost hangs on what they draw.
DRAWN = {"ColorJitter", "PhotometricDistort", "RandomResizedCrop", "RandomAffine", "RandomPerspective", "RandomErasing"}
DRAWN |= {"AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "CutMix"}


def ours(op: Any, pixels: Any) -> Callable[[], object]:
    """A call that does a batch."""
    kernel = image.fuse([op], Field("uint8", pixels.shape[1:]), lambda: (0, 0))
    samples, keys = np.arange(ROWS), iter(range(sys.maxsize))
    out = np.empty((ROWS, *kernel.field.shape), np.uint8)
    return lambda: kernel(pixels, samples, key=next(keys), out=out, threads=1)


def one_by_one(name: str, pixels: Any) -> dict[str, Callable[[], object]]:
    """Every side's call of an op on single images."""
    op, theirs, albu = OPS[name]
    tensors = list(torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous())
    sides = {"ours": ours(op, pixels)}
    if theirs is not None:
        sides["torchvision"] = lambda: torch.stack([theirs(tensor) for tensor in tensors])
    if albu is not None:
        sides["albumentations"] = lambda: np.stack([albu(image=one)["image"] for one in pixels])
    return sides


def mixed(name: str, pixels: Any) -> dict[str, Callable[[], object]]:
    """Every side's call of an op on a batch, of float32 as it comes behind Normalize."""
    op, theirs = MIXES[name]
    images = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).astype(np.float32)
    draws = {"lam": np.full(ROWS, 0.3), "top": np.full(ROWS, 40), "left": np.full(ROWS, 40)}
    draws |= {"bottom": np.full(ROWS, 227), "right": np.full(ROWS, 227)}  # 0.7 of the area
    partners, out = np.roll(np.arange(ROWS), 1), np.empty_like(images)
    tensor, labels = torch.from_numpy(images), torch.zeros(ROWS, dtype=torch.int64)
    return {
        "ours": lambda: op.mix(images, partners, draws, True, out),
        "torchvision": lambda: theirs(tensor, labels),
    }


def figures(name: str, pixels: Any, rounds: int) -> dict[str, float | None]:
    """Microseconds an image by side; None where a side lacks the op."""
    sides = mixed(name, pixels) if name in MIXES else one_by_one(name, pixels)
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, call in sides.items():
            start = time.perf_counter()
            call()
            times[side].append(time.perf_counter() - start)
    best = np.median if name in DRAWN else min
    return {side: float(1e6 * best(times[side]) / ROWS) if side in times else None for side in ("ours", *VERSIONS)}


def markdown(found: dict[str, dict[str, float | None]]) -> str:
    """The table, and in how many rows ours is at least as fast."""
    lines = ["| µs an image | ours | torchvision | / ours | albumentations | / ours |", "| --- |" + " ---: |" * 5]
    ratios: dict[str, list[float]] = {side: [] for side in VERSIONS}
    for name, of in found.items():
        cells = [f"{of['ours']:.0f}"]
        for side in VERSIONS:
            theirs = of[side]
            ratio = (theirs or 0.0) / (of["ours"] or 1.0)
            cells += ["", ""] if theirs is None else [f"{theirs:.0f}", f"{ratio:.1f}"]
            if theirs is not None and name != "no op":
                ratios[side].append(ratio)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    counts = (
        f"of {len(some)} that {side} {VERSIONS[side]} has, ours is at least as fast in {sum(one >= 1 for one in some)}"
        for side, some in ratios.items()
    )
    return "\n".join([*lines, "", f"{'; '.join(counts)}."])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join([*OPS, *MIXES])}")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    photograph = load_sample_images().images[0]
    pixels = np.stack([photograph[5 * row :, 10 * row :][:SIDE, :SIDE] for row in range(ROWS)])
    names = arguments.names or [*OPS, *MIXES]
    console = Console(stderr=True)
    found = {name: figures(name, pixels, arguments.rounds) for name in track(names, "image ops", console=console)}
    print(markdown(found))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
