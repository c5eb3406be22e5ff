"""Small files that ask for much memory: a case a function that writes it, and what is said of it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

from support import tars
from support.bounded import Case

GOLDEN = Path(__file__).parent.parent / "golden" / "bombs"
#: What a bomb unpacks to, in steps that are packed alike.
STEP_BYTES, STEPS = 8 << 20, 40
#: A line or field that is longer than the limit of its case.
LONG_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class Bomb:
    """make(path): writes it. said: a regular expression of what the error says, "" if it is read. suffix: of its path. leaves: whether what it unpacks to
    stays in the cache, since nothing is wrong with it.
    """

    make: Callable[[Path], object]
    said: str
    suffix: str
    case: dict[str, Any]
    leaves: bool = False

    def case_in(self, folder: Path, name: str) -> Case:
        """Writes the file and describes how it is read."""
        path = folder / (name.replace(" ", "-") + self.suffix)
        self.make(path)
        return Case(path=str(path), **self.case)


def bomb(make: Callable[[Path], object], suffix: str, said: str = "", *, leaves: bool = False, **case: Any) -> Bomb:
    return Bomb(make=make, said=said, suffix=suffix, case=case, leaves=leaves)


def written(content: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content())


def sparse(size: int, head: bytes = b"") -> Callable[[Path], object]:
    """A file of zeros behind its head, which takes no room."""

    def make(path: Path) -> None:
        path.write_bytes(head)
        os.truncate(path, size)

    return make


# Zarr


def streamed_zstd() -> bytes:
    """A frame that does not state its size."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(STEPS):
            stream.write(bytes(STEP_BYTES))
    return bytes(sink.getvalue().to_pybytes())


def deflated() -> bytes:
    packer = zlib.compressobj(1)
    return b"".join(packer.compress(bytes(STEP_BYTES)) for _ in range(STEPS)) + packer.flush()


def chunk_of(kind: str) -> bytes:
    """A packed chunk of many megabytes of zeros, or one that says that it is."""
    step, large = bytes(STEP_BYTES), STEP_BYTES * STEPS
    if kind == "blosc":
        chunk = bytes(numcodecs.Blosc("lz4").encode(np.arange(12, dtype="i4")))
        return chunk[:4] + struct.pack("<I", large) + chunk[8:]
    make: dict[str, Callable[[], bytes]] = {
        "gzip": lambda: gzip.compress(step, 1) * STEPS,
        "zlib": deflated,
        "bz2": lambda: bz2.compress(step) * STEPS,
        "lzma": lambda: lzma.compress(step, preset=0) * STEPS,
        "zstd": lambda: bytes(numcodecs.Zstd().encode(bytes(large))),
        "zstd streamed": streamed_zstd,
        "lz4": lambda: struct.pack("<I", large) + bytes(numcodecs.LZ4().encode(step))[4:],
    }
    return make[kind]()


SECOND: dict[str, Callable[[], Any]] = {
    "gzip": numcodecs.GZip,
    "zlib": numcodecs.Zlib,
    "bz2": numcodecs.BZ2,
    "lzma": numcodecs.LZMA,
    "zstd": numcodecs.Zstd,
    "zstd streamed": numcodecs.Zstd,
    "lz4": numcodecs.LZ4,
    "blosc": numcodecs.Blosc,
}
THIRD: dict[str, Callable[[], Any]] = {
    "gzip": zarr.codecs.GzipCodec,
    "zstd": zarr.codecs.ZstdCodec,
    "blosc": zarr.codecs.BloscCodec,
}


def zarr_store(kind: str, version: int, **options: Any) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        codec = (SECOND if version == 2 else THIRD)[kind]()
        group = zarr.open_group(str(path), mode="w", zarr_format=version)  # type: ignore[arg-type]
        group.create_array("x", data=np.arange(12, dtype="i4"), chunks=(12,), compressors=codec, **options)
        (path / "x" / ("c/0" if version == 3 else "0")).write_bytes(chunk_of(kind))

    return make


def zarrs() -> Iterator[tuple[str, Bomb]]:
    said = "rows 0 to 11: cannot be read .a chunk that unpacks to [0-9,]+ bytes or more, where its values take 65,[0-9]+ at most"
    for version, kinds in ((2, SECOND), (3, THIRD)):
        for kind in kinds:
            yield f"zarr {version} {kind}", bomb(zarr_store(kind, version), ".zarr", said)
    yield "zarr 2 filtered", bomb(zarr_store("gzip", 2, filters=[numcodecs.Delta("i4")]), ".zarr", said)


# Text


def long_lines() -> Iterator[tuple[str, Bomb]]:
    long = b"x" * LONG_BYTES
    lines = {
        ".csv": b"a,b\n1,2\n3," + long + b"\n",
        ".jsonl": b'{"a": 1}\n{"a": "' + long + b'"}\n',
        ".txt": b"a\n" + long + b"\nb\n",
    }
    for suffix, content in lines.items():
        made = written(lambda content=content: content)  # type: ignore[misc]
        said = "record 1, byte [0-9]+: a line of [0-9]+ bytes, the limit is 1048576; raise Limits.record_bytes"
        yield f"a long line {suffix}", bomb(made, suffix, said, limits={"record_bytes": 1 << 20})
    yield (
        "a long field that is no number",
        bomb(
            written(lambda: lines[".csv"]),
            ".csv",
            "record 1, byte 8: column 'b' is int64, and a field of 16,777,219 bytes or less",
        ),
    )
    yield "a long field", bomb(written(lambda: b"a,b\n1," + long + b"\n2,b\n"), ".csv")
    yield (
        "a long header",
        bomb(written(lambda: b"a,b" + long + b"\n1,2\n"), ".csv", "a header of 16,777,220 bytes; repair"),
    )
    yield (
        "a line that the process has no room for",
        bomb(sparse(192 << 20), ".txt", "402,653,184 for a batch; use smaller batches, or memory=", asked_mb=416),
    )
    nested = b'{"x": 1}\n{"y": ' + b"[" * 10**6 + b"]" * 10**6 + b', "x": '
    yield (
        "lists in lists",
        bomb(written(lambda: nested + b"2}\n"), ".jsonl", "record 1, byte 9: byte [0-9]+ of the line: "),
    )
    yield (
        "lists in the first list",
        bomb(
            written(lambda: nested[9:] + b"2}\n"),
            ".jsonl",
            "not JSON lines .(maximum recursion|lists or objects that are nested too deeply)",
        ),
    )


# Shards that are packed as a whole, and members


def packed_shards() -> Iterator[tuple[str, Bomb]]:
    said = "compressed bytes expand to more than [0-9]+; raise Limits.unpacked_bytes or Limits.ratio"
    packs: dict[str, Callable[[], bytes]] = {
        ".gz": lambda: gzip.compress(bytes(STEP_BYTES), 1) * STEPS,
        ".xz": lambda: lzma.compress(bytes(STEP_BYTES), preset=0) * STEPS,
        ".zst": streamed_zstd,
        ".bz2": lambda: bz2.compress(bytes(STEP_BYTES)) * STEPS,
    }
    for suffix, content in packs.items():
        for limit in ({"unpacked_bytes": 1 << 25}, {"ratio": 10}):
            yield f"{suffix[1:]} above {next(iter(limit))}", bomb(written(content), f".txt{suffix}", said, limits=limit)
    line = {"record_bytes": 1 << 20, "ratio": 1 << 20}
    for suffix, content in packs.items():
        yield f"a line of {suffix[1:]}", bomb(written(content), f".txt{suffix}", "a line of", limits=line)
    yield "gz that is allowed", bomb(written(lambda: gzip.compress(bytes(STEP_BYTES), 1)), ".txt.gz", leaves=True)
    large = {"unpacked_bytes": 1 << 25}
    yield "a packed archive", bomb(written(packs[".gz"]), ".tar.gz", said, limits=large)
    yield (
        "a packed array",
        bomb(
            packed_array, ".npz", "335,544,448 bytes unpacked, Limits.unpacked_bytes=33,554,432. allows", limits=large
        ),
    )
    header = tars.member("x", b"x", size=1 << 30)
    yield (
        "an extended header of a gigabyte",
        bomb(sparse((1 << 30) + 4096, header), ".tar", "a header of 1073741824 bytes before"),
    )


def packed_array(path: Path) -> None:
    header = io.BytesIO()
    described = {"descr": "<i8", "fortran_order": False, "shape": (STEP_BYTES * STEPS // 8,)}
    np.lib.format.write_array_header_1_0(header, described)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as file,
    ):
        file.write(header.getvalue())
        for _ in range(STEPS):
            file.write(bytes(STEP_BYTES))


# Tables and arrays


def parquet(values: Callable[[], pa.Array]) -> Callable[[Path], object]:
    """One row: a list of all values."""

    def make(path: Path) -> None:
        held = values()
        pq.write_table(pa.table({"x": pa.ListArray.from_arrays(pa.array([0, len(held)], pa.int32()), held)}), path)

    return make


def repeated_text() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 20, "i4")), pa.array(["x" * 1_700]))


def wide_text(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (4_000,), "S1000000", chunks=(1,))


def hdf5_chunk(size: int, **options: Any) -> Callable[[Path], object]:
    """A dataset of `size` bytes, whose one chunk unpacks to 335 MB."""

    def make(path: Path) -> None:
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset("x", (size,), "u1", chunks=(size,), **options)
            dataset.id.write_direct_chunk((0,), deflated())

    return make


def szip(path: Path) -> None:
    """A chunk that says it unpacks to 4 GB."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (4_096,), "u1", chunks=(4_096,), compression="szip")
        dataset.id.write_direct_chunk((0,), b"\xff" * 4 + bytes(100))


def longer_chunk(path: Path) -> None:
    """A chunk without a codec of 12 numbers, and of 3 GiB."""
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    group.create_array("x", data=np.arange(12, dtype="i4"), chunks=(12,), compressors=None)
    os.truncate(path / "x" / "c" / "0", 3 << 30)


def many_texts(version: int) -> Callable[[Path], object]:
    """A chunk that says it holds 2^31 texts."""

    def make(path: Path) -> None:
        group = zarr.open_group(str(path), mode="w", zarr_format=version)
        group.create_array("x", shape=(4,), chunks=(4,), dtype=str, compressors=None)[:] = "a"
        chunk = path / "x" / ("0" if version == 2 else "c/0")
        chunk.write_bytes((1 << 31).to_bytes(4, "little") + bytes(400))

    return make


def sparse_database(path: Path) -> None:
    with lmdb.open(str(path), map_size=1 << 20, sync=False) as database, database.begin(write=True) as transaction:
        transaction.put(b"a", random.Random(0).randbytes(10_000))
    os.truncate(path / "data.mdb", 1 << 43)


def arrays() -> Iterator[tuple[str, Bomb]]:
    said = "row group 0: [0-9,]+ bytes would become 1,[67][0-9,]+ in memory, where 1,073,741,824 are allowed"
    yield "a list of one text", bomb(parquet(repeated_text), ".parquet", said)
    yield "a list of nulls", bomb(written((GOLDEN / "list-of-nulls.parquet").read_bytes), ".parquet", said)
    yield "text of a megabyte", bomb(wide_text, ".h5")
    packed = (
        "rows 0 to [0-9,]+: cannot be read .a chunk of [0-9,]+ bytes or more, where its values take [0-9,]+ at most"
    )
    yield "deflate in HDF5", bomb(hdf5_chunk(2_000_000, compression="gzip"), ".h5", packed)
    yield (
        "deflate in HDF5 with checksums",
        bomb(hdf5_chunk(2_000_000, compression="gzip", fletcher32=True), ".h5", packed),
    )
    yield "deflate in HDF5 above its chunk", bomb(hdf5_chunk(12, compression="gzip"), ".h5", packed)
    yield "szip in HDF5", bomb(szip, ".h5", packed)
    yield (
        "a zarr chunk of 3 GB without a codec",
        bomb(
            longer_chunk,
            ".zarr",
            "a chunk of 3,221,225,472 bytes, the limit is 1,073,741,824; raise Limits.record_bytes",
        ),
    )
    for version in (2, 3):
        counted = "a chunk that says it has 2,147,483,648 values, where its shape has 4"
        yield f"zarr {version} with 2,147,483,648 texts", bomb(many_texts(version), ".zarr", counted)
    yield "a sparse database", bomb(sparse_database, ".lmdb")
    yield (
        "a database of more pages than memory",
        bomb(sparse_database, ".lmdb", "a file of 2147483649 pages, more than memory can note", asked_mb=192),
    )
    heads = {"image": (b"\xff\xd8\xff", ".jpg"), "audio": (b"RIFF\0\0\0\0WAVE", ".wav"), "video": (b"", ".mp4")}
    for column, (head, suffix) in heads.items():
        large = f"{column} of 3,221,225,472 bytes, the limit is"
        yield f"{column} of gigabytes", bomb(sparse(3 << 30, head), suffix, large, images=column == "image")


BOMBS = dict([*zarrs(), *long_lines(), *packed_shards(), *arrays()])
