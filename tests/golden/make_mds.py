"""Writes the golden MDS folders with MosaicML Streaming; run it where mosaicml-streaming is installed.

    python tests/golden/make_mds.py

Beside each folder lies NAME.json with what StreamingDataset's own reader gives for it: bytes in hex, arrays as nested lists, pictures as
size, mode and pixels.
"""

from __future__ import annotations

import io
import json
import shutil
from decimal import Decimal
from pathlib import Path

import numpy as np
from PIL import Image
from streaming import MDSWriter
from streaming.base.format import reader_from_json

FOLDER = Path(__file__).parent / "mds"
RNG = np.random.default_rng(22)
SCALARS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def picture(number, size=(5, 4)):
    return Image.fromarray(RNG.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8) // (number + 1))


def encoded(image, kind):
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def numbers(count):
    columns = {f"a_{dtype}": dtype for dtype in SCALARS} | {"an_int": "int"}
    rows = []
    for number in range(count):
        row = {"an_int": number - 5}
        for dtype in SCALARS:
            kind = np.dtype(dtype)
            row[f"a_{dtype}"] = kind.type(RNG.integers(0, 100) / 7 if kind.kind == "f" else RNG.integers(0, 127))
        rows.append(row)
    return columns, rows


def texts(count):
    columns = {"b": "bytes", "d": "str_decimal", "f": "str_float", "i": "str_int", "j": "json", "s": "str"}
    rows = [
        {
            "b": RNG.bytes(number % 6),
            "d": Decimal(number) / 7,
            "f": [float("inf"), 1e-9 * number][number > 0],
            "i": (-1) ** number * 10**number,
            "j": {"number": number, "list": [None, "ü"]},
            "s": "grüße " * (number % 3),
        }
        for number in range(count)
    ]
    return columns, rows


def arrays(count):
    columns = {
        "dynamic": "ndarray",
        "typed": "ndarray:int16",
        "fixed": "ndarray:float32:2,3",
        "ragged": "ndarray",
        "ragged2": "ndarray:uint8",
    }
    rows = [
        {
            "dynamic": RNG.random((3, 2)),
            "typed": RNG.integers(-9, 9, (2, 1, 2)).astype(np.int16),
            "fixed": RNG.random((2, 3)).astype(np.float32),
            "ragged": RNG.integers(0, 9, 1 + number % 4) if number != 7 else np.arange(300),
            "ragged2": RNG.integers(0, 9, (1 + number % 3, 2)).astype(np.uint8),
        }
        for number in range(count)
    ]
    return columns, rows


def pictures(count):
    columns = {
        "array": "jpeg_array",
        "jpeg": "jpeg",
        "jpegs": "list[jpeg]",
        "pil": "pil",
        "pils": "list[pil]",
        "png": "png",
        "pngs": "list[png]",
    }
    rows = [
        {
            "array": [encoded(picture(number), "JPEG")] * (1 + number % 2),
            "jpeg": picture(number),
            "jpegs": [picture(number)] * (number % 3),
            "pil": picture(number),
            "pils": [picture(number, (2, 2))],
            "png": picture(number),
            "pngs": [picture(number)] * (number % 2),
        }
        for number in range(count)
    ]
    return columns, rows


def small(count):
    return {"id": "int", "text": "str"}, [{"id": number, "text": f"text {number}"} for number in range(count)]


def pickled(count):
    return {"id": "int", "what": "pkl"}, [{"id": number, "what": {number}} for number in range(count)]


def plain(value):
    """A value as JSON."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Image.Image):
        pixels = np.asarray(value)
        return {"size": value.size, "mode": value.mode, "pixels": pixels.tolist()}
    if isinstance(value, Decimal | set):
        return str(value)
    return [plain(item) for item in value] if isinstance(value, list) else value


def write(name, made, **settings):
    columns, rows = made
    folder = FOLDER / name
    with MDSWriter(out=str(folder), columns=columns, **settings) as out:
        for row in rows:
            out.write(row)
    index = json.loads((folder / "index.json").read_text())
    found = []
    for shard in index["shards"]:
        if shard["compression"]:
            continue
        reader = reader_from_json(str(folder), None, shard)
        found += [{key: plain(value) for key, value in reader[place].items()} for place in range(shard["samples"])]
    if found and name != "pickled":
        (FOLDER / f"{name}.json").write_text(json.dumps(found))


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    write("numbers", numbers(12))
    write("texts", texts(12))
    write("arrays", arrays(12))
    write("pictures", pictures(4))
    write("shards", small(40), size_limit=600, hashes=["sha1", "xxh64"])
    write("pickled", pickled(2))
    for compression in ("br", "bz2", "gz", "snappy", "zstd:7"):
        write(
            f"packed-{compression.split(':')[0]}",
            small(40),
            size_limit=600,
            compression=compression,
            hashes=["sha1", "xxh64"],
        )


if __name__ == "__main__":
    main()
