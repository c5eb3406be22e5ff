"""Boxes, points and masks go where their image goes: by torchvision v2's rules for tv_tensors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from penstock.core.columns.ragged import ragged_column
from penstock.core.columns.spec import Columns
from penstock.transform import image as I  # noqa: N812
from support.along import applied, drawn, lists, replayed

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
F = v2.functional

ROWS, HEIGHT, WIDTH = 12, 41, 58
FORMATS = ("XYXY", "XYWH", "CXCYWH")


def boxes_of(dtype: str, box_format: str, seed: int = 0) -> list[npt.NDArray[Any]]:
    """Boxes of images, from none to five, some of which reach out of their image."""
    random = np.random.default_rng(seed)
    found = []
    for row in range(ROWS):
        first = random.uniform([-3, -3], [WIDTH - 4, HEIGHT - 4], (row % 6, 2))
        edges = np.concatenate([first, first + random.uniform(2, 30, (row % 6, 2))], axis=1)
        edges = torch.as_tensor(edges).to(getattr(torch, dtype))
        found.append(np.asarray(F.convert_bounding_box_format(edges, old_format="XYXY", new_format=box_format)))
    return found


def columns(dtype: str = "float32", box_format: str = "XYXY") -> Columns:
    random = np.random.default_rng(1)
    points = [random.uniform(0, 40, (row % 4, 2)).astype(dtype) for row in range(ROWS)]
    return {
        "image": random.integers(0, 256, (ROWS, HEIGHT, WIDTH, 3), np.uint8),
        "boxes": ragged_column(boxes_of(dtype, box_format), dtype, (4,)),
        "points": ragged_column(points, dtype, (2,)),
        "mask": random.integers(0, 5, (ROWS, HEIGHT, WIDTH), np.uint8),
    }


CHAINS: dict[str, list[Any]] = {
    "crop": [I.RandomResizedCrop((30, 40)), I.RandomHorizontalFlip()],
    "flips": [I.RandomVerticalFlip(), I.RandomHorizontalFlip(), I.Pad((3, 1, 0, 7), fill=9), I.Resize((33, 65))],
    "rotation": [
        I.CenterCrop((HEIGHT, WIDTH)),
        I.RandomRotation(70, expand=True),
        I.RandomHorizontalFlip(),
        I.Resize((50, 50)),
    ],
    "half turn": [I.RandomRotation((180, 180)), I.CenterCrop((31, 44))],
    "quarter turn": [
        I.RandomRotation((90, 90), expand=True),
        I.RandomRotation((270, 270), expand=True),
        I.Resize((60, 33)),
    ],
    "centre": [I.RandomRotation(50, center=(5.0, 9.0)), I.RandomVerticalFlip()],
    "affine": [I.RandomAffine(30, (0.2, 0.1), (0.7, 1.4), (-9, 9, -5, 5)), I.RandomHorizontalFlip()],
    "move": [I.RandomAffine(0, (0.2, 0.1)), I.Resize((20, 90))],
    "perspective": [I.RandomPerspective(0.4, p=0.8), I.RandomHorizontalFlip()],
    "ssd": [I.RandomIoUCrop(), I.RandomHorizontalFlip(), I.Resize((64, 64))],
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(
    ("dtype", "box_format"),
    [*product(["float32"], FORMATS), *product(["float64", "int64"], FORMATS[:2]), ("int64", "CXCYWH")],
)
def test_boxes_and_points_are_torchvisions(name: str, dtype: str, box_format: Any) -> None:
    """Random chains: whole numbers are cut off where torchvision cuts them off, so that some are 1 less or more."""
    ops = tuple(CHAINS[name])
    given = columns(dtype, box_format)
    chains = {"image": ops, "boxes": (I.Boxes(of="image", format=box_format),), "points": (I.KeyPoints(of="image"),)}
    made, draws = applied(given, chains), drawn(given, chains)
    boxes, points = lists(made["boxes"]), lists(made["points"])
    off, tolerance = 0, 1.0 if dtype == "int64" else 2e-3
    for row in range(ROWS):
        sample = {
            "image": tv_tensors.Image(torch.zeros(1, HEIGHT, WIDTH, dtype=torch.uint8)),
            "boxes": tv_tensors.BoundingBoxes(
                torch.as_tensor(lists(given["boxes"])[row].reshape(-1, 4)).to(getattr(torch, dtype)),
                format=box_format,
                canvas_size=(HEIGHT, WIDTH),
            ),
            "points": tv_tensors.KeyPoints(
                torch.as_tensor(lists(given["points"])[row].reshape(-1, 2)).to(getattr(torch, dtype)),
                canvas_size=(HEIGHT, WIDTH),
            ),
        }
        wanted = replayed(ops, draws, row, sample)
        for mine, name_of in ((boxes[row].reshape(-1, 4), "boxes"), (points[row].reshape(-1, 2), "points")):
            theirs = wanted[name_of].numpy()
            assert mine == pytest.approx(theirs, abs=tolerance)
            off += int((np.abs(mine - theirs) > tolerance / 2).sum())
    assert off <= (0 if dtype != "int64" else 8)
