"""Each image op alone on 224² uint8 and one thread, beside torchvision v2 and albumentations: python benches/image_ops.py [NAME …].

The sides take turns; a figure is the least CPU time of many rounds, in microseconds an image. Ours begins with pixels (rows, columns, channels) and ends with
(channels, rows, columns), which "nothing" shows alone; torchvision's tensors are so from the start, and albumentations' arrays stay as they were.

Needs torch, torchvision, albumentations and scikit-learn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import albumentations
import cv2
import numpy as np
import torch
from sklearn.datasets import load_sample_images
from torchvision.transforms import v2

from penstock.core.columns.spec import Field
from penstock.transform import image

ROWS, ROUNDS = 8, 25

#: By name: ours, torchvision's, and albumentations' where it has the op.
OPS: dict[str, tuple[Any, Any, Any]] = {
    "nothing": (image.ToLayout("NCHW"), v2.Identity(), None),
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
}


def ours(op: Any, pixels: Any) -> Callable[[], object]:
    """A call that does a batch."""
    kernel = image.fuse([op], Field("uint8", pixels.shape), lambda: (0, 0))
    source, samples = np.stack([pixels] * ROWS), np.arange(ROWS)
    out = np.empty((ROWS, *kernel.field.shape), np.uint8)
    return lambda: kernel(source, samples, key=1, out=out, threads=1)


def main() -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    pixels = np.ascontiguousarray(load_sample_images().images[0][:224, 100:324])
    tensor = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
    print(f"{'op':20} {'ours':>8} {'torchvision':>16} {'albumentations':>16}")
    for name in sys.argv[1:] or OPS:
        op, tv, albu = OPS[name]
        sides: list[Callable[[], object]] = [ours(op, pixels), lambda tv=tv: [tv(tensor) for _ in range(ROWS)]]  # type: ignore[misc]
        if albu is not None:
            sides.append(lambda albu=albu: [albu(image=pixels) for _ in range(ROWS)])  # type: ignore[misc]
        least = [float("inf")] * len(sides)
        for _ in range(ROUNDS):
            for number, side in enumerate(sides):
                start = time.process_time()
                side()
                least[number] = min(least[number], time.process_time() - start)
        figures = [1e6 * one / ROWS for one in least]
        others = "".join(f" {figure:9.0f} {figure / figures[0]:5.1f}×" for figure in figures[1:])
        print(f"{name:20} {figures[0]:8.0f}{others}", flush=True)


if __name__ == "__main__":
    main()
