"""PyTorch's DataLoader with torchvision: transforms.v2 on tensors, worker processes that stay, whole batches fetched at once where the data allow it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import BATCH, CPUS, Feed, endless, main
from map_style import Floats, Together
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset
from torch_photograph import preparation
from torch_recipes import listed, mixed, modern, two_views, with_boxes
from torchvision.io import decode_jpeg, read_file

from work import TINY_SAMPLES, Data

PASSES = 100


class Photographs(Dataset[tuple[Any, int]]):
    """JPEG files in class folders."""

    def __init__(self, files: list[tuple[Path, int]], prepare: Callable[[torch.Tensor], Any]) -> None:
        self.files, self.prepare = files, prepare

    def __len__(self) -> int:
        """One hundred passes make one epoch: the start of an epoch is not what is measured."""
        return PASSES * len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.files[index % len(self.files)]
        return self.prepare(read_file(str(path))), label


def photographs(
    data: Data, *, workers: int, workload: str = "a", make: Callable[[], Any] = preparation, collate: Any = None
) -> Feed:
    """Workloads (a) and (images-…)."""
    if workers:
        torch.set_num_threads(1)
    loader = DataLoader(
        Photographs(data.jpegs(), make()),
        batch_size=BATCH[workload],
        collate_fn=collate,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )
    settings = {
        "format": "JPEG files",
        "workers": workers,
        "transforms": "torchvision.transforms.v2 on tensors",
        "antialias": True,
    }

    def first(batch: Any) -> torch.Tensor:
        return batch[0] if isinstance(batch[0], torch.Tensor) else batch[0][0]

    return Feed(batches=endless(lambda: loader), column=first, settings=settings)


class Objects(Photographs):
    """JPEG files, and the objects in them by COCO's JSON: boxes, and masks by pycocotools as in torchvision's references/detection."""

    def __init__(self, data: Data) -> None:
        super().__init__(data.jpegs(), with_boxes())
        told = json.loads(data.instances.read_text())
        numbers = {one["id"]: data.photographs / one["file_name"] for one in told["images"]}
        found: dict[Path, list[Any]] = {path: [] for path, _ in self.files}
        for one in told["annotations"]:
            found[numbers[one["image_id"]]].append(one)
        self.objects = {
            path: {
                "boxes": torch.tensor([one["bbox"] for one in some]).reshape(-1, 4),
                "labels": torch.tensor([one["category_id"] for one in some], dtype=torch.int64),
                "outlines": [one["segmentation"] for one in some],
            }
            for path, some in found.items()
        }

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.files[index % len(self.files)]
        return self.prepare(read_file(str(path)), self.objects[path]), label  # type: ignore[call-arg]


def write_instances(data: Data) -> None:
    """One to eight objects in each photograph, of one to nine tenths of its sides: boxes, and ellipses of 40 corners."""
    random = np.random.default_rng(0)
    turns = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    circle = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    images, boxes = [], list[dict[str, Any]]()
    for number, (path, _) in enumerate(data.jpegs()):
        height, width = decode_jpeg(read_file(str(path))).shape[1:]
        name = path.relative_to(data.photographs).as_posix()
        images.append({"id": number, "file_name": name, "height": height, "width": width})
        for _ in range(int(random.integers(1, 9))):
            w, h = random.uniform(0.1, 0.9, 2) * (width, height)
            x, y = random.uniform(0, 1, 2) * (width - w, height - h)
            corners = (x, y) + (1 + circle) * (w / 2, h / 2)
            boxes.append(
                {
                    "id": len(boxes),
                    "image_id": number,
                    "category_id": int(random.integers(1, 81)),
                    "bbox": np.round([x, y, w, h], 2).tolist(),
                    "segmentation": [np.round(corners, 2).flatten().tolist()],
                    "area": w * h,
                    "iscrowd": 0,
                }
            )
    kinds = [{"id": number, "name": f"kind {number}"} for number in range(1, 81)]
    data.instances.write_text(json.dumps({"images": images, "annotations": boxes, "categories": kinds}))


def objects_in_photographs(data: Data) -> Feed:
    """Workload (images-detection), with a worker a CPU."""
    torch.set_num_threads(1)
    loader = DataLoader(
        Objects(data),
        batch_size=BATCH["images-detection"],
        collate_fn=listed,
        shuffle=True,
        drop_last=True,
        num_workers=CPUS,
        persistent_workers=True,
        prefetch_factor=4,
    )
    settings = {
        "format": "JPEG files, COCO's JSON",
        "workers": CPUS,
        "transforms": "torchvision.transforms.v2 on tv_tensors",
    }
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[0], settings=settings)


def recipe(workload: str, make: Callable[[], Any], collate: Any = None) -> dict[str, Callable[[Data], Feed]]:
    """A workload (images-…), with a worker a CPU."""
    feed = partial(photographs, workers=CPUS, workload=workload, make=make, collate=collate)
    return {f"workers_{CPUS}": feed}


def tiny(_: Data, *, workers: int) -> Feed:
    """Workload (c), sample by sample."""
    loader = DataLoader(
        TensorDataset(torch.arange(TINY_SAMPLES)),
        batch_size=BATCH["c"],
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    return Feed(
        batches=endless(lambda: loader),
        column=lambda batch: batch[0],
        settings={"workers": workers},
        samples=TINY_SAMPLES,
    )


def tiny_by_batch(_: Data) -> Feed:
    """Workload (c) with the documented "disable automatic batching": a batch's indices go to the data set at once."""
    numbers = TensorDataset(torch.arange(TINY_SAMPLES))
    sampler = BatchSampler(RandomSampler(numbers), BATCH["c"], drop_last=True)
    loader = DataLoader(numbers, sampler=sampler, batch_size=None)
    settings = {"workers": 0, "batch_size": None, "sampler": "BatchSampler(RandomSampler)"}
    return Feed(
        batches=endless(lambda: loader),
        column=lambda batch: batch[0],
        settings=settings,
        note="batches gathered by the data set",
        samples=TINY_SAMPLES,
    )


class Columns(Dataset[dict[str, torch.Tensor]]):
    """A table in memory, a tensor a column; gives single rows, or the rows of a list at once."""

    def __init__(self, data: Data) -> None:
        columns = torch.from_numpy(np.load(data.place("parquet", "columns.npy")))
        self.columns = {f"c{number:02d}": column for number, column in enumerate(columns)}

    def __len__(self) -> int:
        return len(self.columns["c00"])

    def __getitem__(self, rows: int | list[int]) -> dict[str, torch.Tensor]:
        if isinstance(rows, list):
            index = torch.tensor(rows)
            return {name: column[index] for name, column in self.columns.items()}
        return {name: column[rows] for name, column in self.columns.items()}


def table(data: Data, *, workers: int) -> Feed:
    """Workload (parquet), row by row, with the default collate."""
    loader = DataLoader(
        Columns(data),
        batch_size=BATCH["parquet"],
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    settings = {"workers": workers, "table": "in memory before the clock starts"}
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["c00"], settings=settings)


def table_by_batch(data: Data, *, workers: int) -> Feed:
    """Workload (parquet) with automatic batching disabled: a batch's row numbers go to the data set at once."""
    rows = Columns(data)
    sampler = BatchSampler(RandomSampler(rows), BATCH["parquet"], drop_last=True)
    loader = DataLoader(rows, sampler=sampler, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    settings = {"workers": workers, "batch_size": None, "table": "in memory before the clock starts"}
    note = "batches gathered by the data set"
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch["c00"], settings=settings, note=note)


def objects(data: Floats) -> Feed:
    """Workload (objects), in the training's own process."""
    loader = DataLoader(data, batch_size=BATCH["objects"], shuffle=True, drop_last=True)
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[0], settings={"workers": 0})


if __name__ == "__main__":
    feeds = {
        "a": {
            f"workers_{CPUS}": lambda data: photographs(data, workers=CPUS),
            "workers_0": lambda data: photographs(data, workers=0),
        },
        "c": {
            "by_batch": tiny_by_batch,
            "workers_0": lambda data: tiny(data, workers=0),
            f"workers_{CPUS}": lambda data: tiny(data, workers=CPUS),
        },
        "parquet": {
            "by_batch": lambda data: table_by_batch(data, workers=0),
            f"by_batch_{CPUS}": lambda data: table_by_batch(data, workers=CPUS),
            "workers_0": lambda data: table(data, workers=0),
            f"workers_{CPUS}": lambda data: table(data, workers=CPUS),
        },
        "images-modern": recipe("images-modern", modern),
        "images-mixed": recipe("images-mixed", modern, mixed),
        "images-simclr": recipe("images-simclr", two_views),
        "images-detection": {f"workers_{CPUS}": objects_in_photographs},
        "objects": {"workers_0": lambda _: objects(Floats()), "workers_0, __getitems__": lambda _: objects(Together())},
    }
    main("PyTorch DataLoader", torch.__version__, feeds, write={"images-detection": write_instances})
