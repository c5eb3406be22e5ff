"""One side of the GPU's figures: trains on photographs from one loader, in a process of its own, and prints a line of JSON.

    python benches/gpu_side.py --side penstock --model resnet18 --data FOLDER

"alone" trains on one batch that stays on the device, before and after: the part of time that waiting for data takes is 1 - rate / rate alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from gpu_model import MODELS, training_step
from gpu_trace import figures

SIZE, MEAN, STD = 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def penstock(asked: argparse.Namespace) -> Batches:
    import penstock as ps

    ops = [
        ps.image.Decode(),
        ps.image.RandomResizedCrop(SIZE),
        ps.image.RandomHorizontalFlip(),
        ps.image.Normalize(ps.image.IMAGENET),
        ps.image.ToLayout("NHWC"),  # channels last
    ]
    photographs = ps.read(str(asked.data), columns=["image", "label"]).shuffle(seed=0).transform(image=ops)
    with ps.Loader(photographs.batch(asked.batch, drop_last=True), to="torch", device=asked.device) as loader:
        while True:
            for batch in loader:
                yield batch["image"].permute(0, 3, 1, 2), batch["label"]


class Folder(torch.utils.data.Dataset[Any]):
    """Images of a folder a class, as uint8 after torchvision's random crop and flip."""

    def __init__(self, folder: Path) -> None:
        from torchvision.transforms import v2

        self.files = sorted(folder.glob("*/*.jpg"))
        self.classes = {name: number for number, name in enumerate(sorted({file.parent.name for file in self.files}))}
        self.transform = v2.Compose([v2.RandomResizedCrop(SIZE), v2.RandomHorizontalFlip(), v2.PILToTensor()])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        file = self.files[number]
        return self.transform(Image.open(file).convert("RGB")), self.classes[file.parent.name]


def dataloader(asked: argparse.Namespace) -> Batches:
    """A worker a core; bytes over the bus from pinned memory, and normalised on the device: what its guide recommends."""
    mean, std = (255 * torch.tensor(values, device=asked.device).view(1, 3, 1, 1) for values in (MEAN, STD))
    loader = torch.utils.data.DataLoader(
        Folder(asked.data),
        asked.batch,
        shuffle=True,
        drop_last=True,
        num_workers=len(os.sched_getaffinity(0)),
        prefetch_factor=4,
        persistent_workers=True,
        pin_memory=asked.device != "cpu",
    )
    while True:
        for images, labels in loader:
            moved = images.to(asked.device, non_blocking=True)
            yield (moved.float() - mean) / std, labels.to(asked.device, non_blocking=True)


def dali(asked: argparse.Namespace) -> Batches:
    """Decoding on the GPU too ("mixed"), as DALI's guide for ImageNet has it."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=asked.batch, num_threads=len(os.sched_getaffinity(0)), device_id=0, seed=0)
    def describe() -> Any:
        encoded, labels = fn.readers.file(file_root=str(asked.data), random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(
            encoded, device="mixed", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
        mean, std = ([255 * value for value in values] for values in (MEAN, STD))
        layout = {"dtype": types.FLOAT, "output_layout": "HWC"}
        return fn.crop_mirror_normalize(
            images, mean=mean, std=std, mirror=fn.random.coin_flip(), **layout
        ), labels.gpu()

    for (made,) in DALIGenericIterator(describe(), ["image", "label"]):  # goes round for ever without a reader's name
        yield made["image"].permute(0, 3, 1, 2), made["label"].squeeze(1).long()


SIDES: dict[str, Callable[[argparse.Namespace], Batches]] = {
    "penstock": penstock,
    "DataLoader": dataloader,
    "DALI": dali,
}


def settle(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def rate(step: Callable[..., None], batches: Batches, asked: argparse.Namespace, seconds: float) -> tuple[float, float]:
    """Images a second, and the part of the time for which the training thread waited in `next`."""
    settle(asked.device)
    steps, waited_s, began_at = 0, 0.0, time.perf_counter()
    while time.perf_counter() - began_at < seconds:
        asked_at = time.perf_counter()
        images, labels = next(batches)
        waited_s += time.perf_counter() - asked_at
        step(images, labels)
        steps += 1
    settle(asked.device)
    took_s = time.perf_counter() - began_at
    return steps * asked.batch / took_s, waited_s / took_s


def traced(step: Callable[..., None], batches: Batches, asked: argparse.Namespace, steps: int = 20) -> dict[str, float]:
    """What a trace of some steps says of copies."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if asked.device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(steps):
            step(*next(batches))
        settle(asked.device)
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(f"{folder}/trace.json")
        return figures(json.loads(Path(folder, "trace.json").read_text())["traceEvents"], steps * asked.batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=SIDES, required=True)
    parser.add_argument("--model", choices=MODELS, default="resnet18")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=12)
    asked = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    step, batches = training_step(asked.model, asked.device), SIDES[asked.side](asked)
    resident = itertools.repeat(next(batches))
    rate(step, resident, asked, asked.seconds / 4)  # chooses algorithms, warms up
    rate(step, batches, asked, asked.seconds / 2)  # the loader tunes itself
    before, _ = rate(step, resident, asked, asked.seconds / 4)
    fed, waited = rate(step, batches, asked, asked.seconds)
    after, _ = rate(step, resident, asked, asked.seconds / 4)
    alone = (before + after) / 2
    found = {
        "images_per_s": fed,
        "alone_images_per_s": alone,
        "lost_to_data": max(0.0, 1 - fed / alone),
        "thread_waited": waited,
    }
    print(json.dumps(found | traced(step, batches, asked)), flush=True)
    batches.close()  # type: ignore[attr-defined]  # a generator


if __name__ == "__main__":
    main()
