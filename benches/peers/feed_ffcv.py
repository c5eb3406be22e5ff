"""FFCV: one .beton file with the same JPEG bytes, compiled pipelines, one native thread per core, the file in the page cache."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import BATCH, CPUS, MEAN, SIZE, STD, Feed, endless, main, version_of
from ffcv.fields import IntField, NDArrayField, RGBImageField
from ffcv.fields.decoders import IntDecoder, NDArrayDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.reader import Reader
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from PIL import Image

from work import FLOATS, INTS, LARGE, TINY_SAMPLES, TINY_SAMPLES_IN_FILES, TITLES, Data

PASSES = 100
#: A page must hold the largest sample: a raw photograph of 3,000×2,000 takes 18 MB, FFCV's own 8 MiB do for the rest.
PAGE_BYTES = (32 if LARGE else 8) << 20
BATCHES_AHEAD = 3


def load(path: Path, workload: str, pipelines: dict[str, Any], *, passes: int = 1) -> Loader:
    """A loader over so many passes of the file: the start of an epoch is not what is measured."""
    count = Reader(str(path)).num_samples
    return Loader(
        str(path),
        batch_size=BATCH[workload],
        num_workers=CPUS,
        os_cache=True,
        order=OrderOption.RANDOM,
        indices=np.tile(np.arange(count, dtype=np.uint64), passes),
        pipelines=pipelines,
        drop_last=True,
        batches_ahead=BATCHES_AHEAD,
    )


def photographs(data: Data, *, name: str) -> Feed:
    """Workload (a): the whole picture decoded, cropped and resized by OpenCV's INTER_AREA, normalised by table."""
    image = [
        RandomResizedCropRGBImageDecoder((SIZE, SIZE)),
        RandomHorizontalFlip(),
        NormalizeImage(255 * np.array(MEAN), 255 * np.array(STD), np.float32),
        ToTensor(),
        ToTorchImage(channels_last=True, convert_back_int16=False),
    ]
    pipelines = {"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]}
    loader = load(data.place("a", f"{name}.beton"), "a", pipelines, passes=PASSES)
    settings = {
        "format": f".beton, {name}",
        "threads": CPUS,
        "os_cache": True,
        "order": "RANDOM",
        "resize": "INTER_AREA",
    }
    note = "channels last" if name == "jpg" else "channels last; pixels stored, not JPEG"
    return Feed(batches=endless(lambda: loader), column=lambda batch: batch[0], settings=settings, note=note)


def rows(data: Data) -> Feed:
    """Workload (b), in FFCV's own file."""
    pipelines = {
        "floats": [NDArrayDecoder(), ToTensor()],
        "ints": [NDArrayDecoder(), ToTensor()],
        "label": [IntDecoder(), ToTensor(), Squeeze()],
    }
    loader = load(data.place("b", "rows.beton"), "b", pipelines)
    return Feed(
        batches=endless(lambda: loader),
        column=lambda batch: batch[0],
        settings={"format": ".beton", "threads": CPUS, "os_cache": True, "order": "RANDOM"},
        note="from a .beton file",
    )


def tiny(data: Data, *, samples: int) -> Feed:
    """Workload (c), in FFCV's own file."""
    loader = load(tiny_file(data, samples), "c", {"x": [IntDecoder(), ToTensor(), Squeeze()]})
    return Feed(
        batches=endless(lambda: loader),
        column=lambda batch: batch[0],
        settings={"format": ".beton", "threads": CPUS, "os_cache": True, "order": "RANDOM"},
        note=f"from a .beton file of {samples:,}",
        samples=samples,
    )


def tiny_file(data: Data, samples: int) -> Path:
    """Where so many numbers lie."""
    return data.place("c", f"{samples}.beton")


class Stored:
    """A data set to write: stored[n] is a tuple of fields."""

    def __init__(self, count: int, row: Any) -> None:
        self.count = count
        self.row = row

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.row(index)


def keep_bytes(destination: Any, encoded: bytes, malloc: Any) -> None:
    """RGBImageField.encode for bytes that are JPEG already: FFCV would decode and encode them anew."""
    destination["mode"] = 0
    destination["width"], destination["height"] = Image.open(io.BytesIO(encoded)).size
    destination["data_ptr"], storage = malloc(len(encoded))
    storage[:] = np.frombuffer(encoded, dtype=np.uint8)


def write(data: Data) -> None:
    """All three workloads as .beton files; (a) with the same JPEG bytes and with raw pixels."""
    photos = data.jpegs()
    same_bytes = RGBImageField(write_mode="jpg")
    same_bytes.encode = keep_bytes
    _write(
        data.place("a", "jpg.beton"),
        {"image": same_bytes, "label": IntField()},
        len(photos),
        lambda n: (photos[n][0].read_bytes(), photos[n][1]),
    )
    pixels = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
    _write(
        data.place("a", "raw.beton"),
        pixels,
        len(photos),
        lambda n: (np.asarray(Image.open(photos[n][0])), photos[n][1]),
    )
    if "b" not in TITLES:
        return
    arrays = np.load(data.rows)
    floats, ints, labels = arrays["floats"], arrays["ints"], arrays["label"]
    fields = {
        "floats": NDArrayField(np.dtype("float32"), (FLOATS,)),
        "ints": NDArrayField(np.dtype("int64"), (INTS,)),
        "label": IntField(),
    }
    _write(data.place("b", "rows.beton"), fields, len(labels), lambda n: (floats[n], ints[n], int(labels[n])))
    for samples in (TINY_SAMPLES, TINY_SAMPLES_IN_FILES):
        _write(tiny_file(data, samples), {"x": IntField()}, samples, lambda n: (n,))


def _write(path: Path, fields: dict[str, Any], count: int, row: Any) -> None:
    writer = DatasetWriter(str(path), fields, page_size=PAGE_BYTES, num_workers=CPUS)
    writer.from_indexed_dataset(Stored(count, row), chunksize=1_000)


if __name__ == "__main__":
    torch.set_num_threads(1)
    feeds = {
        "a": {
            "jpg": lambda data: photographs(data, name="jpg"),
            "raw": lambda data: photographs(data, name="raw"),
        },
        "b": {"beton": rows},
        "c": {
            "beton": partial(tiny, samples=TINY_SAMPLES),
            "beton, 1 million": partial(tiny, samples=TINY_SAMPLES_IN_FILES),
        },
    }
    main("FFCV", version_of("ffcv"), feeds, write={"a": write})
