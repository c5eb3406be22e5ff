"""Every op on images of one pixel, one row and one column, alone and with boxes and a mask beside it: an image, or an error that says what is too small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.errors import DataError

I = ps.image  # noqa: E741
OPS = (
    I.AugMix(),
    I.AutoAugment("svhn"),
    I.CenterCrop(3),
    I.ColorJitter(0.4, 0.4, 0.4, 0.1),
    I.ElasticTransform(),
    I.GaussianBlur(5),
    I.GaussianNoise(),
    I.JPEG((20, 60)),
    I.Letterbox((8, 8)),
    I.Pad(2, padding_mode="edge"),
    I.RandAugment(),
    I.RandomAdjustSharpness(2, p=1),
    I.RandomAffine(20, (0.3, 0.3), (0.5, 2), 10),
    I.RandomAutocontrast(p=1),
    I.RandomCrop(3, pad_if_needed=True),
    I.RandomEqualize(p=1),
    I.RandomErasing(p=1),
    I.RandomIoUCrop(),
    I.RandomPerspective(p=1),
    I.RandomPhotometricDistort(),
    I.RandomResize(3, 9),
    I.RandomResizedCrop(4),
    I.RandomRotation(45),
    I.RandomShortestSize([3, 5], max_size=9),
    I.RandomZoomOut(p=1),
    I.ScaleJitter((16, 16)),
    I.TrivialAugmentWide(),
    I.timm("rand-m9-mstd0.5-inc1"),
)
#: Ops of which nobody can say where they put a box.
MIXING = (I.AugMix,)
#: Images of 65,535 pixels take a while.
LONG = [pytest.param(size, marks=pytest.mark.long) for size in [(1, 65_535), (65_535, 1), (40, 1), (2, 2)]]


@pytest.mark.parametrize("size", [(1, 1), (1, 40), *LONG])
@pytest.mark.parametrize("op", OPS, ids=lambda op: type(op).__name__)
def test_an_image_of_any_size(op: Any, size: tuple[int, int]) -> None:
    height, width = size
    data: dict[str, Any] = {"image": np.random.default_rng(0).integers(0, 256, (2, *size, 3), dtype=np.uint8)}
    chains: dict[str, Any] = {"image": [op, I.Resize((4, 4))]}
    if not isinstance(op, MIXING):
        boxes = [[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, min(width, 5.0), min(height, 5.0)]], []]
        data |= {"boxes": pa.array(boxes, pa.list_(pa.list_(pa.float32()))), "mask": np.zeros((2, *size), np.uint8)}
        chains |= {"boxes": I.Boxes(of="image"), "mask": I.Mask(of="image")}
    (batch,) = ps.Loader(ps.from_arrays(data).transform(**chains).batch(2))
    assert batch["image"].shape == (2, 3, 4, 4)
    if "boxes" in batch:
        assert [len(row) for row in batch["boxes"]] == [2, 0]
        assert batch["mask"].shape == (2, 1, 4, 4)


def test_a_crop_says_what_is_smaller() -> None:
    data = ps.from_arrays({"image": np.zeros((2, 1, 40, 3), np.uint8)}).transform(image=I.RandomCrop(3))
    with pytest.raises(
        DataError,
        match=r"sample 0: an image of 40 × 1 pixels .* smaller than RandomCrop\(\(3, 3\)\); say pad_if_needed",
    ):
        next(iter(ps.Loader(data.batch(2))))
