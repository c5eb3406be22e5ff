"""Which folders are a data set of one format, by the names of their files; what `read` asks before it looks at suffixes."""

from __future__ import annotations

import os
import struct

import numpy as np

from penstock.core.columns import compute as pc
from penstock.core.files.shards import Shards

#: What MDS's and LitData's folders hold beside their shards.
INDEX = "index.json"
#: Files that make a folder a Zarr store; those of v2 are hidden, and no listing has them.
ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")
#: What LMDB writes into a folder.
LMDB_DATA, LMDB_LOCK = "data.mdb", "lock.mdb"
#: Splits as the Hub exports them, "train-00000-of-00004.parquet": the split's name.
EXPORTED = r"(?:^|/)([^/]+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?\.parquet$"
#: How llm.c's files begin, magic and version: the dtype of their tokens.
LLMC_DTYPES = {(20240520, 1): "<u2", (20240801, 7): "<u4"}


def index_files(shards: Shards) -> list[int]:
    """The numbers of the files that are an index.json."""
    return _named(shards, INDEX)


def _named(shards: Shards, name: str) -> list[int]:
    """The numbers of the files of this name."""
    numbers = np.flatnonzero(shards.ending_with(name)).tolist()
    return [number for number in numbers if shards.path(number).rpartition("/")[2] == name]


def is_mds(shards: Shards) -> bool:
    """Whether an index.json and MDS's shards are among files."""
    return _has_index(shards, r"\.mds(\.[a-z0-9]+)?$")


def is_litdata(shards: Shards) -> bool:
    """Whether an index.json and LitData's chunks are among files."""
    return _has_index(shards, r"(^|/)chunk-[^/]*\.bin$")


def _has_index(shards: Shards, beside: str) -> bool:
    return bool(index_files(shards)) and bool(pc.any(pc.match_substring_regex(shards.paths, beside)).as_py())


def is_lmdb(shards: Shards) -> bool:
    """Whether all files are databases and their locks."""
    data = _named(shards, LMDB_DATA)
    return bool(data) and len(data) + len(_named(shards, LMDB_LOCK)) == len(shards)


def is_zarr(shards: Shards) -> bool:
    """Whether the files' folder is a store: v3 says so in a file that is listed, v2 in hidden ones (elsewhere in its name)."""
    if not shards.root or shards.several_roots:
        return False
    if os.path.isabs(shards.root):
        return is_zarr_folder(shards.root)
    marked = pc.any(pc.equal(shards.paths, f"{shards.root}zarr.json")).as_py()
    return bool(marked) or shards.root.endswith(".zarr/")


def is_zarr_folder(root: str) -> bool:
    """Whether a folder on this machine is a store."""
    return any(os.path.isfile(os.path.join(root, mark)) for mark in ZARR_MARKS)


def is_huggingface(shards: Shards) -> bool:
    """Whether files are what `save_to_disk` writes, or the Hub's Parquet exports."""
    if _named(shards, "state.json"):
        return bool(_named(shards, "dataset_info.json"))
    tables = np.flatnonzero(shards.ending_with(".parquet"))
    return len(tables) > 0 and bool(pc.all(pc.match_substring_regex(shards.take(tables).paths, EXPORTED)).as_py())


def is_megatron(shards: Shards) -> bool:
    """Whether the files are Megatron's: a .idx for every .bin, and nothing else."""
    names = set(shards.paths.to_pylist()) if shards.ending_with(".idx").any() else set()
    bins = {name for name in names if name.endswith(".bin")}
    return bool(bins) and names == bins | {name.removesuffix(".bin") + ".idx" for name in bins}


def is_llmc(head: bytes) -> bool:
    """Whether a file begins as llm.c's do."""
    return len(head) >= 8 and struct.unpack_from("<ii", head) in LLMC_DTYPES


def is_arrow(head: bytes) -> bool:
    """Whether a file begins as Arrow's files and streams do."""
    return head.startswith(b"ARROW1") or (head[:4] == b"\xff\xff\xff\xff" and head[16:32].count(0) > 4)
