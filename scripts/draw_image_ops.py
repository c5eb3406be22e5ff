"""The pictures in docs/images.md: python scripts/draw_image_ops.py writes docs/images/ops/NAME.webp, of all ops or of those that are named.

The left picture is the photograph that an op is given, the others are what it makes of it: three draws of an op that draws, or three arguments. A new op gets a row in `PICTURES`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import skimage.data
from PIL import Image, ImageDraw

import penstock as ps

Pixels = npt.NDArray[np.uint8]

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "ops"
HEIGHT, WIDTH, GAP, DRAWS = 120, 160, 4, 3
#: Rows are chosen, so that few pictures show an op that did nothing.
FIRST_ROW = 4

I = ps.image  # noqa: E741  # as users write it
FRAME = I.CenterCrop((HEIGHT, WIDTH))  # behind what gives images of many sizes
TO_FLOATS, UPRIGHT = I.ToDtype("float32", scale=True), I.ToLayout("NHWC")


@cache
def photograph(name: str) -> Pixels:
    """A photograph that scikit-image brings: its upper left, as large as a picture is."""
    pixels = getattr(skimage.data, name)()
    height = min(len(pixels), pixels.shape[1] * HEIGHT // WIDTH)
    cut = Image.fromarray(pixels[:height, : height * WIDTH // HEIGHT])
    return np.asarray(cut.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))


def cat() -> Pixels:
    """What ops are given."""
    return photograph("chelsea")


def draws(*ops: Any, rows: int = DRAWS, first: int = FIRST_ROW) -> list[Pixels]:
    """What ops make of the cat in some rows."""
    cats = np.broadcast_to(cat(), (first + rows, *cat().shape))
    plan = ps.from_arrays({"image": cats}).transform(image=[*ops, UPRIGHT])
    return [as_bytes(image) for image in plan.head(first + rows)["image"][first:]]


def each(*chains: Any) -> list[Pixels]:
    """One row of each op."""
    return [draws(op, rows=1)[0] for op in chains]


def as_bytes(image: npt.NDArray[Any]) -> Pixels:
    """Pixels of any kind as RGB bytes; floats are from 0 to 1."""
    if image.dtype != np.uint8:
        image = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    return np.broadcast_to(image, (*image.shape[:2], 3))


def crops(op: Any) -> Pixels:
    """The crops of the cat."""
    made: Pixels = ps.from_arrays({"image": cat()[None]}).transform(image=[op, UPRIGHT]).head(1)["image"][0]
    return made


def views() -> list[Pixels]:
    """Three views of one image."""
    crops = [I.RandomResizedCrop((HEIGHT, WIDTH)), I.ColorJitter(0.4, 0.4, 0.4, 0.1), UPRIGHT]
    data = ps.from_arrays({"a": np.broadcast_to(cat(), (1, *cat().shape))})
    made = data.transform(a=crops, b=I.From("a", crops), c=I.From("a", crops)).head(1)
    return [made[name][0] for name in "abc"]


#: The cat, its eyes and its nose: a box, points, and an ellipse as a mask.
FACE, POINTS = (36, 4, 146, 116), ((68, 45), (127, 52), (104, 99))


def along(*ops: Any, steps: Sequence[Any] = (), shown: str = "boxes") -> list[Pixels]:
    """What ops make of the cat, and of what lies along with it."""
    rows = FIRST_ROW + DRAWS
    mask = Image.new("L", (WIDTH, HEIGHT))
    ImageDraw.Draw(mask).ellipse(FACE, fill=1)
    given = {
        "image": cat(),
        "boxes": np.float32([FACE, (0, 60, 30, 119)]),
        "points": np.float32(POINTS),
        "mask": np.asarray(mask),
    }
    data = ps.from_arrays({name: np.broadcast_to(one, (rows, *one.shape)) for name, one in given.items()})
    boxes, points = [I.Boxes(of="image"), *steps], I.KeyPoints(of="image")
    made = data.transform(image=[*ops, UPRIGHT], boxes=boxes, points=points, mask=I.Mask(of="image")).head(rows)
    tiles = []
    for row in range(FIRST_ROW, rows):
        pixels = made["image"][row]
        if shown == "mask":
            pixels = np.where(made["mask"][row][0, ..., None] == 1, pixels // 2 + np.uint8([0, 110, 110]), pixels)
        tile = Image.fromarray(pixels)
        drawing = ImageDraw.Draw(tile)
        for box in made["boxes"][row].as_py() if shown == "boxes" else ():
            drawing.rectangle(box, outline=(255, 60, 0), width=2)
        for x, y in made["points"][row].tolist() if shown == "points" else ():
            drawing.ellipse((x - 4, y - 4, x + 4, y + 4), fill=(255, 60, 0))
        tiles.append(np.asarray(tile))
    return tiles


def mixed(op: Any) -> list[Pixels]:
    """A row of each of three steps, whose partners are other photographs."""
    others = [photograph(name) for name in ("coffee", "astronaut", "rocket")]
    batches = ps.from_arrays({"image": np.stack([cat(), *others] * 3), "label": np.arange(12) % 4})
    with ps.Loader(batches.transform(image=[UPRIGHT]).batch(4).transform(op)) as loader:
        return [batch["image"][0] for batch in loader]


#: Of each op what it makes of the cat, in the order of the page.
PICTURES: dict[str, Callable[[], list[Pixels]]] = {
    "Decode": lambda: [cat(), *map(as_bytes, [np.asarray(Image.fromarray(cat()).convert("L"))[..., None]])],
    "From": views,
    "Resize": lambda: each(I.Resize((120, 80)), I.Resize(60), I.Resize((90, 120), interpolation="nearest")),
    "CenterCrop": lambda: each(I.CenterCrop(100), I.CenterCrop((40, 160)), I.CenterCrop((120, 60))),
    "FiveCrop": lambda: [*crops(I.FiveCrop((60, 80)))],
    "TenCrop": lambda: [np.concatenate(pair) for pair in np.stack(np.split(crops(I.TenCrop((60, 80))), 2), axis=1)],
    "RandomResizedCrop": lambda: draws(I.RandomResizedCrop((HEIGHT, WIDTH))),
    "RandomCrop": lambda: draws(I.RandomCrop(80, padding=10)),
    "Pad": lambda: [draws(I.Resize((80, 120)), I.Pad(20, padding_mode=mode), rows=1)[0] for mode in ("constant", "edge", "reflect")],
    "Letterbox": lambda: [draws(I.CenterCrop(size), I.Letterbox((HEIGHT, WIDTH), fill=114), rows=1)[0] for size in ((120, 60), (40, 160), 100)],
    "RandomResize": lambda: draws(I.RandomResize(40, 120), FRAME),
    "RandomShortestSize": lambda: draws(I.RandomShortestSize([40, 60, 80, 100]), FRAME),
    "ScaleJitter": lambda: draws(I.ScaleJitter((HEIGHT, WIDTH), (0.3, 1.5)), FRAME),
    "RandomZoomOut": lambda: draws(I.RandomZoomOut(p=1), I.Resize((HEIGHT, WIDTH))),
    "RandomHorizontalFlip": lambda: draws(I.RandomHorizontalFlip()),
    "RandomVerticalFlip": lambda: draws(I.RandomVerticalFlip()),
    "RandomRotation": lambda: draws(I.RandomRotation(45, "bilinear")),
    "RandomAffine": lambda: draws(I.RandomAffine(20, (0.1, 0.1), (0.7, 1.2), 20, "bilinear")),
    "RandomPerspective": lambda: draws(I.RandomPerspective(p=1)),
    "ElasticTransform": lambda: draws(I.ElasticTransform(alpha=80.0)),
    "Grayscale": lambda: each(I.Grayscale(1), I.Grayscale(3)),
    "RandomGrayscale": lambda: draws(I.RandomGrayscale(0.5)),
    "RandomInvert": lambda: draws(I.RandomInvert()),
    "RandomSolarize": lambda: each(I.RandomSolarize(64, p=1), I.RandomSolarize(128, p=1), I.RandomSolarize(192, p=1)),
    "RandomPosterize": lambda: each(I.RandomPosterize(3, p=1), I.RandomPosterize(2, p=1), I.RandomPosterize(1, p=1)),
    "RandomAutocontrast": lambda: draws(I.RandomAutocontrast()),
    "RandomEqualize": lambda: draws(I.RandomEqualize()),
    "ColorJitter": lambda: draws(I.ColorJitter(0.5, 0.5, 0.5, 0.2)),
    "RandomPhotometricDistort": lambda: draws(I.RandomPhotometricDistort()),
    "RandomChannelPermutation": lambda: draws(I.RandomChannelPermutation()),
    "RandomAdjustSharpness": lambda: each(I.RandomAdjustSharpness(0, p=1), I.RandomAdjustSharpness(3, p=1), I.RandomAdjustSharpness(8, p=1)),
    "GaussianBlur": lambda: draws(I.GaussianBlur(23, (0.1, 4.0))),
    "GaussianNoise": lambda: each(I.GaussianNoise(sigma=0.05), I.GaussianNoise(sigma=0.1), I.GaussianNoise(sigma=0.2)),
    "JPEG": lambda: each(I.JPEG(20), I.JPEG(8), I.JPEG(2)),
    "RandomErasing": lambda: [draws(TO_FLOATS, I.RandomErasing(1.0, value=value), rows=1)[0] for value in (0, "random", "color")],
    "Compose": lambda: draws(I.Compose([I.RandomHorizontalFlip(), I.RandomInvert()])),
    "RandomApply": lambda: draws(I.RandomApply([I.GaussianBlur(23, 3.0), I.RandomInvert(1.0)])),
    "RandomChoice": lambda: draws(I.RandomChoice([I.RandomInvert(1.0), I.RandomVerticalFlip(1.0), I.GaussianBlur(23, 3.0)])),
    "RandomOrder": lambda: draws(I.RandomOrder([I.RandomPosterize(1, p=1), I.GaussianBlur(23, 3.0)])),
    "TrivialAugmentWide": lambda: draws(I.TrivialAugmentWide()),
    "RandAugment": lambda: draws(I.RandAugment()),
    "AutoAugment": lambda: draws(I.AutoAugment()),
    "AugMix": lambda: draws(I.AugMix(severity=6)),
    "TimmAugment": lambda: draws(I.timm("rand-m9-mstd0.5-inc1")),
    "RandomIoUCrop": lambda: along(I.RandomIoUCrop(), I.Resize((HEIGHT, WIDTH)), steps=[I.SanitizeBoundingBoxes()]),
    "Boxes": lambda: along(I.RandomHorizontalFlip(), I.RandomRotation(25, "bilinear")),
    "SanitizeBoundingBoxes": lambda: along(I.RandomResizedCrop((HEIGHT, WIDTH), (0.2, 0.5)), steps=[I.SanitizeBoundingBoxes(30)]),
    "Mask": lambda: along(I.RandomHorizontalFlip(), I.RandomRotation(25, "bilinear"), shown="mask"),
    "KeyPoints": lambda: along(I.RandomHorizontalFlip(), I.RandomRotation(25, "bilinear"), shown="points"),
    "MixUp": lambda: mixed(I.MixUp(1.0, num_classes=4)),
    "CutMix": lambda: mixed(I.CutMix(num_classes=4)),
}  # fmt: skip

#: Ops whose results are numbers, of which there is nothing to see.
UNSEEN = {"Normalize", "ToDtype", "ToLayout", "ClampBoundingBoxes", "ConvertBoundingBoxFormat"}


def strip(name: str) -> Image.Image:
    """The photograph and what an op makes of it, side by side."""
    tiles = [cat(), *PICTURES[name]()]
    sheet = Image.new("RGBA", (len(tiles) * (WIDTH + GAP) - GAP, HEIGHT))
    for number, tile in enumerate(tiles):
        image = Image.fromarray(tile)
        place = number * (WIDTH + GAP) + (WIDTH - image.width) // 2, (HEIGHT - image.height) // 2
        sheet.paste(image, place)
    return sheet


def main(names: Sequence[str]) -> None:
    """Writes the pictures of some ops, of all if none is named."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        strip(name).save(FOLDER / f"{name}.webp", quality=70, method=6)


if __name__ == "__main__":
    main(sys.argv[1:])
