"""The data of `memory.py` in formats that have an index, a folder or a file a row: by their own writers where this environment has them, else byte by byte as these write."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from memory_kinds import Kind, in_batches_of, rows_of, table

#: Bytes of a shard, as MosaicML's and LitData's writers are told.
_SHARD_BYTES = 64 << 20
#: Files of a row each, at most.
_MOST_FILES = 20_000
#: Images that differ.
_PICTURES = 100
#: Rows of LitData's record batches, and of those of `datasets`.
_LITDATA_ROWS, _DATASETS_ROWS = 256, 1_000
_RECORDIO_MAGIC = struct.pack("<I", 0xCED7230A)


def _shards(of: Kind) -> Iterator[tuple[int, list[bytes]]]:
    """The number of the first row of each shard, and its rows."""
    numbered = enumerate(rows_of(of))
    while shard := [*itertools.islice(numbered, max(1, _SHARD_BYTES // of.row_bytes))]:
        yield shard[0][0], [row for _, row in shard]


def mds(folder: Path, _: str, of: Kind) -> None:
    """Shards of mosaicml-streaming (streaming/base/format/mds/writer.py): a number and an array of fixed shape; with Zstandard where they are packed."""
    values = of.row_bytes // 4
    columns: dict[str, Any] = {"column_names": ["id", "x"], "column_encodings": ["int", f"ndarray:float32:{values}"]}
    columns |= {"column_sizes": [8, 4 * values], "format": "mds", "version": 2}
    config, shards = json.dumps(columns, sort_keys=True).encode(), []
    for number, (first, rows) in enumerate(_shards(of)):
        edges = 4 * (len(rows) + 2) + len(config) + (8 + 4 * values) * np.arange(len(rows) + 1)
        samples = (struct.pack("<q", first + row) + data for row, data in enumerate(rows))
        content = b"".join((struct.pack("<I", len(rows)), edges.astype("<u4").tobytes(), config, *samples))
        raw: dict[str, Any] = {"basename": f"shard.{number:05}.mds", "bytes": len(content), "hashes": {}}
        zipped = None
        if of.is_packed:
            content = pa.compress(content, codec="zstd", asbytes=True)
            zipped = {"basename": f"{raw['basename']}.zstd", "bytes": len(content), "hashes": {}}
        (folder / (zipped or raw)["basename"]).write_bytes(content)
        packing = {"compression": "zstd:1" if of.is_packed else None, "hashes": [], "size_limit": _SHARD_BYTES}
        shards.append({**columns, **packing, "samples": len(rows), "raw_data": raw, "zip_data": zipped})
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))


def _litdata_index(folder: Path, chunks: list[dict[str, Any]], kinds: list[str], packing: dict[str, Any]) -> None:
    """What litdata's writer merges at the end, of samples of an id and x."""
    leaf = {"type": None, "context": None, "children_spec": []}
    tree = {"type": "builtins.dict", "context": json.dumps(["id", "x"]), "children_spec": [leaf, leaf]}
    config = {"chunk_bytes": _SHARD_BYTES, "chunk_size": None, "compression": None, "encryption": None}
    config |= {"data_format": kinds, "data_spec": json.dumps([1, tree]), "item_loader": "PyTreeLoader", **packing}
    (folder / "index.json").write_text(json.dumps({"chunks": chunks, "config": config, "updated_at": "0"}))


def litdata(folder: Path, _: str, of: Kind) -> None:
    """Chunks of litdata (streaming/writer.py) of items: a number and an array without header; with Zstandard where they are packed."""
    chunks = []
    for number, (first, rows) in enumerate(_shards(of)):
        items = [struct.pack("<IIq", 8, len(data), first + row) + data for row, data in enumerate(rows)]
        edges = np.cumsum([4 * (len(rows) + 2), *map(len, items)])
        content = b"".join((struct.pack("<I", len(rows)), edges.astype("<u4").tobytes(), *items))
        name = f"chunk-0-{number}.zstd.bin" if of.is_packed else f"chunk-0-{number}.bin"
        chunks.append({"chunk_bytes": len(content), "chunk_size": len(rows), "dim": None, "filename": name})
        (folder / name).write_bytes(pa.compress(content, codec="zstd", asbytes=True) if of.is_packed else content)
    _litdata_index(folder, chunks, ["int", "no_header_numpy:9"], {"compression": "zstd" if of.is_packed else None})


def litdata_rows(folder: Path, _: str, of: Kind) -> None:
    """Chunks of litdata (streaming/item_loader.py, append_arrow_row_footer) of plain values: an Arrow file behind an empty table."""
    of = in_batches_of(of, _LITDATA_ROWS)
    options, chunks = pa.ipc.IpcWriteOptions(compression="zstd" if of.is_packed else None), []
    for number, (first, rows) in enumerate(_shards(of)):
        head = struct.pack("<I", len(rows)) + (len(rows) + 1) * struct.pack("<I", 4 * (len(rows) + 2))
        made = pa.table({"id": pa.array(range(first, first + len(rows)), pa.int64()), "x": pa.array(rows, pa.binary())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, made.schema, options=options) as writer:
            writer.write_table(made, max_chunksize=_LITDATA_ROWS)
        arrow = sink.getvalue()
        with (folder / f"chunk-0-{number}.bin").open("wb") as file:
            file.writelines((head, arrow, struct.pack("<I", len(arrow)), b"LDARW01\0"))
            size = file.tell()
        chunks.append({"chunk_bytes": size, "chunk_size": len(rows), "dim": None, "filename": f"chunk-0-{number}.bin"})
    _litdata_index(folder, chunks, ["int", "bytes"], {"ipc_compression": "zstd" if of.is_packed else None})


def lmdb(folder: Path, _: str, of: Kind) -> None:
    """A database by LMDB itself, a thousand records a transaction."""
    import lmdb as library

    numbered = enumerate(rows_of(of))
    with library.open(str(folder), map_size=8 << 30, sync=False) as database:
        while some := [*itertools.islice(numbered, 1_000)]:
            with database.begin(write=True) as transaction:
                for number, data in some:
                    transaction.put(b"%08d" % number, data, append=True)


def recordio(folder: Path, _: str, of: Kind) -> None:
    """Records with an IRHeader, as dmlc-core (include/dmlc/recordio.h) and mxnet.recordio write them, in one part each."""
    with (folder / "0.rec").open("wb") as file:
        for number, data in enumerate(rows_of(of)):
            record = struct.pack("<IfQQ", 0, number % 10, number, 0) + data.replace(_RECORDIO_MAGIC, bytes(4))
            file.writelines((_RECORDIO_MAGIC, struct.pack("<I", len(record)), record, bytes(-len(record) % 4)))


def text(folder: Path, _: str, of: Kind) -> None:
    """Lines that begin with their number."""
    with gzip.open(folder / "0.txt.gz", "wb", 1) if of.is_packed else (folder / "0.txt").open("wb") as file:
        for number, data in enumerate(rows_of(of)):
            file.write(b"%010d %s\n" % (number, data.hex().encode()[: of.row_bytes - 12]))


def saved(folder: Path, kind: str, of: Kind) -> None:
    """`save_to_disk` of Hugging Face datasets, which writes record batches of a thousand rows."""
    import datasets

    datasets.disable_progress_bars()
    made = pa.Table.from_batches(table(kind, in_batches_of(of, _DATASETS_ROWS)))
    datasets.Dataset(made, fingerprint="memory").save_to_disk(str(folder))


def images(folder: Path, _: str, of: Kind) -> None:
    """PNGs by Pillow in two class folders: square, of as many bytes of pixels as a row has, and as many in the file unless they are packed."""
    from PIL import Image

    side = math.isqrt(of.row_bytes // 3)
    files = []
    for row in itertools.islice(rows_of(of), _PICTURES):
        pixels = np.frombuffer(row, np.uint8)[: 3 * side * side].reshape(side, side, 3)
        Image.fromarray(pixels).save(file := io.BytesIO(), "PNG", compress_level=6 if of.is_packed else 0)
        files.append(file.getvalue())
    for name in "ab":
        (folder / name).mkdir()
    for number in range(min(of.rows, _MOST_FILES)):
        (folder / "ab"[number % 2] / f"{number:06}.png").write_bytes(files[number % len(files)])


def decoded(data: Any) -> Any:
    """Such images as training takes them."""
    import penstock as ps

    return data.transform(image=[ps.image.Decode(), ps.image.Resize((96, 96))])


def manifest(folder: Path, _: str, of: Kind) -> None:
    """A list of files that lie beside its folder."""
    files = folder.with_name(f"{folder.name}-files")
    files.mkdir()
    names = [f"{files}/{number:06}.bin" for number in range(min(of.rows, _MOST_FILES))]
    for name, data in zip(names, rows_of(of), strict=False):
        Path(name).write_bytes(data)
    (folder / "list.manifest").write_text("\n".join(names))
