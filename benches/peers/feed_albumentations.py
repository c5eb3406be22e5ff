"""Albumentations in PyTorch's DataLoader: OpenCV decodes, worker processes stay."""

from __future__ import annotations

from pathlib import Path

import albumentations
import cv2
import torch
from albumentations.pytorch import ToTensorV2
from common import BATCH, CPUS, MEAN, SIZE, STD, Feed, endless, main, version_of
from torch.utils.data import DataLoader, Dataset

from work import Data

PASSES = 100


class Views(Dataset[tuple[torch.Tensor, torch.Tensor, int]]):
    """JPEG files in class folders; SimCLR's two views of each."""

    def __init__(self, files: list[tuple[Path, int]]) -> None:
        self.files = files
        self.chain = albumentations.Compose(
            [
                albumentations.RandomResizedCrop((SIZE, SIZE)),
                albumentations.HorizontalFlip(),
                albumentations.ColorJitter((0.2, 1.8), (0.2, 1.8), (0.2, 1.8), (-0.2, 0.2), p=0.8),
                albumentations.ToGray(p=0.2),
                albumentations.GaussianBlur(blur_limit=(23, 23), sigma_limit=(0.1, 2.0), p=0.5),
                albumentations.Normalize(MEAN, STD),
                ToTensorV2(),
            ]
        )

    def __len__(self) -> int:
        """One hundred passes make one epoch: the start of an epoch is not what is measured."""
        return PASSES * len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        path, label = self.files[index % len(self.files)]
        pixels = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        return self.chain(image=pixels)["image"], self.chain(image=pixels)["image"], label


def two_views(data: Data) -> Feed:
    """Workload (images-simclr)."""
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    loader = DataLoader(
        Views(data.jpegs()),
        batch_size=BATCH["images-simclr"],
        shuffle=True,
        drop_last=True,
        num_workers=CPUS,
        persistent_workers=True,
        prefetch_factor=4,
    )
    settings = {"format": "JPEG files", "workers": CPUS, "antialias": False}
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[0], settings=settings)


if __name__ == "__main__":
    main("Albumentations", version_of("albumentations"), {"images-simclr": {f"workers_{CPUS}": two_views}})
