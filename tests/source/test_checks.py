"""Checksums of files: what is checked, when, how often, and what happens to files that are new, changed or gone."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import penstock as ps
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.files.shards import Shards
from penstock.source.checks import build as checksum_build
from penstock.source.checks.build import BuiltChecksums, build_checksums
from penstock.source.checks.ranges import CheckedRanges
from penstock.source.checks.store import CHUNK_BYTES, load_folder
from support import tars
from support.cases import MemoryStorage
from support.files import rows_of

LINES = [f"line {number} " + "x" * (number % 90) for number in range(5_500)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(dataset: ps.Dataset, **options: Any) -> BuiltChecksums:
    assert isinstance(dataset.read_ranges, CheckedRanges)
    return build_checksums(dataset.source.manifest, dataset.read_ranges, **options)


def flip(path: Path, place: int) -> None:
    """Flips a bit, as a disk does: size and time stay."""
    found = path.stat()
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def write_lines(path: Path) -> Path:
    path.write_text("\n".join(LINES) + "\n")
    assert path.stat().st_size > 4 * CHUNK_BYTES
    return path


def read_bytes(dataset: ps.Dataset, offset: int, length: int) -> bytes:
    out = np.empty(length, dtype=np.uint8)
    numbers = [np.array([number], dtype=np.int64) for number in (0, offset, length, 0)]
    dataset.read_ranges(dataset.source.manifest.shards, numbers[0], numbers[1], numbers[2], out, numbers[3])
    return out.tobytes()


def test_only_the_damaged_chunk_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.txt")
    whole = path.read_bytes()
    assert build(ps.read(path)).size_bytes == len(whole)
    begin, end = 2 * CHUNK_BYTES, 3 * CHUNK_BYTES
    dataset = ps.read(
        path
    )  # first: the time of change, which a disk leaves as it is, would have the file indexed again
    flip(path, begin + 17)
    told = rf"x\.txt, bytes {begin:,} to {end - 1:,}: their checksum is 0x\w{{8}}, 0x\w{{8}} was indexed; copy the file again"
    for offset, length in ((begin - 9, 9), (end, 5), (0, 1), (len(whole) - 3, 3), (end, len(whole) - end), (end, 0)):
        assert read_bytes(dataset, offset, length) == whole[offset : offset + length]
    for offset, length in ((begin, 1), (end - 1, 1), (begin - 9, 10), (0, len(whole)), (begin, 1)):
        with pytest.raises(ps.DataError, match=told):
            read_bytes(dataset, offset, length)
    with pytest.raises(ps.DataError, match=told):
        list(ps.Loader(dataset.batch(100)))
    wrong = rows_of(ps.read(path, verify=False))["text"]
    assert sum(a != b for a, b in zip(wrong, LINES, strict=True)) == 1


def test_every_chunk_is_read_once_for_its_checksum(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.txt")
    size = path.stat().st_size
    build(ps.read(path))
    dataset = ps.read(path)
    assert isinstance(dataset.read_ranges, CheckedRanges)
    known = dataset.read_ranges.files(dataset.source.manifest.shards)
    plain, asked = known.read, []

    def counted(shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        asked.append((int(offset[0]), int(length.sum())))
        plain(shards, shard, offset, length, out, at)

    known.read = counted
    read_bytes(dataset, 5, 9)
    read_bytes(dataset, CHUNK_BYTES - 1, 1)
    assert asked == [(0, CHUNK_BYTES)]
    read_bytes(dataset, CHUNK_BYTES - 5, 3 * CHUNK_BYTES)
    assert asked[1:] == [(CHUNK_BYTES, 3 * CHUNK_BYTES)]
    for offset in range(0, size - 7, 1_000):
        read_bytes(dataset, offset, 7)
    assert sum(length for _, length in asked) == size
    assert known.left == 0


def test_many_files_some_of_them_empty(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / "data" / f"{number % 7}").mkdir(exist_ok=True, parents=True)
        (tmp_path / "data" / f"{number % 7}" / f"{number:03d}.jpg").write_bytes(
            b"\xff\xd8\xff" + bytes([number % 256]) * number
        )
    dataset = ps.read(tmp_path / "data")
    built = build(dataset)
    assert (built.files, built.read_files, built.read_bytes) == (300, 300, 300 * 3 + 299 * 150)
    wanted = rows_of(dataset)
    assert rows_of(ps.read(tmp_path / "data")) == wanted
    assert (
        rows_of(ps.read(f"{tmp_path}/data/3/*.jpg", columns=["image"]))["image"][0]
        == wanted["image"][43 * 3 - 0][:0] + (tmp_path / "data" / "3" / "003.jpg").read_bytes()
    )
    victim = tmp_path / "data" / "5" / "005.jpg"
    flip(victim, 4)
    for where in (tmp_path / "data", victim, victim.parent):
        with pytest.raises(ps.DataError, match=r"5/005\.jpg, bytes 0 to 7: their checksum is"):
            rows_of(ps.read(where))


def test_what_was_changed_is_said_and_made_again(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(name * 1_000)
    assert build(ps.read(f"{tmp_path}/*.txt")).read_files == 2
    again = build(ps.read(f"{tmp_path}/*.txt"))
    assert (again.files, again.read_files, again.read_bytes) == (2, 0, 0)
    (tmp_path / "b.txt").write_text("c" * 1_000)
    os.utime(tmp_path / "b.txt", ns=(5, 5))
    (tmp_path / "c.txt").write_text("new")
    with pytest.warns(UserWarning, match=r"b\.txt: no checksums of it \(2 of 3 files\).*penstock index --checksums"):
        dataset = ps.read(f"{tmp_path}/*.txt")
    assert rows_of(dataset)["text"] == ["a" * 1_000, "c" * 1_000, "new"]
    assert build(dataset).read_files == 2
    flip(tmp_path / "c.txt", 0)
    with pytest.raises(ps.DataError, match=r"c\.txt, bytes 0 to 2"):
        rows_of(ps.read(f"{tmp_path}/*.txt"))


def test_an_interrupted_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text("x" * CHUNK_BYTES * 2)
    monkeypatch.setattr(checksum_build, "_PART_CHUNKS", 4)

    def stop(done: int, total: int) -> None:
        assert total == 12 * CHUNK_BYTES
        if done > 8 * CHUNK_BYTES:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(ps.read(f"{tmp_path}/*.txt"), progress=stop)
    with pytest.warns(UserWarning, match=r"4\.txt: no checksums of it \(2 of 6"):
        dataset = ps.read(f"{tmp_path}/*.txt")
    assert build(dataset).read_files == 2


def test_a_file_that_changes_while_it_is_read_is_told(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.txt")
    dataset = ps.read(path)
    path.write_text("short")
    with pytest.raises(ps.DataError, match=r"x\.txt: 5 bytes now"):
        build(dataset)


def test_damaged_checksums_are_none(tmp_path: Path, own_cache: Path) -> None:
    path = write_lines(tmp_path / "x.txt")
    build(ps.read(path))
    (kept,) = own_cache.glob("penstock/checksums/*.sums")
    whole = kept.read_bytes()
    for content in (b"", whole[:30], whole[:-1], whole[:50] + bytes([whole[50] ^ 1]) + whole[51:]):
        kept.write_bytes(content)
        assert load_folder(f"{tmp_path}/") is None
        assert rows_of(ps.read(path))["text"] == LINES
    assert build(ps.read(path)).read_files == 1
    assert kept.read_bytes() == whole


def test_copies_in_other_processes_check_as_well(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.txt")
    build(ps.read(path))
    read = pickle.loads(pickle.dumps(ps.read(path).read_ranges))
    shards = ps.read(path).source.manifest.shards
    flip(path, 3)
    zero = np.zeros(1, dtype=np.int64)
    with pytest.raises(ps.DataError, match="bytes 0 to 65,535"):
        read(shards, zero, zero, zero + 9, np.empty(9, dtype=np.uint8), zero)


def test_many_threads_check_at_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.txt")
    build(ps.read(path))
    dataset = ps.read(path)
    shards, read = dataset.source.manifest.shards, dataset.read_ranges
    size, failed = path.stat().st_size, []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            offset = rng.integers(0, size - 5_000, 20)
            out, at = np.empty(20 * 5_000, dtype=np.uint8), np.arange(20) * 5_000
            read(shards, np.zeros(20, dtype=np.int64), offset, np.full(20, 5_000), out, at)
            whole = path.read_bytes()
            if any(out[5_000 * n : 5_000 * (n + 1)].tobytes() != whole[o : o + 5_000] for n, o in enumerate(offset)):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_files_of_a_store(tmp_path: Path) -> None:
    """By name and version, as a store says them; what comes from it is compared all the same."""
    storage = MemoryStorage({f"memory://box/{name}.jpg": b"\xff\xd8\xff" + name.encode() * 90 for name in "ab"})
    assert build(ps.read("memory://box/", storage=storage)).read_files == 2
    assert rows_of(ps.read("memory://box/", storage=storage))["path"] == list(storage.files)
    storage.files["memory://box/b.jpg"] = b"\xff\xd8\xff" + b"c" * 90
    with pytest.raises(ps.DataError, match=r"memory://box/b\.jpg, bytes 0 to 92: their checksum is 0x"):
        rows_of(ps.read("memory://box/", storage=storage))
    assert rows_of(ps.read("memory://box/", storage=storage, verify=False))["image"][1][3:] == b"c" * 90


def big_npy(folder: Path) -> Path:
    np.save(folder / "x.npy", np.arange(50_000).reshape(10_000, 5))
    return folder / "x.npy"


def big_tokens(folder: Path) -> Path:
    np.arange(200_000, dtype=np.uint16).tofile(folder / "x.bin")
    return folder / "x.bin"


def big_npz(folder: Path) -> Path:
    np.savez(folder / "x.npz", x=np.arange(10_000), y=np.zeros((10_000, 3)))
    return folder / "x.npz"


def big_hdf5(folder: Path) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = np.arange(50_000)
        file.create_dataset("y", data=np.arange(50_000), chunks=(5_000,))
    return folder / "x.h5"


def big_parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"x": np.arange(50_000)}), folder / "x.parquet", row_group_size=5_000, use_dictionary=False)
    return folder / "x.parquet"


def big_arrow(folder: Path) -> Path:
    table = pa.table({"x": np.arange(50_000)})
    with pa.ipc.new_file(str(folder / "x.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=5_000)
    return folder / "x.arrow"


def big_tar(folder: Path) -> Path:
    return tars.write(folder / "x.tar", [(f"{number:04d}.bin", bytes([number % 256]) * 900) for number in range(300)])


BIG = {
    "npy": (big_npy, {}),
    "tokens": (big_tokens, {"format": "tokens", "dtype": "uint16", "window": 50}),
    "npz": (big_npz, {}),
    "hdf5": (big_hdf5, {}),
    "hdf5 mapped": (big_hdf5, {"columns": ["x"]}),
    "parquet": (big_parquet, {}),
    "arrow": (big_arrow, {}),
    "tar": (big_tar, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BIG)
def test_files_of_many_chunks(name: str, tmp_path: Path) -> None:
    """A flipped bit anywhere is told, or lies in bytes that no sample is made of."""
    make, options = BIG[name]
    path = make(tmp_path)
    wanted = through(ps.read(path, **options))
    build(ps.read(path, **options))
    assert through(ps.read(path, **options)) == wanted
    whole = path.read_bytes()
    assert len(whole) > 3 * CHUNK_BYTES
    found = path.stat()
    told = 0
    for place in np.random.default_rng(4).integers(0, len(whole), 12).tolist():
        flip(path, place)
        try:
            assert through(ps.read(path, **options)) == wanted, f"byte {place}"
        except ps.DataError as error:
            assert f"{path}, bytes" in str(error)  # noqa: PT017
            told += 1
        path.write_bytes(whole)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert told >= 10


def through(dataset: ps.Dataset) -> list[Any]:
    """All rows through a loader."""
    with ps.Loader(dataset.shuffle(seed=3).batch(512)) as loader:
        return [{name: np.asarray(column).tolist() for name, column in batch.items()} for batch in loader]


@pytest.mark.parametrize("version", [2, 3])
def test_a_store_whose_chunks_are_gone(tmp_path: Path, version: int) -> None:
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w", zarr_format=version)
    group.create_array("x", data=np.arange(1, 50), chunks=(10,))
    dataset = ps.read(tmp_path / "x.zarr")
    chunk = tmp_path / "x.zarr" / "x" / ("1" if version == 2 else "c/1")
    build(dataset)
    assert rows_of(ps.read(tmp_path / "x.zarr"))["x"] == list(range(1, 50))
    chunk.rename(tmp_path / "away")
    with pytest.raises(
        ps.DataError, match=r"the file is gone since the store was opened; copy the store again|No such file"
    ):
        rows_of(dataset)
    with pytest.raises(
        ps.DataError, match=rf"x\.zarr/x/{'1' if version == 2 else 'c/1'}: the file is gone, and its chunk"
    ):
        ps.read(tmp_path / "x.zarr")


def test_little_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made is stored every few seconds."""
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("x" * CHUNK_BYTES)
    monkeypatch.setattr(checksum_build, "_PART_CHUNKS", 1)
    monkeypatch.setattr(checksum_build, "_STORE_S", -1.0)
    stored = []
    monkeypatch.setattr(
        checksum_build, "store_files", lambda shards, sums: stored.append((len(shards), len(sums))) or True
    )
    build(ps.read(f"{tmp_path}/*.txt"))
    assert stored == [(1, 1)] * 3
