"""S3 through obstore, on a real server, and through a proxy that goes wrong on purpose."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError, SourceError, StorageError
from penstock.storage import open_storage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry
from penstock.storage.stores.object import ObjectStore
from servers.s3 import CREDENTIALS, Server, served
from support.faulty_proxy import KINDS, Faults, proxy

RNG = np.random.default_rng(0)
FILES = {f"train/{number:03}.bin": RNG.bytes(60_000 + number) for number in range(24)}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(FILES | {"train/.hidden/x.bin": b"x", "train/empty.bin": b"", "other/a.bin": b"abc"}) as found:
        yield found


def ranges(count: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    shard, offset, length = rng.integers(0, 24, count), rng.integers(0, 50_000, count), rng.integers(0, 10_000, count)
    return shard, offset, length, np.cumsum(length) - length


def wanted(shard: np.ndarray, offset: np.ndarray, length: np.ndarray, at: np.ndarray) -> bytes:
    names = sorted(FILES)
    parts = zip(shard.tolist(), offset.tolist(), length.tolist(), strict=True)
    return b"".join(FILES[names[s]][o : o + n] for s, o, n in parts)


def read(storage: Any, where: str, count: int, seed: int = 0) -> bytes:
    shards = storage.list(where)
    shard, offset, length, at = ranges(count, seed)
    out = np.zeros(int(length.sum()), dtype=np.uint8)
    storage.read(shards, shard, offset, length, out, at)
    return out.tobytes()


@pytest.mark.parametrize("where", ["train", "train/", "train/*.bin", "**/0*.bin", "train/0[0-2]?.bin"])
def test_objects_are_listed_and_read(server: Server, where: str) -> None:
    storage, path = open_storage(f"s3://data/{where}")
    shards = storage.list(path)
    assert shards.paths.to_pylist() == [f"s3://data/{name}" for name in sorted(FILES)]
    assert shards.sizes.tolist() == [len(FILES[name]) for name in sorted(FILES)]
    assert read(storage, path, 200) == wanted(*ranges(200))


def test_one_object_is_a_dataset_of_one(server: Server) -> None:
    storage, path = open_storage("s3://data/other/a.bin")
    shards = storage.list(path)
    assert (shards.paths.to_pylist(), shards.root) == (["s3://data/other/a.bin"], "s3://data/other/")


def test_what_is_not_there_is_told(server: Server) -> None:
    storage, path = open_storage("s3://data/nowhere/*.tar")
    with pytest.raises(SourceError, match=r"s3://data/nowhere/\*\.tar: no such object"):
        storage.list(path)
    storage, path = open_storage("s3://no-bucket/train")
    with pytest.raises(StorageError, match="NoSuchBucket: The specified bucket does not exist; check the name"):
        storage.list(path)


def test_an_object_that_was_replaced_is_never_mixed_in(server: Server) -> None:
    storage, path = open_storage("s3://data/train")
    shards = storage.list(path)
    server.put({"train/005.bin": bytes(60_005)})
    out, one = np.zeros(10, dtype=np.uint8), np.array([0])
    try:
        with pytest.raises(
            DataError, match=r"train/005\.bin: another object than when it was listed.*open the dataset"
        ):
            storage.read(shards, np.array([5]), one, np.array([10]), out, one)
    finally:
        server.put({"train/005.bin": FILES["train/005.bin"]})
    assert not out.any()


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_overcome(server: Server, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(share=0.2, kinds=(kind,), seed=1, stall_s=0.3)
    with proxy(server.port, faults) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        storage = RemoteStorage(ObjectStore.open("s3://data/")[0], read_retry=Retry(first_s=0.01, deadline_s=60))
        for seed in range(3):
            assert read(storage, "train", 50, seed) == wanted(*ranges(50, seed))
    assert faults.counts[kind] > 0


def test_a_rare_stall_is_asked_for_twice(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(share=0.02, kinds=("stall",), seed=1, stall_s=1.5)
    with proxy(server.port, faults) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        storage = RemoteStorage(ObjectStore.open("s3://data/")[0])
        for seed in range(8):
            assert read(storage, "train", 50, seed) == wanted(*ranges(50, seed))
    assert faults.counts["stall"] > 0
    assert 0 < storage.traffic.hedges <= 0.05 * storage.traffic.requests + 1


def test_faults_cost_few_requests(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 % of faults of all kinds: exact, with at most 1.5 times the requests."""
    counts = []
    for share in (0.0, 0.05):
        faults = Faults(share=share, seed=2, stall_s=0.3)
        with proxy(server.port, faults) as port:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            storage = RemoteStorage(ObjectStore.open("s3://data/")[0], read_retry=Retry(first_s=0.01, deadline_s=60))
            for seed in range(8):
                assert read(storage, "train", 50, seed) == wanted(*ranges(50, seed))
        counts.append(sum(faults.counts.values()))
    assert counts[1] <= 1.5 * counts[0]


def test_a_dead_store_is_told_within_the_deadline(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    storage, path = open_storage("s3://data/train")
    shards = storage.list(path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    dead = RemoteStorage(
        ObjectStore.open("s3://data/")[0], list_retry=Retry(deadline_s=0.5), read_retry=Retry(deadline_s=0.5)
    )
    began_at = time.monotonic()
    with pytest.raises(StorageError, match="the last retry failed"):
        dead.list("train")
    with pytest.raises(StorageError, match="the last retry failed"):
        dead.read(shards, np.array([0]), np.array([0]), np.array([9]), np.zeros(9, np.uint8), np.array([0]))
    assert time.monotonic() - began_at < 60


@pytest.mark.parametrize(
    "url",
    ["https://user:hunter2@host/a.tar", "https://host/a.tar?X-Amz-Signature=hunter2", "s3://key:hunter2@bucket/a"],
)
def test_secrets_inside_urls_are_refused_unseen(url: str) -> None:
    with pytest.raises(PlanError, match="pass credentials in the environment") as caught:
        ps.read(url)
    assert "hunter2" not in str(caught.value)


def test_buckets_are_not_mixed(server: Server) -> None:
    with pytest.raises(SourceError, match="different storages or buckets; read them apart"):
        ps.read(["s3://data/train/000.bin", "s3://other/train/000.bin"])


def test_no_secret_is_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, path = open_storage("s3://no-bucket/train")
    with pytest.raises(StorageError) as caught:
        storage.list(path)
    for text in (str(caught.value), repr(storage), repr(vars(storage))):
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in text


def test_a_bucket_of_pictures_is_a_dataset(server: Server, photos: Any) -> None:
    files = {f"photos/{path.parent.name}/{path.name}": path.read_bytes() for path in sorted(photos.glob("*/*.jpg"))}
    server.put(files)
    near, far = ps.read(str(photos)), ps.read("s3://data/photos")
    assert (far.classes, len(far)) == (near.classes, len(near))
    assert far.source.manifest.digest == near.source.manifest.digest
    chain = [ps.image.Decode(), ps.image.RandomResizedCrop(32)]
    plans = [dataset.shuffle(seed=3).transform(image=chain).batch(4) for dataset in (near, far)]
    for a, b in zip(ps.Loader(plans[0]), ps.Loader(plans[1]), strict=True):
        assert (a["image"] == b["image"]).all()


def test_a_list_of_objects_keeps_their_etags(server: Server) -> None:
    server.put({"list/a.txt": b"one\ntwo\n", "list/b.txt": b"three\n"})
    dataset = ps.read(["s3://data/list/a.txt", "s3://data/list/b.txt"], format="image_folder")
    etags = dataset.source.manifest.shards.etags
    assert etags is not None
    assert len(set(etags.to_pylist())) == 2


def write_formats(root: Path) -> None:
    """One small dataset of each format that needs nothing local."""
    table = pa.table({"x": np.arange(300), "text": [f"text {number}" for number in range(300)]})
    (root / "parquet").mkdir(parents=True)
    pq.write_table(table, root / "parquet" / "a.parquet", row_group_size=64)
    (root / "arrow").mkdir()
    with pa.ipc.new_file(root / "arrow" / "a.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=50)
    (root / "npy").mkdir()
    np.save(root / "npy" / "a.npy", np.arange(600).reshape(300, 2))
    (root / "tokens").mkdir()
    np.arange(3000, dtype=np.uint16).tofile(root / "tokens" / "a.bin")
    shutil.copytree(Path(__file__).parent.parent / "golden" / "mds" / "numbers", root / "mds")


OPTIONS: dict[str, dict[str, Any]] = {"tokens": {"format": "tokens", "dtype": "uint16", "window": 10}}


@pytest.mark.parametrize("name", ["arrow", "mds", "npy", "parquet", "tokens"])
def test_formats_are_the_same_from_a_store(server: Server, name: str, tmp_path: Path) -> None:
    write_formats(tmp_path)
    files = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    server.put({f"formats/{path}": content for path, content in files.items()})
    options = OPTIONS.get(name, {})
    near, far = (ps.read(f"{root}/{name}", **options) for root in (tmp_path, "s3://data/formats"))
    assert far.source.manifest.digest == near.source.manifest.digest
    assert len(near) >= 5
    for a, b in zip(ps.Loader(near.shuffle().batch(5)), ps.Loader(far.shuffle().batch(5)), strict=True):
        for column in a:
            assert str(a[column]) == str(b[column])
