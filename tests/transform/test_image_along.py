"""Boxes, points and masks go where their image goes: by torchvision v2's rules for tv_tensors."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from PIL import Image
from scipy import stats

from penstock.core.columns.ragged import ragged_column
from penstock.core.columns.spec import Columns
from penstock.core.errors import RowError
from penstock.transform import image as I  # noqa: N812
from support.along import along_hashes, applied, drawn, lists, replayed
from support.images import encoded, picture

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
box_iou = pytest.importorskip("torchvision.ops").box_iou
F = v2.functional

GOLDEN = Path(__file__).parents[1] / "golden"

ROWS, HEIGHT, WIDTH = 8, 41, 58
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


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(("before", "after"), [*product(FORMATS, FORMATS)])
def test_steps_on_boxes_are_torchvisions(before: Any, after: Any, dtype: str) -> None:
    given = columns(dtype, before)
    steps = (I.ClampBoundingBoxes(), I.ConvertBoundingBoxFormat(after), I.SanitizeBoundingBoxes(3, 40.5))
    made = lists(
        applied(given, {"image": (I.RandomHorizontalFlip(0),), "boxes": (I.Boxes(of="image", format=before), *steps)})[
            "boxes"
        ]
    )
    theirs = v2.Compose(
        [v2.ClampBoundingBoxes(), v2.ConvertBoundingBoxFormat(after), v2.SanitizeBoundingBoxes(3, 40.5, None)]
    )
    for row, one in enumerate(lists(given["boxes"])):
        boxes = torch.as_tensor(one.reshape(-1, 4)).to(getattr(torch, dtype))
        wanted = theirs(tv_tensors.BoundingBoxes(boxes, format=before, canvas_size=(HEIGHT, WIDTH))).numpy()
        assert made[row].reshape(-1, 4) == pytest.approx(wanted, abs=1e-4)


def test_what_boxes_lose_their_labels_lose() -> None:
    """Numbers, text, rows of numbers and masks of instances keep the rows that boxes keep."""
    random = np.random.default_rng(5)
    boxes = [
        np.float32([[0, 0, 9, 9], [5, 5, 5.5, 9], [-9, 0, 4, 4], [3, 3, 30, 30]])[: row % 5] for row in range(ROWS)
    ]
    counts = [len(one) for one in boxes]
    kept = [[place for place in (0, 3) if place < count] for count in counts]
    given = {
        "image": np.zeros((ROWS, HEIGHT, WIDTH, 3), np.uint8),
        "boxes": ragged_column(boxes, "float32", (4,)),
        "label": pa.array([[*range(row, row + count)] for row, count in enumerate(counts)], pa.list_(pa.int64())),
        "name": pa.array([[f"{row}-{place}" for place in range(count)] for row, count in enumerate(counts)]),
        "pair": ragged_column([random.integers(0, 9, (count, 2)) for count in counts], "int64", (2,)),
        "masks": pa.array(
            [[[[place] * WIDTH] * HEIGHT for place in range(count)] for count in counts],
            pa.list_(pa.list_(pa.list_(pa.uint8()))),
        ),
    }
    chains = {
        "image": (I.Resize((20, 20)),),
        "boxes": (I.Boxes(of="image", labels=("label", "name", "pair", "masks")), I.SanitizeBoundingBoxes()),
        "masks": (I.Mask(of="image"),),
    }
    made = applied(given, chains)
    for row in range(ROWS):
        assert made["label"][row].as_py() == [row + place for place in kept[row]]
        assert made["name"][row].as_py() == [f"{row}-{place}" for place in kept[row]]
        assert made["pair"][row].as_py() == [given["pair"][row].as_py()[place] for place in kept[row]]
        assert np.array(made["masks"][row].as_py()).reshape(-1, 20, 20)[:, 0, 0].tolist() == kept[row]
        assert len(made["boxes"][row]) == len(kept[row])
    dense = {
        "image": given["image"],
        "boxes": np.stack([np.stack(boxes[4])] * ROWS),
        "label": np.tile(np.arange(4), (ROWS, 1)),
    }
    chains = {"image": (I.Resize((20, 20)),), "boxes": (I.Boxes(of="image", labels="label"), I.SanitizeBoundingBoxes())}
    assert applied(dense, chains)["label"].to_pylist() == [[0, 3]] * ROWS


class TestIoUCrop:
    def test_it_is_drawn_as_torchvision_draws_it(self) -> None:
        """Overlap, sides and place of the part, by KS tests over 4,000 draws of both."""
        rows, boxes = 4_000, np.float32([[5, 6, 20, 30], [30, 2, 50, 39]])
        given = {
            "image": np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (rows, HEIGHT, WIDTH, 3)),
            "boxes": np.broadcast_to(boxes, (rows, 2, 4)),
        }
        (mine,) = drawn(given, {"image": (I.RandomIoUCrop(),), "boxes": (I.Boxes(of="image"),)})
        theirs = v2.RandomIoUCrop()
        torch.manual_seed(0)
        sample = [
            tv_tensors.Image(torch.zeros(1, HEIGHT, WIDTH, dtype=torch.uint8)),
            tv_tensors.BoundingBoxes(torch.as_tensor(boxes), format="XYXY", canvas_size=(HEIGHT, WIDTH)),
        ]
        wanted = [theirs.make_params(sample) for _ in range(rows)]
        cropped = ~np.isnan(mine["top"])
        assert cropped.mean() == pytest.approx(np.mean([bool(one) for one in wanted]), abs=0.03)
        for name in ("top", "left", "height", "width"):
            numbers = [one[name] for one in wanted if one]
            assert stats.ks_2samp(mine[name][cropped], numbers).pvalue > 0.01
        ratio = mine["width"] / mine["height"]
        assert ratio[cropped].min() >= 0.5
        assert ratio[cropped].max() <= 2

    def test_an_image_without_boxes_stays(self) -> None:
        given = {**columns(), "boxes": ragged_column([np.empty((0, 4), np.float32)] * ROWS, "float32", (4,))}
        made = applied(given, {"image": (I.RandomIoUCrop(),), "boxes": (I.Boxes(of="image"),)})
        assert np.array_equal(np.moveaxis(np.asarray(made["image"]), 1, -1), given["image"])

    def test_its_overlap_is_at_least_what_was_drawn(self) -> None:
        given = columns()
        chains = {
            "image": (I.RandomIoUCrop(sampler_options=[0.5]), I.Resize((32, 32))),
            "boxes": (I.Boxes(of="image"),),
        }
        (mine, _) = drawn(given, chains)
        for row, boxes in enumerate(lists(given["boxes"])):
            if not np.isnan(mine["top"][row]):
                top, left, height, width = (mine[name][row] for name in ("top", "left", "height", "width"))
                part = torch.tensor([[left, top, left + width, top + height]])
                assert box_iou(torch.as_tensor(boxes), part).max() >= 0.5


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
