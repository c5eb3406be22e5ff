"""Writes tests/golden/arrays with h5py and zarr-python, in the layouts of several versions: python tests/golden/make_arrays.py.

What every file holds is in expected.json. Compressed data depends on the library's version, so that files are written anew only on purpose.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import zarr

FOLDER = Path(__file__).parent / "arrays"
ROWS = 9
IDS = np.arange(ROWS)
IMAGES = (IDS[:, None, None] * 6 + np.arange(6).reshape(2, 3)).astype("u1")
NAMES = ["", "a", "Größe", "雪"] * 2 + ["z"]


def hdf5(name: str, **options: object) -> None:
    """Datasets in one piece, in packed chunks, and of text."""
    with h5py.File(FOLDER / name, "w", **options) as file:
        file["id"] = IDS
        file["big"] = IDS.astype(">f4") / 2
        file.create_dataset(
            "train/image", data=IMAGES, chunks=(4, 2, 3), compression="gzip", shuffle=True, fletcher32=True
        )
        file["name"] = NAMES
        file["list"] = np.array([IDS[:row].astype("i2") for row in range(ROWS)] + [None], dtype=object)[:-1].astype(
            h5py.vlen_dtype(np.int16)
        )


def store(name: str, version: int) -> None:
    """Arrays in packed chunks, one that was never written, and in version 3 one in shards."""
    group = zarr.open_group(str(FOLDER / name), mode="w", zarr_format=version)
    packed = numcodecs.GZip(level=1) if version == 2 else zarr.codecs.ZstdCodec(level=1)
    group.create_array("id", data=IDS, chunks=(4,))
    group.create_array("big", data=IDS.astype(">f4") / 2, chunks=(ROWS,), compressors=None)
    group.create_array("train/image", data=IMAGES, chunks=(4, 2, 2), compressors=packed)
    group.create_array("empty", shape=(ROWS,), dtype="i4", chunks=(4,), fill_value=7)
    if version == 3:
        group.create_array("sharded", shape=(ROWS,), dtype="i4", chunks=(2,), shards=(6,))[:] = IDS


def main() -> None:
    """Writes everything anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    hdf5("earliest.h5", libver="earliest")
    hdf5("latest.h5", libver="latest")
    with warnings.catch_warnings(action="ignore"):
        store("v2.zarr", 2)
        store("v3.zarr", 3)
    expected = {
        "id": IDS.tolist(),
        "big": (IDS / 2).tolist(),
        "train.image": IMAGES.tolist(),
        "name": NAMES,
        "list": [IDS[:row].tolist() for row in range(ROWS)],
        "empty": [7] * ROWS,
        "sharded": IDS.tolist(),
    }
    (FOLDER / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
