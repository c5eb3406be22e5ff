"""Boxes, points and masks go where their image goes: by torchvision v2's rules for tv_tensors."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from penstock.core.errors import RowError
from penstock.transform import image as I  # noqa: N812
from support.along import BOX_FORMATS as FORMATS
from support.along import HEIGHT, ROWS, WIDTH, along_hashes, applied, columns, drawn, lists, replayed
from support.images import encoded, picture
from support.matrix import crossed

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
F = v2.functional

GOLDEN = Path(__file__).parents[1] / "golden"

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


@pytest.mark.parametrize(
    ("name", "boxes_as"),
    crossed(
        [*CHAINS], [*product(["float32"], FORMATS), *product(["float64", "int64"], FORMATS[:2]), ("int64", "CXCYWH")]
    ),
)
def test_boxes_and_points_are_torchvisions(name: str, boxes_as: tuple[str, Any]) -> None:
    """Random chains: whole numbers are cut off where torchvision cuts them off, so that some are 1 less or more."""
    dtype, box_format = boxes_as
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


@pytest.mark.parametrize("name", [name for name in CHAINS if name not in ("centre", "affine")])
def test_a_mask_goes_where_its_image_goes(name: str) -> None:
    """An image of one plane by the nearest pixels, and the same as its mask; instances as masks one by one."""
    nearest = {"interpolation": "nearest"}
    ops = tuple(replace(op, **nearest) if hasattr(op, "interpolation") else op for op in CHAINS[name])
    given = columns()
    given["image"] = np.asarray(given["mask"])[..., None]
    chains = {"image": ops, "boxes": (I.Boxes(of="image"),), "mask": (I.Mask(of="image", fill=9),)}
    made = applied(given, chains)
    image, mask = np.asarray(made["image"]), np.asarray(made["mask"])
    assert mask.shape == image.shape
    assert np.array_equal(np.where(image == 0, 9, image), np.where(mask == 0, 9, mask))
    several = dict(given, mask=np.stack([given["mask"]] * 3, axis=1))
    instances = lists(applied(several, chains)["mask"])
    for row in range(ROWS):
        assert np.array_equal(instances[row], np.repeat(mask[row], 3, axis=0))


def test_masks_come_in_many_forms() -> None:
    """Encoded files, lists of several sizes, switches and 16 bits are what the same pixels are."""
    random = np.random.default_rng(3)
    sizes = [(20 + row, 31 - row) for row in range(6)]
    images = [encoded(picture(width, height, row), "PNG") for row, (height, width) in enumerate(sizes)]
    pixels = [random.integers(0, 2, size, np.uint8) for size in sizes]
    files = []
    for mask in pixels:
        paletted = Image.fromarray(mask, mode="P")
        paletted.putpalette([0, 0, 0, 255, 255, 255])
        files.append(encoded(paletted, "PNG"))
    ops = (I.Decode(mode="RGB"), I.RandomResizedCrop(16), I.RandomHorizontalFlip(), I.RandomRotation(20))
    chains = {"image": ops, "mask": (I.Mask(of="image", fill=1),)}

    def made(mask: Any) -> Any:
        return applied({"image": pa.array(images, pa.large_binary()), "mask": mask}, chains)["mask"]

    wanted = np.asarray(made(pa.array(files, pa.large_binary())))
    listed = [mask.tolist() for mask in pixels]
    assert wanted.shape == (6, 1, 16, 16)
    for kind in (pa.uint8(), pa.uint16(), pa.bool_()):
        found = np.asarray(made(pa.array(listed, pa.list_(pa.list_(pa.uint8()))).cast(pa.list_(pa.list_(kind)))))
        assert found.dtype == kind.to_pandas_dtype()
        assert np.array_equal(found, wanted)
    instances = made(
        pa.array([[mask] * row for row, mask in enumerate(listed)], pa.list_(pa.list_(pa.list_(pa.uint8()))))
    )
    assert [len(row) for row in instances] == [*range(6)]
    assert np.array_equal(np.array(instances[5].as_py())[4:], wanted[5])


def test_an_elastic_warp_moves_boxes_and_points_as_its_pixels() -> None:
    """Against torchvision's functions, for the displacement that the image's pixels tell: to half a pixel."""
    number = np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(1, HEIGHT, WIDTH, 1)
    given = {**columns(), "image": np.repeat(number, ROWS, axis=0)}
    chains = {
        "image": (I.ElasticTransform(90.0, 4.0, "nearest"),),
        "boxes": (I.Boxes(of="image"),),
        "points": (I.KeyPoints(of="image"),),
    }
    made = applied(given, chains)
    image, boxes, points = np.asarray(made["image"])[:, 0].astype(int), lists(made["boxes"]), lists(made["points"])
    assert (image != number[0, ..., 0]).mean() > 0.5
    rows, places = np.mgrid[:HEIGHT, :WIDTH]
    for row in range(ROWS):
        shift = np.stack(
            [2 * (image[row] % WIDTH - places) / WIDTH, 2 * (image[row] // WIDTH - rows) / HEIGHT], axis=-1
        )
        shift = torch.as_tensor(np.where((image[row] == 0)[..., None], np.nan, shift)[None])
        theirs = F.elastic(
            tv_tensors.BoundingBoxes(
                torch.as_tensor(lists(given["boxes"])[row].reshape(-1, 4)), format="XYXY", canvas_size=(HEIGHT, WIDTH)
            ),
            shift,
        ).numpy()
        mine = boxes[row].reshape(-1, 4)
        assert np.allclose(mine[np.isfinite(theirs)], theirs[np.isfinite(theirs)], atol=0.51)
        theirs = F.elastic(
            tv_tensors.KeyPoints(
                torch.as_tensor(lists(given["points"])[row].reshape(-1, 2)), canvas_size=(HEIGHT, WIDTH)
            ),
            shift,
        ).numpy()
        mine = points[row].reshape(-1, 2)
        assert np.allclose(mine[np.isfinite(theirs)], theirs[np.isfinite(theirs)], atol=0.51)


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_and_encoding_change_nothing(threads: int) -> None:
    """The same of encoded images and of their pixels, on any number of threads."""
    given, pictures = columns(), [picture(WIDTH, HEIGHT, row) for row in range(ROWS)]
    chains = {
        "image": (I.RandomIoUCrop(), I.ElasticTransform(20.0), I.RandomAffine(20), I.Resize((33, 44))),
        "boxes": (I.Boxes(of="image"),),
        "mask": (I.Mask(of="image"),),
        "points": (I.KeyPoints(of="image"),),
    }
    given["image"] = np.stack([np.asarray(one) for one in pictures])
    one = applied(given, chains)
    given["image"] = pa.array([encoded(each, "PNG") for each in pictures], pa.large_binary())
    other = applied(given, {**chains, "image": (I.Decode(mode="RGB"), *chains["image"])}, threads=threads)
    # An op more at the beginning of the chain gives those behind it other numbers, by which they draw.
    again = applied(given, {**chains, "image": (I.Decode(mode="RGB"), *chains["image"])})
    for name in one:
        assert lists(one[name])[0].dtype == lists(other[name])[0].dtype
        assert all(np.array_equal(a, b) for a, b in zip(lists(other[name]), lists(again[name]), strict=True))


def test_exif_turns_what_lies_along_the_sizes_are_those_after_it() -> None:
    """Boxes are in pixels of the image as Decode gives it: turned, where it turns."""
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(picture(30, 20), "JPEG", exif=exif)
    given = {"image": pa.array([turned], pa.large_binary()), "boxes": np.float32([[[0, 25, 20, 30]]])}
    chains = {
        "image": (I.Decode(mode="RGB", apply_exif=True), I.RandomVerticalFlip(1), I.CenterCrop((30, 20))),
        "boxes": (I.Boxes(of="image"),),
    }
    assert applied(given, chains)["boxes"].to_pylist() == [[[0, 0, 20, 5]]]
    with pytest.raises(RowError, match="lies outside"):
        applied(given, {**chains, "image": (I.Decode(mode="RGB"), I.CenterCrop(9))})


def test_fast_decoding_moves_boxes_as_slow_decoding_does() -> None:
    """What is decoded at a part of its size is cut where the whole image is."""
    given = {
        "image": pa.array([encoded(picture(400, 300, row), "JPEG") for row in range(4)], pa.large_binary()),
        "boxes": np.float32([[[10, 20, 300, 200]]] * 4),
    }
    found = [
        lists(
            applied(
                given,
                {
                    "image": (I.Decode(mode="RGB", fast=fast), I.RandomResizedCrop(32, (0.5, 1))),
                    "boxes": (I.Boxes(of="image"),),
                },
            )["boxes"]
        )
        for fast in (True, False)
    ]
    assert np.array_equal(*found)


def test_no_rows_are_no_error() -> None:
    """A rank may have none of a step."""
    given = {name: column[:0] for name, column in columns().items()}
    chains = {
        "image": (I.RandomIoUCrop(), I.Resize((9, 9))),
        "boxes": (I.Boxes(of="image"),),
        "mask": (I.Mask(of="image"),),
        "points": (I.KeyPoints(of="image"),),
    }
    assert {len(column) for column in applied(given, chains).values()} == {0}
    given = {
        "image": given["image"],
        "boxes": np.empty((0, 3, 4)),
        "mask": np.empty((0, 2, 41, 58), bool),
        "points": np.empty((0, 2, 2)),
    }
    assert {len(column) for column in applied(given, chains).values()} == {0}


def test_where_things_go_is_pinned() -> None:
    """Boxes, points and masks of a seed never change."""
    assert along_hashes() == json.loads((GOLDEN / "along.json").read_text())
