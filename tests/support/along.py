"""Images with what lies along with them, through a transform's kernel; and the same through torchvision's functions, by what was drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.batch.stack import field_of
from penstock.core.columns.ragged import ragged_column
from penstock.core.columns.rows import new_rows
from penstock.core.columns.spec import Columns
from penstock.core.draw_keys import DrawKeys
from penstock.transform import image
from penstock.transform.family import Chains, Kernel, Site, Workspace
from penstock.transform.image.family import FAMILY

KEY = 11
ROWS, HEIGHT, WIDTH = 8, 41, 58
BOX_FORMATS = ("XYXY", "XYWH", "CXCYWH")

#: Ops whose moves are pinned.
OPS = (
    image.RandomIoUCrop(),
    image.RandomResizedCrop((30, 50)),
    image.RandomHorizontalFlip(),
    image.RandomVerticalFlip(),
    image.RandomRotation(40, expand=True),
    image.RandomAffine(40, (0.2, 0.2), (0.5, 1.5), 20),
    image.RandomPerspective(),
    image.ElasticTransform(),
    image.RandomCrop((80, 50), pad_if_needed=True),
    image.RandomZoomOut(p=1.0),
    image.ScaleJitter((90, 90), (0.7, 0.9)),
)


def boxes_of(dtype: str, box_format: str, seed: int = 0) -> list[npt.NDArray[Any]]:
    """Boxes of images, from none to five, some of which reach out of their image."""
    import torch

    random = np.random.default_rng(seed)
    found = []
    for row in range(ROWS):
        first = random.uniform([-3, -3], [WIDTH - 4, HEIGHT - 4], (row % 6, 2))
        edges = np.concatenate([first, first + random.uniform(2, 30, (row % 6, 2))], axis=1)
        numbers = torch.as_tensor(edges).to(getattr(torch, dtype))
        made = _functional().convert_bounding_box_format(numbers, old_format="XYXY", new_format=box_format)
        found.append(np.asarray(made))
    return found


def columns(dtype: str = "float32", box_format: str = "XYXY") -> Columns:
    """Images, with as many boxes and points as there are, and a mask each."""
    random = np.random.default_rng(1)
    points = [random.uniform(0, 40, (row % 4, 2)).astype(dtype) for row in range(ROWS)]
    return {
        "image": random.integers(0, 256, (ROWS, HEIGHT, WIDTH, 3), np.uint8),
        "boxes": ragged_column(boxes_of(dtype, box_format), dtype, (4,)),
        "points": ragged_column(points, dtype, (2,)),
        "mask": random.integers(0, 5, (ROWS, HEIGHT, WIDTH), np.uint8),
    }


def kernel_of(columns: Columns, chains: Chains) -> Kernel:
    """The kernel of chains on columns like these."""
    return FAMILY.compile(chains, Site(fields={name: field_of(column) for name, column in columns.items()}))


def applied(columns: Columns, chains: Chains, *, threads: int = 1, **work: Any) -> Columns:
    """What a transform makes of columns."""
    rows = np.arange(len(columns["image"]))
    keys = {name: DrawKeys(rows, KEY) for name in chains}
    return kernel_of(columns, chains)(columns, keys, Workspace(allocate=new_rows, threads=threads, **work))


def drawn(columns: Columns, chains: Chains) -> list[dict[str, Any]]:
    """What each op of the image draws, in order; nothing for one that draws nothing."""
    rows = np.arange(len(columns["image"]))
    keys = {name: DrawKeys(rows, KEY) for name in chains}
    of_ops = kernel_of(columns, chains).drawn(columns, keys, Workspace(allocate=new_rows))["image"]
    named = {int(label.split()[0]): parameters for label, parameters in of_ops.items()}
    return [named.get(place, {}) for place in range(len(chains["image"]))]


def lists(column: Any) -> list[Any]:
    """The rows of a column of lists, or of an array, as arrays."""
    if isinstance(column, np.ndarray):
        return list(column)
    return [np.array(row.as_py()) for row in column]


def along_hashes() -> dict[str, str]:
    """What becomes of boxes, points and masks, as hashes of whole numbers and of numbers rounded to hundredths: see golden/make_along.py."""
    random = np.random.default_rng(7)
    first = random.uniform(0, 30, (8, 3, 2))
    columns: Columns = {
        "image": random.integers(0, 256, (8, 47, 61, 3), dtype=np.uint8),
        "boxes": np.concatenate([first, first + random.uniform(2, 17, (8, 3, 2))], axis=2),
        "points": random.uniform(0, 47, (8, 4, 2)),
        "mask": random.integers(0, 9, (8, 47, 61), dtype=np.uint8),
    }
    found = {}
    for op in OPS:
        chains = {
            "image": (op, image.CenterCrop(40)),
            "boxes": (image.Boxes(of="image"), image.SanitizeBoundingBoxes()),
            "points": (image.KeyPoints(of="image"),),
            "mask": (image.Mask(of="image"),),
        }
        made = applied(columns, chains)
        digest = hashlib.sha256(np.asarray(made["mask"]).tobytes())
        for name in ("boxes", "points"):
            digest.update(
                np.concatenate([np.rint(row * 100).reshape(-1) for row in lists(made[name])]).astype(int).tobytes()
            )
        found[repr(op)] = digest.hexdigest()[:16]
    return found


def replayed(ops: Sequence[Any], draws: Sequence[dict[str, Any]], row: int, sample: Any) -> Any:
    """A sample of tv_tensors after torchvision's functions for what these ops drew for a row.

    The image's size counts: torchvision sees another one, by a pixel, in `rotate(expand=True)` of boxes than of their image.
    """
    for op, drawn_by_row in zip(ops, draws, strict=True):
        given = {name: numbers[row] for name, numbers in drawn_by_row.items() if not np.isnan(numbers[row])}
        step = _STEPS[type(op).__name__](op, given, sample)
        sample = {name: step(one) for name, one in sample.items()}
        for name in ("boxes", "points"):
            sample[name].canvas_size = tuple(sample["image"].shape[-2:])
    return sample


def _functional() -> Any:
    from torchvision.transforms.v2 import functional

    return functional


def _part(given: dict[str, Any]) -> tuple[int, int, int, int]:
    top, left, height, width = (int(given[name]) for name in ("top", "left", "height", "width"))
    return top, left, height, width


def _flip(op: Any, given: dict[str, Any], name: str) -> Any:
    return getattr(_functional(), name) if given["applied"] else _same


def _same(one: Any) -> Any:
    return one


def _iou_crop(op: Any, given: dict[str, Any], sample: Any) -> Any:
    F = _functional()  # noqa: N806
    if "top" not in given:
        return _same
    top, left, height, width = _part(given)
    edges = F.convert_bounding_box_format(sample["boxes"], new_format="XYXY")
    x, y = (edges[:, 0] + edges[:, 2]) * 0.5, (edges[:, 1] + edges[:, 3]) * 0.5
    outside = ~((left < x) & (x < left + width) & (top < y) & (y < top + height))

    def step(one: Any) -> Any:
        cut = F.crop(one, top, left, height, width)
        if type(one).__name__ == "BoundingBoxes":
            cut[outside] = 0
        return cut

    return step


def _affine(op: Any, given: dict[str, Any], sample: Any) -> Any:
    def step(one: Any) -> Any:
        return _functional().affine(
            one,
            given["angle"],
            [int(given["translate_x"]), int(given["translate_y"])],
            given["scale"],
            [given["shear_x"], given["shear_y"]],
            center=op.center,
        )

    return step


def _perspective(op: Any, given: dict[str, Any], sample: Any) -> Any:
    if not given["applied"]:
        return _same
    numbers = [float(given[name]) for name in "abcdefgh"]
    return lambda one: _functional().perspective(one, None, None, coefficients=numbers)


def _resized(op: Any, given: dict[str, Any], sample: Any) -> Any:
    return lambda one: _functional().resize(one, list(op.size))


#: Of each op, the function of torchvision for what it drew.
_STEPS: dict[str, Any] = {
    "Resize": _resized,
    "CenterCrop": lambda op, _, __: lambda one: _functional().center_crop(one, list(op.size)),
    "Pad": lambda op, _, __: lambda one: _functional().pad(one, list(op.padding), fill=op.fill or 0),
    "RandomHorizontalFlip": lambda op, given, _: _flip(op, given, "horizontal_flip"),
    "RandomVerticalFlip": lambda op, given, _: _flip(op, given, "vertical_flip"),
    "RandomResizedCrop": lambda op, given, _: lambda one: _functional().resized_crop(one, *_part(given), list(op.size)),
    "RandomRotation": lambda op, given, _: (
        lambda one: _functional().rotate(one, given["angle"], expand=op.expand, center=op.center)
    ),
    "RandomAffine": _affine,
    "RandomPerspective": _perspective,
    "RandomIoUCrop": _iou_crop,
}
