"""SPDL: one process, a thread pool, FFmpeg's decoder with crop, scale and flip as its filters; or the same threads around torchvision."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import spdl.io
import torch
from common import BATCH, CPUS, MEAN, SIZE, STD, Feed, main, version_of
from spdl.pipeline import PipelineBuilder
from torch_photograph import preparation

from work import TINY_SAMPLES, Data

AHEAD = 3


def run(builder: PipelineBuilder, threads: int) -> Iterator[Any]:
    """The pipeline's outputs, for as long as its source goes on."""
    pipeline = builder.build(num_threads=threads)
    with pipeline.auto_stop():
        yield from pipeline


def shuffled(files: list[tuple[Path, int]]) -> Iterator[tuple[Path, int]]:
    """Every file once a pass, pass after pass."""
    order = random.Random(0)
    while True:
        yield from order.sample(files, len(files))


def crop_filter(width: int, height: int) -> str:
    """FFmpeg's filters for one draw of RandomResizedCrop and flip. swscale's bilinear is antialiased when it makes smaller."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w = h = min(width, height)
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    flip = ",hflip" if random.random() < 0.5 else ""
    return f"crop={w}:{h}:{x}:{y},scale={SIZE}:{SIZE}:flags=bilinear{flip},format=pix_fmts=rgb24"


def by_ffmpeg(item: tuple[Path, int]) -> tuple[Any, int]:
    """One file to one frame of 224×224 RGB."""
    path, label = item
    packets = spdl.io.demux_image(str(path))
    codec = packets.codec
    return spdl.io.decode_packets(packets, filter_desc=crop_filter(codec.width, codec.height)), label


SCALE = torch.tensor([1 / (255 * value) for value in STD]).view(1, 3, 1, 1)
SHIFT = torch.tensor([mean / value for mean, value in zip(MEAN, STD, strict=True)]).view(1, 3, 1, 1)


def collate_frames(items: list[tuple[Any, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Frames to one buffer, normalised as a whole batch."""
    pixels = torch.from_numpy(spdl.io.to_numpy(spdl.io.convert_frames([frame for frame, _ in items])))
    images = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    return images.mul_(SCALE).sub_(SHIFT), torch.tensor([label for _, label in items])


def collate_tensors(items: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors, normalised already, to one."""
    return torch.stack([image for image, _ in items]), torch.tensor([label for _, label in items])


def photographs(data: Data, *, decoder: str) -> Feed:
    """Workload (a)."""
    prepare = preparation()

    def by_torchvision(item: tuple[Path, int]) -> tuple[torch.Tensor, int]:
        return prepare(item[0].read_bytes()), item[1]

    builder = (
        PipelineBuilder()
        .add_source(shuffled(data.jpegs()))
        .pipe(by_ffmpeg if decoder == "ffmpeg" else by_torchvision, concurrency=CPUS, output_order="completion")
        .aggregate(BATCH["a"], drop_last=True)
        .pipe(collate_frames if decoder == "ffmpeg" else collate_tensors)
        .add_sink(AHEAD)
    )
    settings = {"format": "JPEG files", "threads": CPUS, "decoder": decoder, "antialias": True}
    return Feed(batches=run(builder, CPUS + 1), column=lambda batch: batch[0], settings=settings)


def positions() -> Iterator[np.ndarray[Any, Any]]:
    """The order of workload (c), a batch at a time."""
    chance = np.random.default_rng(0)
    while True:
        order = chance.permutation(TINY_SAMPLES)
        yield from order[: TINY_SAMPLES // BATCH["c"] * BATCH["c"]].reshape(-1, BATCH["c"])


def tiny(_: Data) -> Feed:
    """Workload (c), batches gathered by hand."""
    numbers = np.arange(TINY_SAMPLES)
    builder = PipelineBuilder().add_source(positions()).pipe(lambda at: numbers[at], concurrency=1).add_sink(AHEAD)
    return Feed(
        batches=run(builder, CPUS),
        column=lambda batch: batch,
        settings={"threads": CPUS},
        note="batches gathered by hand",
        samples=TINY_SAMPLES,
    )


def tiny_samples(_: Data) -> Feed:
    """Workload (c), sample by sample."""
    builder = (
        PipelineBuilder()
        .add_source(int(at) for batch in positions() for at in batch)
        .aggregate(BATCH["c"], drop_last=True)
        .pipe(np.array)
        .add_sink(AHEAD)
    )
    return Feed(
        batches=run(builder, CPUS), column=lambda batch: batch, settings={"threads": CPUS}, samples=TINY_SAMPLES
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    feeds = {
        "a": {
            "ffmpeg": lambda data: photographs(data, decoder="ffmpeg"),
            "torchvision": lambda data: photographs(data, decoder="torchvision"),
        },
        "c": {"samples": tiny_samples, "by_batch": tiny},
    }
    main("SPDL", version_of("spdl"), feeds)
