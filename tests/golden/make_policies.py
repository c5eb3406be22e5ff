"""Writes tests/golden/policies.json, what policies make of a picture for a few rows: python tests/golden/make_policies.py.

They are written anew only on purpose: a change here changes every augmentation.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from golden.make_colours import picture
from penstock.core.columns.spec import Field
from penstock.transform import image as images

I = images  # noqa: E741  # as users write it

CASES: dict[str, I.ImageOp] = {
    "AugMix": I.AugMix(),
    "AugMix deep": I.AugMix(10, 2, 4, 0.3, interpolation="nearest", fill=9),
    "AutoAugment cifar10": I.AutoAugment("cifar10", fill=(10, 20, 30)),
    "AutoAugment imagenet": I.AutoAugment(),
    "AutoAugment svhn": I.AutoAugment("svhn", "bilinear"),
    "RandAugment": I.RandAugment(),
    "RandAugment 4": I.RandAugment(4, 12, 20, "bilinear", 128),
    "TrivialAugmentWide": I.TrivialAugmentWide(),
    "timm": I.timm("rand-m9-mstd0.5-inc1"),
    "timm nearest": I.timm("rand-m7-n4-p0.8-mstd101", "nearest"),
}
ROWS = 16


def hashes() -> dict[str, str]:
    """Of what each policy makes of the picture as so many rows."""
    found, pixels = {}, np.stack([picture()] * ROWS)
    for name, op in CASES.items():
        kernel = I.fuse([op], Field("uint8", pixels.shape[1:]), lambda: (0, 0))
        out = np.empty((ROWS, *kernel.field.shape), np.uint8)
        kernel(pixels, np.arange(ROWS), key=11, out=out, threads=1)
        found[name] = hashlib.sha256(out.tobytes()).hexdigest()[:32]
    return found


if __name__ == "__main__":
    Path(__file__).with_name("policies.json").write_text(json.dumps(hashes(), indent=2) + "\n")
