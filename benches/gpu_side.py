"""The sides that `make gpu` compares: batches of images from one loader, and a training on them.

Every side goes through epochs of many thousand steps: where an epoch is short, a DataLoader's workers run dry at each end, and whoever reads ahead into the next one
looks too fast. "alone" trains on one tensor that stays on the device, the same for all sides, before and after.
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

import numpy as np
import torch

from gpu_device import Cuda
from gpu_model import tiny_step, training_step
from gpu_photographs import CLASSES, PIXELS
from gpu_trace import figures

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Each file so many times an epoch.
REPEATS = 256
Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def plan_of(data: Path, size: int) -> Any:
    """Ours, without batches."""
    import penstock as ps

    ops = [
        ps.image.RandomResizedCrop(size),
        ps.image.RandomHorizontalFlip(),
        ps.image.Normalize(ps.image.IMAGENET),
        ps.image.ToLayout("NHWC"),  # channels last
    ]
    if (data / PIXELS).exists():
        pixels = np.load(data / PIXELS, mmap_mode="r")
        images = ps.from_arrays({"image": np.asarray(pixels), "label": np.arange(len(pixels)) % CLASSES})
    else:
        images, ops = ps.read(str(data), columns=["image", "label"]), [ps.image.Decode(), *ops]
    return images.repeat(REPEATS).shuffle(seed=0).transform(image=ops)


def loader_of(gpu: Cuda, asked: argparse.Namespace, **options: Any) -> Any:
    import penstock as ps

    plan = plan_of(asked.data, asked.size).batch(asked.batch, drop_last=True)
    return ps.Loader(plan, **{"to": "torch", "device": gpu.device, **options})


def penstock(gpu: Cuda, asked: argparse.Namespace) -> Batches:
    with loader_of(gpu, asked) as loader:
        while True:
            for batch in loader:
                yield batch["image"].permute(0, 3, 1, 2), batch["label"]


class Images(torch.utils.data.Dataset[Any]):
    """Images as uint8 after a random crop and flip: torchvision's, or where that is missing and there are arrays, PyTorch's own resizing."""

    def __init__(self, data: Path, size: int) -> None:
        self.size, self.data = size, data
        self.files = sorted(data.glob("*/*.jpg"))
        self.pixels: Any = None
        self.count = len(self.files) or len(np.load(data / PIXELS, mmap_mode="r"))
        self.transform: Any = None
        if self.files:
            from torchvision.transforms import v2

            self.transform = v2.Compose([v2.RandomResizedCrop(size), v2.RandomHorizontalFlip(), v2.PILToTensor()])

    def __len__(self) -> int:
        return self.count * REPEATS

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        number %= self.count
        if not self.files:
            return self._cropped(number), number % CLASSES
        from PIL import Image

        file = self.files[number]
        return self.transform(Image.open(file).convert("RGB")), int(file.parent.name)

    def _cropped(self, number: int) -> torch.Tensor:
        if self.pixels is None:
            self.pixels = np.load(self.data / PIXELS, mmap_mode="r")
        height, width = self.pixels.shape[1:3]
        share = 0.08 + 0.92 * float(torch.rand(()))
        side = max(1, int((height * width * share) ** 0.5))
        top, left = (int(torch.randint(0, whole - side + 1, ())) for whole in (height, width))
        crop = torch.from_numpy(self.pixels[number, top : top + side, left : left + side].copy()).permute(2, 0, 1)
        resized = torch.nn.functional.interpolate(crop[None], (self.size, self.size), mode="bilinear", antialias=True)[
            0
        ]
        return resized.flip(2) if torch.rand(()) < 0.5 else resized


def dataloader(gpu: Cuda, asked: argparse.Namespace) -> Batches:
    """A worker a core; bytes over the bus from pinned memory, and normalised on the device: what its guide recommends."""
    mean, std = (255 * torch.tensor(values, device=gpu.model_device).view(1, 3, 1, 1) for values in (MEAN, STD))
    workers = gpu.size(len(os.sched_getaffinity(0)), 0)
    options = {"prefetch_factor": 4, "persistent_workers": True, "pin_memory": True} if workers else {}
    loader: Any = torch.utils.data.DataLoader(
        Images(asked.data, asked.size), asked.batch, shuffle=True, drop_last=True, num_workers=workers, **options
    )
    while True:
        for images, labels in loader:
            moved = images.to(gpu.model_device, non_blocking=True)
            # The layout is changed while they are bytes.
            numbers = moved.contiguous(memory_format=torch.channels_last).float()
            yield (numbers - mean) / std, labels.to(gpu.model_device, non_blocking=True)


def dali(gpu: Cuda, asked: argparse.Namespace) -> Batches:
    """Decoding on the GPU too ("mixed"), as DALI's guide for ImageNet has it."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def(batch_size=asked.batch, num_threads=len(os.sched_getaffinity(0)), device_id=0, seed=0)
    def describe() -> Any:
        encoded, labels = fn.readers.file(file_root=str(asked.data), random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(
            encoded, device="mixed", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        images = fn.resize(images, size=[asked.size, asked.size], interp_type=types.INTERP_LINEAR, antialias=True)
        mean, std = ([255 * value for value in values] for values in (MEAN, STD))
        layout = {"dtype": types.FLOAT, "output_layout": "HWC"}
        return fn.crop_mirror_normalize(
            images, mean=mean, std=std, mirror=fn.random.coin_flip(), **layout
        ), labels.gpu()

    for (made,) in DALIGenericIterator(describe(), ["image", "label"]):  # goes round for ever without a reader's name
        yield made["image"].permute(0, 3, 1, 2), made["label"].squeeze(1).long()


SIDES: dict[str, Callable[[Cuda, argparse.Namespace], Batches]] = {
    "penstock": penstock,
    "DataLoader": dataloader,
    "DALI": dali,
}


def rate(
    gpu: Cuda, step: Callable[..., None], batches: Batches, asked: argparse.Namespace, seconds: float
) -> tuple[float, float]:
    """Images a second, and the part of the time for which the training thread waited in `next`."""
    gpu.synchronize()
    steps, waited_s, began_at = 0, 0.0, time.perf_counter()
    while time.perf_counter() - began_at < seconds:
        asked_at = time.perf_counter()
        images, labels = next(batches)
        waited_s += time.perf_counter() - asked_at
        step(images, labels)
        steps += 1
    gpu.synchronize()
    took_s = time.perf_counter() - began_at
    return steps * asked.batch / took_s, waited_s / took_s


def traced(
    gpu: Cuda, step: Callable[..., None], batches: Batches, asked: argparse.Namespace
) -> dict[str, float | None]:
    """What a trace of some steps says of copies and kernels."""
    steps = gpu.size(20, 2)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if not gpu.is_dry:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(steps):
            step(*next(batches))
        gpu.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(f"{folder}/trace.json")
        return figures(json.loads(Path(folder, "trace.json").read_text())["traceEvents"], steps * asked.batch)


def resident(gpu: Cuda, asked: argparse.Namespace) -> Batches:
    """One batch that stays on the device."""
    images = torch.rand((asked.batch, asked.size, asked.size, 3), device=gpu.model_device).permute(0, 3, 1, 2)
    return itertools.repeat((images, torch.arange(asked.batch, device=gpu.model_device) % CLASSES))


def trained(gpu: Cuda, asked: argparse.Namespace) -> dict[str, Any]:
    """The figures of a side, `asked.side`, on a model."""
    torch.backends.cudnn.benchmark = True
    step = gpu.size(training_step, tiny_step)(asked.model, gpu.model_device)
    alone = resident(gpu, asked)
    rate(gpu, step, alone, asked, asked.seconds / 4)  # chooses algorithms, warms up
    before, _ = rate(gpu, step, alone, asked, asked.seconds / 2)
    alone_bytes = gpu.most_reserved()
    began_at = time.perf_counter()
    batches = SIDES[asked.side](gpu, asked)
    next(batches)
    first_batch_s = time.perf_counter() - began_at
    rate(gpu, step, batches, asked, asked.seconds / 2)  # the loader tunes itself
    fed, waited = rate(gpu, step, batches, asked, asked.seconds)
    most_bytes, trace = gpu.most_reserved(), traced(gpu, step, batches, asked)
    batches.close()  # type: ignore[attr-defined]  # a generator; its workers take no CPU while it is gone
    after, _ = rate(gpu, step, alone, asked, asked.seconds / 2)
    rates = max(before, after)  # workers that end take some CPU yet
    return {
        "images_per_s": fed,
        "alone_images_per_s": rates,
        "lost_to_data": max(0.0, 1 - fed / rates),
        "thread_waited": waited,
        "first_batch_s": first_batch_s,
        "reserved_more_bytes": None if most_bytes is None or alone_bytes is None else most_bytes - alone_bytes,
        **trace,
    }
