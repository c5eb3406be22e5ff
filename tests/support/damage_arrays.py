"""Rows of damage.py for formats whose libraries read the files, that are mapped, or whose samples are files of their own."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numcodecs
import numpy as np
import zarr

from support.damage import GOLDEN, Small, folder_of


def make_npy(folder: Path, *, order: Any = "C") -> Path:
    np.save(folder / "small.npy", np.asarray(np.arange(24, dtype="i4").reshape(8, 3), order=order))
    return folder / "small.npy"


def make_turned(folder: Path) -> Path:
    return make_npy(folder, order="F")


def hostile_npy() -> dict[str, bytes]:
    def stating(header: str) -> bytes:
        return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)

    def shaped(shape: str, kind: str = "'<i4'") -> bytes:
        return stating(f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n")

    return {
        "rows beyond 2^63": shaped(f"({1 << 63},)"),
        "more values than memory": shaped(f"({1 << 40}, {1 << 20})"),
        "no rows and a product that overflows": shaped(f"({1 << 33}, {1 << 33}, 16)"),
        "negative rows": shaped("(-4,)"),
        "Python objects": shaped("(16,)", "'|O'"),
        "Python objects in a record": shaped("(4,)", "[('a', '<i4'), ('b', '|O')]"),
        "a header that is code": stating("__import__('os').getcwd()\n"),
        "a header deeper than the parser": stating("(" * 50_000),
        "a header of 4 GiB": b"\x93NUMPY\2\0\xff\xff\xff\xff",
    }


def make_npz(folder: Path, save: Callable[..., None] = np.savez) -> Path:
    save(folder / "small.npz", x=np.arange(6), y=np.arange(12.0).reshape(6, 2))
    return folder / "small.npz"


def make_packed_npz(folder: Path) -> Path:
    return make_npz(folder, np.savez_compressed)


def make_hdf5(folder: Path, **options: Any) -> Path:
    with h5py.File(folder / "small.h5", "w") as file:
        file.create_dataset("x", data=np.arange(6), **options)
        file.create_dataset(
            "y", data=np.arange(12.0).reshape(6, 2), **({**options, "chunks": (2, 2)} if options else {})
        )
    return folder / "small.h5"


def make_chunked(folder: Path) -> Path:
    return make_hdf5(folder, chunks=(2,), compression="gzip", shuffle=True)


def make_newest(folder: Path) -> Path:
    """What newer writers make: other trees of groups and chunks, records, a dataset in a group. Without text of any length: over a damaged heap libhdf5 may loop for ever."""
    with h5py.File(folder / "small.h5", "w", libver="latest") as file:
        records = np.array([(row, row / 3) for row in range(6)], [("a", "<i2"), ("b", "<f4")])
        file.create_dataset("r", data=records, chunks=(2,), maxshape=(None,), fletcher32=True)
        file.create_group("g").create_dataset("x", data=np.arange(6), chunks=(4,), compression="gzip")
    return folder / "small.h5"


def make_zarr(folder: Path, version: int = 3, packed: Any = None, **options: Any) -> Path:
    """One chunk, packed by gzip unless by another codec."""
    gzip = zarr.codecs.GzipCodec(level=1) if version == 3 else numcodecs.GZip(level=1)
    group = zarr.open_group(str(folder / "small.zarr"), mode="w", zarr_format=version)
    options = {"chunks": (12,), **options}
    group.create_array("x", data=np.arange(12, dtype="i4"), compressors=packed or gzip, **options)
    return folder / "small.zarr" / "x" / ("c/0" if version == 3 else "0")


def hostile_blosc() -> dict[str, bytes]:
    """Chunks that say more than they have: the decoder by itself reads memory behind them."""
    chunk = bytes(numcodecs.Blosc("lz4").encode(np.arange(12, dtype="i4")))
    sizes = (len(chunk) + 1, 1 << 20, 500 << 20, (1 << 31) - 1, (1 << 32) - 1)
    stored = {f"stored, {size:,} bytes": struct.pack("<4B3I", 2, 1, 2, 4, size - 16, 48, size) for size in sizes}
    stated = {f"{size:,} bytes": chunk[:12] + struct.pack("<I", size) + chunk[16:] for size in sizes}
    return {**stored, **stated, "a header": chunk[:16], "half a header": chunk[:8]}


def store_of(victim: Path) -> str:
    return next(str(folder) for folder in victim.parents if folder.name == "small.zarr")


def described(version: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        make_zarr(folder, version)
        return folder / "small.zarr" / "x" / ("zarr.json" if version == 3 else ".zarray")

    return make


def make_lmdb(folder: Path) -> Path:
    with lmdb.open(str(folder), map_size=1 << 20, sync=False) as database, database.begin(write=True) as transaction:
        for row in range(8):
            transaction.put(b"%d" % row, bytes([row]) * row * 100)
    (folder / "lock.mdb").unlink()
    return folder / "data.mdb"


def make_tokens(folder: Path) -> Path:
    np.arange(40, dtype=np.uint16).tofile(folder / "small.bin")
    return folder / "small.bin"


def make_megatron(folder: Path) -> Path:
    for kind in ("bin", "idx"):
        shutil.copy(GOLDEN / "megatron" / f"small.{kind}", folder)
    return folder / "small.idx"


def make_pictures(folder: Path, names: tuple[str, ...] = ("a/1.jpg", "b/2.jpg"), head: bytes = b"\xff\xd8\xff") -> Path:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(head + name.encode() * 9)
    return folder / names[-1]


def make_sounds(folder: Path) -> Path:
    return make_pictures(folder, ("1.flac", "2.flac"), b"fLaC")


def make_list(folder: Path) -> Path:
    make_pictures(folder)
    (folder / "small.manifest").write_text("a/1.jpg\nb/2.jpg\n")
    return folder / "small.manifest"


def make_augmented(folder: Path) -> Path:
    make_pictures(folder)
    rows = [{"source-ref": name, "label": number} for number, name in enumerate(("a/1.jpg", "b/2.jpg"))]
    (folder / "small.manifest").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "small.manifest"


def make_saved(folder: Path) -> Path:
    shutil.copytree(GOLDEN / "huggingface" / "saved", folder, dirs_exist_ok=True)
    return max(folder.glob("*.arrow"))


def make_state(folder: Path) -> Path:
    return make_saved(folder).parent / "state.json"


TOKENS: Mapping[str, Any] = {"format": "tokens", "dtype": "uint16", "window": 5}

SMALL = [
    Small(name="npy", make=make_npy, hostile=hostile_npy),
    Small(name="npy turned", make=make_turned),
    Small(name="npz", make=make_npz),
    Small(name="npz packed", make=make_packed_npz),
    Small(name="hdf5", make=make_hdf5),
    Small(name="hdf5 chunked", make=make_chunked),
    Small(name="hdf5 newest", make=make_newest),
    Small(name="zarr 2", make=lambda folder: make_zarr(folder, 2), where=store_of, sees="all"),
    Small(name="zarr 3", make=make_zarr, where=store_of, sees="all"),
    Small(
        name="zarr 2 blosc",
        make=lambda folder: make_zarr(folder, 2, numcodecs.Blosc("lz4")),
        where=store_of,
        hostile=hostile_blosc,
    ),
    Small(
        name="zarr 3 blosc",
        make=lambda folder: make_zarr(folder, 3, zarr.codecs.BloscCodec(cname="zstd")),
        where=store_of,
        hostile=hostile_blosc,
    ),
    Small(
        name="zarr 3 shard of blosc",
        make=lambda folder: make_zarr(folder, 3, zarr.codecs.BloscCodec(cname="lz4"), chunks=(4,), shards=(12,)),
        where=store_of,
    ),
    Small(name="zarr 2 lz4", make=lambda folder: make_zarr(folder, 2, numcodecs.LZ4()), where=store_of),
    Small(name="zarr 2 metadata", make=described(2), where=store_of),
    Small(name="zarr 3 metadata", make=described(3), where=store_of),
    Small(name="lmdb", make=make_lmdb),
    Small(name="tokens", make=make_tokens, options=TOKENS, sees="nothing", cut="prefix"),
    Small(name="megatron index", make=make_megatron, where=folder_of, options={"window": 3}),
    Small(name="huggingface", make=make_saved, where=folder_of, cut="prefix"),
    Small(name="huggingface state", make=make_state, where=folder_of),
    Small(
        name="image folder",
        make=make_pictures,
        where=lambda victim: str(victim.parents[1]),
        sees="nothing",
        cut="short",
    ),
    Small(name="audio folder", make=make_sounds, where=folder_of, sees="nothing", cut="short"),
    Small(name="manifest", make=make_list, cut="prefix"),
    Small(name="manifest augmented", make=make_augmented, cut="prefix"),
]
