"""Writes the golden WebDataset archives with webdataset and GNU tar, so that the tests need neither; run it where webdataset is installed.

    python tests/golden/make_webdataset.py

Beside each archive lies NAME.json with the samples that webdataset itself reads (bytes in hex).
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import webdataset as wds
from PIL import Image

FOLDER = Path(__file__).parent / "webdataset"


def jpeg(seed):
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize((40, 30), Image.Resampling.BICUBIC).save(out, "JPEG", quality=80)
    return out.getvalue()


def sample(number):
    return {
        "__key__": f"train/{number:04d}",
        "jpg": jpeg(number),
        "cls": number % 3,
        "txt": f"a pictüre of {number}",
        "json": {"number": number, "box": [1, number]},
        "npy": np.arange(number % 4, dtype=np.float32).reshape(-1, 1) / 3,
        "mask.npy": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3) + number),
    }


def captioned(number):
    """Metadata as captioned pictures have them; the numbers are in every second sample's only."""
    size = {"width": 40 + number, "height": 30, "crop": [number / 2, 1]}
    meta = {"size": size} | ({"score": number / 4, "seen": number > 2} if number % 2 else {})
    return {
        "__key__": f"{number:04d}",
        "jpg": jpeg(number),
        "json": {"id": number, "caption": f'a "pictüre" of {number}', "meta": meta},
    }


def expect(name):
    """What webdataset reads of an archive."""
    rows = [
        {
            key: value.hex() if isinstance(value, bytes) else value
            for key, value in row.items()
            if key not in ("__url__", "__local_path__")
        }
        for row in wds.WebDataset(str(FOLDER / name), shardshuffle=False, empty_check=False)
    ]
    (FOLDER / f"{name}.json").write_text(json.dumps(rows, separators=(",", ":")) + "\n")


def with_webdataset():
    for name in ("plain.tar", "packed.tar.gz"):
        with wds.TarWriter(str(FOLDER / name), compress=name.endswith("gz"), mtime=0) as writer:
            for number in range(5):
                writer.write(sample(number))
    expect("plain.tar")
    with wds.TarWriter(str(FOLDER / "captions.tar"), mtime=0) as writer:
        for number in range(6):
            writer.write(captioned(number))
    expect("captions.tar")


def with_gnu_tar():
    """Long names, folders and hidden files, in the formats that tar has."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "data"
        for number in range(4):
            name = root / ("deep " * 25) / ("ü" * (20 + 30 * number) + f"{number:03d}")
            name.parent.mkdir(parents=True, exist_ok=True)
            for extension, content in {"Seg.PNG": bytes([number]) * number, "cls": f"{number}\n".encode()}.items():
                Path(f"{name}.{extension}").write_bytes(content)
        (root / "README").write_text("no sample")
        for form in ("gnu", "posix", "v7", "ustar"):
            if form in ("v7", "ustar"):
                shutil.rmtree(root / ("deep " * 25), ignore_errors=True)
                (root / "000.cls").write_text("0")
                (root / "001.cls").write_text("1")
            name = f"{form}.tar"
            owner = ["--owner=0", "--group=0", "--mtime=@0", "--sort=name", "--blocking-factor=1"]
            subprocess.run(["tar", f"--format={form}", *owner, "-cf", FOLDER / name, "."], cwd=root, check=True)
            expect(name)


def main():
    FOLDER.mkdir(exist_ok=True)
    os.environ["TZ"] = "UTC"
    with_webdataset()
    with_gnu_tar()


if __name__ == "__main__":
    main()
