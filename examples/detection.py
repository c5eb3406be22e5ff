"""A batch for a detector, with its boxes drawn into a file: python examples/detection.py [STEPS] [FILE]"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from local_data import photographs
from PIL import Image, ImageDraw

import penstock as ps

I = ps.image  # noqa: E741
SSD = [I.RandomPhotometricDistort(), I.RandomZoomOut(fill=114), I.RandomIoUCrop(), I.RandomHorizontalFlip()]


def with_boxes(row: dict) -> dict:
    """Two boxes for an image of 96 × 96: an annotation would come from a file."""
    boxes = np.float32([[8, 8, 56, 64], [40, 30, 90, 88]])
    return {**row, "boxes": boxes, "classes": np.int64([row["label"], row["label"] + 2])}


def drawn(image: np.ndarray, boxes: list, classes: list) -> Image.Image:
    """An image with its boxes."""
    picture = Image.fromarray(image)
    for box, number in zip(boxes, classes, strict=True):
        ImageDraw.Draw(picture).rectangle(box, outline=("red", "lime", "blue", "yellow")[number], width=2)
    return picture


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as folder:
        photographs(Path(folder))
        plan = (
            ps.read(folder)
            .shuffle(seed=0)
            .map_rows(with_boxes)
            .transform(
                image=[I.Decode(mode="RGB"), *SSD, I.Resize((160, 160)), I.ToLayout("NHWC")],
                boxes=[I.Boxes(of="image", labels=("classes",)), I.SanitizeBoundingBoxes()],
            )
            .batch(8)
        )
        with ps.Loader(plan) as loader:
            for _, batch in zip(range(steps), loader, strict=False):
                rows = zip(batch["image"], batch["boxes"].to_pylist(), batch["classes"].to_pylist(), strict=True)
                sheet = np.concatenate([np.asarray(drawn(*row)) for row in rows], axis=1)
    file = sys.argv[2] if len(sys.argv) > 2 else "detection.png"
    Image.fromarray(sheet).save(file)
    print(f"{len(batch['image'])} images, {sum(map(len, batch['boxes']))} boxes: see {file}")


if __name__ == "__main__":
    main()
