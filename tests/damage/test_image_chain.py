"""Damaged images through chains of every op: the same pixels whatever the thread decoded before, or an error that names the row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import RowError
from penstock.core.limits import Limits
from penstock.transform import image
from support.images import encoded, picture
from support.tries import tries

SEEDS = Path(__file__).parents[2] / "fuzz/seeds/image_decode"
CHAINS: dict[str, list[image.ImageOp]] = {
    "crop and flip": [image.RandomResizedCrop((24, 20)), image.RandomHorizontalFlip(), image.RandomVerticalFlip()],
    "two resizes": [image.Resize((40, 30)), image.CenterCrop((50, 20)), image.Resize((16, 16))],
    "colours": [image.Resize((9, 300)), image.RandomGrayscale(0.5), image.Normalize(*image.IMAGENET)],
    "margins": [
        image.Resize((30, 40)),
        image.Pad(3, padding_mode="reflect"),
        image.RandomZoomOut(p=1.0, side_range=(1, 2)),
        image.RandomCrop((24, 20), pad_if_needed=True, padding_mode="symmetric"),
        image.Letterbox((20, 30), fill=9),
    ],
    "sizes": [
        image.RandomResize(20, 40),
        image.ScaleJitter((40, 40)),
        image.RandomShortestSize([20, 30], 50),
        image.Resize((16, 16)),
    ],
    "warps": [
        image.Resize((30, 20)),
        image.RandomRotation(40, "bilinear", expand=True),
        image.RandomAffine(20, (0.2, 0.2), (0.5, 2), 9),
        image.RandomPerspective(p=1.0),
        image.ElasticTransform(),
        image.CenterCrop(20),
    ],
    "numbers": [image.Resize((20, 20), interpolation="bicubic"), image.ToDtype("float16"), image.ToLayout("NHWC")],
}


def run(kernel: image.ImageKernel, data: bytes) -> bytes | str:
    """The pixels of one image, or what is wrong with it."""
    spans = Spans((np.frombuffer(data, np.uint8),), np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([len(data)]))
    out: Any = np.empty((1, *kernel.field.shape), kernel.field.numpy_dtype)
    try:
        kernel(spans, np.zeros(1, np.int64), key=7, out=out, threads=1)
    except RowError as error:
        return str(error.found)
    else:
        return bytes(out.tobytes())


@pytest.mark.parametrize("chain", CHAINS)
def test_damaged_images_through_every_op(chain: str) -> None:
    ops = [image.Decode(apply_exif=True), *CHAINS[chain]]
    kernel = image.fuse(ops, Field("bytes"), lambda: (1, 1), limits=Limits(pixels=1 << 20, image_bytes=1 << 24))
    white = encoded(picture(60, 50, mode="RGB").point(lambda _: 255), "PNG")
    seeds = [path.read_bytes() for path in sorted(SEEDS.iterdir())]
    rng, refused = random.Random(5), 0
    for number in range(tries(20_000, at_least=200)):
        bad = bytearray(seeds[number % len(seeds)])
        for _ in range(rng.choice([0, 1, 1, 2, 8])):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        first = run(kernel, bytes(bad[: rng.randrange(len(bad))] if number % 7 == 0 else bad))
        run(kernel, white)
        refused += isinstance(first, str)
        if number % 7:
            assert run(kernel, bytes(bad)) == first, f"try {number}: other pixels after another image"
    assert refused
