"""Writes the files that docs/migration/*.md read, each by the writer of the library that reads them there; run it where that is installed.

    python tests/golden/make_migration.py webdataset|mosaicml|litdata|dali

Where a writer notes times or versions, files differ from run to run. benches/migration.py --golden then writes anew what the peers read of them.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "migration"
ROWS = 12


def picture(number):
    """Ramps of red and green, and a blue of its own, which decoders and resizers agree on."""
    import numpy as np
    from PIL import Image

    pixels = np.empty((30, 40, 3), np.uint8)
    pixels[..., 0] = np.linspace(60, 200, 40)
    pixels[..., 1] = np.linspace(60, 200, 30)[:, None]
    pixels[..., 2] = 60 + 10 * number
    return Image.fromarray(pixels)


def jpeg(number):
    out = io.BytesIO()
    picture(number).save(out, "JPEG", quality=90)
    return out.getvalue()


def anew(name):
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    return str(FOLDER / name)


def write_webdataset():
    """Three shards, and class folders of the same images."""
    import webdataset as wds

    for shard in range(3):
        with wds.TarWriter(str(FOLDER / f"train-{shard:02d}.tar"), mtime=0) as writer:
            for number in range(4 * shard, 4 * shard + 4):
                about = {"id": number, "caption": f"picture {number}"}
                writer.write({"__key__": f"{number:04d}", "jpg": jpeg(number), "cls": number % 3, "json": about})
    photos = Path(anew("photos"))
    for number in range(8):
        path = photos / ("cats" if number % 2 else "dogs") / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))


def write_mosaicml():
    from streaming import MDSWriter

    for name, first in (("mds", 0), ("mds-code", 100)):
        with MDSWriter(out=anew(name), columns={"id": "int", "text": "str"}, size_limit=300) as writer:
            for number in range(first, first + ROWS):
                writer.write({"id": number, "text": f"text {number}"})
    with MDSWriter(out=anew("mds-images"), columns={"id": "int", "image": "jpeg"}) as writer:
        for number in range(ROWS):
            writer.write({"id": number, "image": encoded(number)})


def write_litdata():
    import litdata
    import torch

    settings = {"num_workers": 1, "mode": "overwrite"}
    for name, first in (("chunks", 0), ("chunks-code", 100)):
        numbers = list(range(first, first + ROWS))
        litdata.optimize(sample, numbers, anew(name), chunk_size=4, **settings)
    loader = litdata.TokensLoader(block_size=8)
    documents = [torch.arange(number, number + 16, dtype=torch.int32) for number in range(0, 96, 16)]
    litdata.optimize(document, documents, anew("tokens"), chunk_size=32, item_loader=loader, **settings)


def encoded(number):
    """An image that still is the file's bytes."""
    from PIL import Image

    return Image.open(io.BytesIO(jpeg(number)))


def sample(number):
    return {"id": number, "text": f"text {number}", "image": encoded(number % 100)}


def document(tokens):
    yield tokens


def write_dali():
    """The index that its tool makes of a TFRecord file."""
    tool, records = Path(sys.executable).with_name("tfrecord2idx"), FOLDER.parent / "tfrecord" / "images.tfrecord"
    subprocess.run([sys.executable, tool, records, FOLDER / "images.idx"], check=True)


WRITERS = {
    "webdataset": write_webdataset,
    "mosaicml": write_mosaicml,
    "litdata": write_litdata,
    "dali": write_dali,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:]:
        WRITERS[name]()
