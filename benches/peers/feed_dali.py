"""NVIDIA DALI on the CPU: the fused random-crop decoder (it decodes the crop only), resize with antialias, one native thread per core."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import BATCH, CPUS, MEAN, SIZE, STD, Feed, main, version_of
from nvidia.dali import fn, math, pipeline_def, types
from nvidia.dali import tfrecord as tfr
from nvidia.dali.auto_aug import trivial_augment

from work import FLOATS, INTS, Data

THREADS = CPUS


def run(pipeline: Any) -> Iterator[Any]:
    """The pipeline's outputs, batch after batch; its readers go round for ever."""
    pipeline.build()
    while True:
        yield pipeline.run()


def photographs(data: Data) -> Feed:
    """Workload (a)."""

    @pipeline_def(batch_size=BATCH["a"], num_threads=THREADS, device_id=None, prefetch_queue_depth=2, seed=0)
    def describe() -> Any:
        encoded, labels = fn.readers.file(
            file_root=str(data.photographs),
            random_shuffle=True,
            initial_fill=min(1_024, len(data.jpegs())),
            name="reader",
        )
        images = fn.decoders.image_random_crop(
            encoded, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
            mirror=fn.random.coin_flip(),
        )
        return images, labels

    settings = {"format": "JPEG files", "threads": THREADS, "decode": "decoders.image_random_crop", "antialias": True}
    return Feed(batches=run(describe()), column=lambda batch: batch[0].as_array(), settings=settings)


def modern(data: Data) -> Feed:
    """Workload (images-modern)."""

    @pipeline_def(
        batch_size=BATCH["images-modern"],
        num_threads=THREADS,
        device_id=None,
        prefetch_queue_depth=2,
        seed=0,
        enable_conditionals=True,
    )
    def describe() -> Any:
        encoded, labels = fn.readers.file(file_root=str(data.photographs), random_shuffle=True, initial_fill=1_024)
        images = fn.decoders.image_random_crop(
            encoded, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
        images = fn.flip(images, horizontal=fn.random.coin_flip())
        images = trivial_augment.trivial_augment_wide(images, shape=[SIZE, SIZE])
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            output_layout="CHW",
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
        )
        if fn.random.coin_flip(probability=0.1, dtype=types.BOOL):
            area, ratio = fn.random.uniform(range=[0.02, 0.33]), fn.random.uniform(range=[0.3, 3.3])
            sides = fn.stack(math.sqrt(area * ratio), math.sqrt(area / ratio))
            anchor = fn.random.uniform(range=[0.0, 1.0], shape=[2]) * (1.0 - sides)
            images = fn.erase(images, anchor=anchor, shape=sides, axis_names="HW", normalized=True, fill_value=0.0)
        return images, labels

    settings = {"format": "JPEG files", "threads": THREADS, "decode": "decoders.image_random_crop", "antialias": True}
    return Feed(batches=run(describe()), column=lambda batch: batch[0].as_array(), settings=settings)


def rows(data: Data) -> Feed:
    """Workload (b)."""
    files = data.files("b", "tfrecord", ".tfrecord")

    @pipeline_def(batch_size=BATCH["b"], num_threads=THREADS, device_id=None, prefetch_queue_depth=2, seed=0)
    def describe() -> Any:
        features = {
            "floats": tfr.FixedLenFeature([FLOATS], tfr.float32, 0.0),
            "ints": tfr.FixedLenFeature([INTS], tfr.int64, 0),
            "label": tfr.FixedLenFeature([1], tfr.int64, 0),
        }
        columns = fn.readers.tfrecord(
            path=[str(path) for path in files],
            index_path=[str(index_of(path)) for path in files],
            features=features,
            random_shuffle=True,
            initial_fill=65_536,
        )
        return columns["floats"], columns["ints"], columns["label"]

    settings = {
        "format": f"{len(files)} TFRecord files",
        "threads": THREADS,
        "reader": "readers.tfrecord",
        "initial_fill": 65_536,
    }
    return Feed(batches=run(describe()), column=lambda batch: batch[0].as_array(), settings=settings)


def index_of(path: Path) -> Path:
    """Where a TFRecord file's index lies: "part-00.tfrecord" has "part-00.idx"."""
    return path.with_suffix(".idx")


def write(data: Data) -> None:
    """DALI's index of each TFRecord file: one line "offset length" a record, as its tool tfrecord2idx writes them."""
    for path in data.files("b", "tfrecord", ".tfrecord"):
        framed = path.read_bytes()
        lines = []
        offset = 0
        while offset < len(framed):
            size = 16 + struct.unpack_from("<Q", framed, offset)[0]
            lines.append(f"{offset} {size}\n")
            offset += size
        index_of(path).write_text("".join(lines))


if __name__ == "__main__":
    main(
        "DALI",
        version_of("nvidia-dali-cuda130"),
        {"a": {"random_crop": photographs}, "b": {"readers.tfrecord": rows}, "images-modern": {"random_crop": modern}},
        write={"a": write},
    )
