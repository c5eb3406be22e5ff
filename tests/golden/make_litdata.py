"""Writes the golden LitData folders; run it where litdata, pyarrow (for chunks of rows) and zstd are installed.

    python tests/golden/make_litdata.py

Beside each folder lies NAME.json with what StreamingDataset gives for it: bytes in hex, arrays as nested lists, pictures as pixels.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from litdata import StreamingDataset
from litdata.streaming.cache import Cache
from litdata.streaming.item_loader import TokensLoader
from litdata.types import Image as ImageFile
from litdata.types import JpegArray, Text
from PIL import Image

FOLDER = Path(__file__).parent / "litdata"
RNG = np.random.default_rng(23)


def picture():
    return Image.fromarray(RNG.integers(0, 256, (4, 5, 3), dtype=np.uint8))


def encoded(image, kind):
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def items(count):
    return [
        {
            "id": number,
            "float": number / 3,
            "bool": number % 3 == 0,
            "text": Text(text="grüße " * (number % 3)),
            "numpy": RNG.random((2, 3)).astype(np.float32),
            "tensor": torch.from_numpy(RNG.integers(0, 9, (3, 2))),
            "ragged": RNG.integers(0, 9, number % 4),
            "flags": torch.from_numpy(RNG.random(4) < 0.5),
            "grown": torch.from_numpy(RNG.integers(0, 9, (1 + number % 2, 3)).astype(np.int16)),
            "nested": {"a": np.arange(4), "b": [torch.ones(2) * number, number]},
        }
        for number in range(count)
    ]


def pictures(count):
    made = []
    for number in range(count):
        image = picture()
        made.append(
            {
                "pil": image,
                "image": ImageFile(bytes=encoded(image, "PNG")),
                "jpegs": JpegArray(images=[encoded(picture(), "JPEG") for _ in range(1 + number % 2)]),
                "x": torch.zeros(2, 2),
            }
        )
    return made


def rows(count):
    return [
        {
            "id": number,
            "text": f"text {number}",
            "data": bytes([number % 250] * (number % 5)),
            "list": list(range(number % 4)),
        }
        for number in range(count)
    ]


def plain(value):
    """A value as JSON."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        return value.tolist()
    if isinstance(value, Image.Image):
        return np.asarray(value).tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def write(name, made, loader=None, chunk_bytes=3_000, **settings):
    folder = FOLDER / name
    folder.mkdir(parents=True)
    cache = Cache(str(folder), chunk_bytes=chunk_bytes, item_loader=loader, **settings)
    for number, item in enumerate(made):
        cache[number] = item
    cache.done()
    cache.merge()


def tell(name, loader=None):
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(FOLDER / name, f"{copy}/data")
        found = [plain(item) for item in StreamingDataset(f"{copy}/data", item_loader=loader)]
    (FOLDER / f"{name}.json").write_text(json.dumps(found))


def main():
    warnings.simplefilter("ignore")
    shutil.rmtree(FOLDER, ignore_errors=True)
    write("items", items(24))
    tell("items")
    write("pictures", pictures(4))
    tell("pictures")
    write("pairs", [(number, f"text {number}") for number in range(20)], chunk_bytes=200)
    tell("pairs")
    write("rows", rows(600), chunk_bytes=24_000)
    tell("rows")
    write("rows-packed", rows(300), compression="zstd")
    for level in ("chunk", "batch", "sample"):
        write(
            f"packed-{level}",
            items(24),
            compression="zstd",
            compression_level=level,
            **({"compression_batch_size": 4} if level == "batch" else {}),
        )
        tell(f"packed-{level}")
    write(
        "tokens",
        [torch.arange(100 * number, 100 * number + 37 * (number % 3 + 1), dtype=torch.int32) for number in range(12)],
        TokensLoader(block_size=16),
        600,
    )
    tell("tokens", TokensLoader(block_size=16))
    write("pickled", [{"id": number, "what": {number}} for number in range(3)])


if __name__ == "__main__":
    main()
