"""A small network finds flowers pixel by pixel; its masks go where their images go: python examples/segmentation.py [STEPS]"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from local_data import photographs
from PIL import Image
from torch import nn

import penstock as ps

I = ps.image  # noqa: E741
LOSS = nn.CrossEntropyLoss(ignore_index=255)
CROP = [I.RandomResizedCrop(64, scale=(0.3, 1.0)), I.RandomHorizontalFlip(), I.RandomRotation(15, "bilinear")]


def with_masks(folder: Path) -> None:
    """A mask beside each photograph, what is redder than green: an annotation would be drawn by people."""
    for file in (folder / "images").glob("*/*.jpg"):
        red, green, _ = np.moveaxis(np.asarray(Image.open(file)).astype(int), -1, 0)
        mask = folder / "masks" / file.parent.name / f"{file.stem}.png"
        mask.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((red > green).astype(np.uint8)).save(mask)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        photographs(folder / "images")
        with_masks(folder)
        pairs = [ps.read(folder / "images"), ps.read(folder / "masks", columns={"mask": "image"})]
        plan = (
            ps.zip(pairs, on="stem")
            .shuffle(seed=0)
            .transform(
                image=[I.Decode(), *CROP, I.ColorJitter(0.2, 0.2), I.Normalize(I.IMAGENET)],
                mask=I.Mask(of="image", mode="L", fill=255),  # 255 counts nowhere, below
            )
            .batch(16, steps=steps)
        )
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 2, 5, padding=2))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        with ps.Loader(plan, to="torch") as loader:
            for batch in loader:
                loss = LOSS(model(batch["image"]), batch["mask"][:, 0].long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        print(f"step {steps}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
