"""Remote storages with their cache: on by itself, switched by cache_local, told by the loader what comes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import penstock as ps
from penstock.core.errors import DataError, PlanError
from penstock.core.files.cache_dirs import size_of
from penstock.core.files.shards import Shards
from penstock.storage import adopt_storage
from penstock.storage.cache.storage import CachedStorage, CacheTraffic
from penstock.storage.local import LocalStorage
from servers.s3 import CREDENTIALS, Server, s3_server
from support.caching import Remote
from support.faulty_proxy import Faults, proxy


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[Server, Faults]]:
    """A server behind a proxy that counts the requests for content, and nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        faults = Faults()
        with s3_server() as server, proxy(server.port, faults) as port:
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            yield server, faults


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "penstock" / "remote"


def pictures(count: int = 60) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    return {
        f"pictures/{number % 3}/{number:03}.jpg": b"\xff\xd8\xff" + rng.bytes(3000 + number) for number in range(count)
    }


def traffic(dataset: ps.Dataset) -> CacheTraffic:
    assert isinstance(dataset.storage, CachedStorage)
    return dataset.storage.cache_traffic


def test_a_second_epoch_and_another_order_ask_for_nothing(bucket: tuple[Server, Faults]) -> None:
    server, faults = bucket
    server.put(pictures())
    dataset = ps.read("s3://data/pictures")
    with ps.Loader(dataset.shuffle(seed=1).batch(8)) as loader:
        first = [batch["path"].to_pylist() for batch in loader]
        time.sleep(0.1)
        asked = sum(faults.counts.values())
        for _ in loader:
            pass
    again = ps.read("s3://data/pictures")
    with ps.Loader(again.shuffle(seed=2).batch(5)) as loader:
        for _ in loader:
            pass
    assert len(first) == 8
    assert sum(faults.counts.values()) <= asked + 2  # the second listing
    assert (traffic(again).misses, traffic(again).fetched_bytes) == (0, 0)


def test_parts_of_several_datasets_are_cached_and_read_ahead(bucket: tuple[Server, Faults]) -> None:
    """What `skip` leaves out is never downloaded; a loader that pauses prefetches of both sources."""
    server, faults = bucket
    server.put(pictures())
    sources = [ps.read(f"s3://data/pictures/{number}") for number in (0, 2)]
    plan = ps.concat([one.skip(5) for one in sources]).shuffle(seed=1).batch(1, lanes=1)
    needed = sum(len(data) for name, data in pictures().items() if name[9] in "02" and int(name[11:14]) >= 15)
    with ps.Loader(plan, prefetch=1) as loader:
        next(iter(loader))
        end = time.monotonic() + 60
        while time.monotonic() < end and sum(traffic(one).fetched_bytes for one in sources) < needed:
            time.sleep(0.02)
        asked = sum(faults.counts.values())
        assert [sum(1 for _ in loader) for _ in range(2)] == [30, 30]
        assert loader.stats()["storage"]["cache_hits"] > 0
    assert sum(faults.counts.values()) == asked
    assert sum(traffic(one).fetched_bytes for one in sources) == needed
    foretold = plan.simulate(epochs=2, cache="1GB").nodes
    assert [each.bytes for each in foretold] == [needed, 0]


def test_an_object_that_was_replaced_is_never_served_from_the_old_one(bucket: tuple[Server, Faults]) -> None:
    server, _ = bucket
    server.put({"one/a.txt": b"before\n" * 9})
    before = ps.read("s3://data/one/a.txt", format="image_folder", columns=["image"])
    assert next(iter(ps.Loader(before.batch(1))))["image"].to_pylist() == [b"before\n" * 9]
    server.put({"one/a.txt": b"behind\n" * 9})
    after = ps.read("s3://data/one/a.txt", format="image_folder", columns=["image"])
    assert next(iter(ps.Loader(after.batch(1))))["image"].to_pylist() == [b"behind\n" * 9]
    before.cache_local(0)
    with pytest.raises(DataError, match="another object than when it was listed"):
        next(iter(ps.Loader(before.batch(1))))


def test_a_loader_that_pauses_reads_ahead(bucket: tuple[Server, Faults]) -> None:
    server, faults = bucket
    server.put(pictures())
    dataset = ps.read("s3://data/pictures")
    with ps.Loader(dataset.shuffle(seed=1).batch(1, lanes=1), prefetch=1) as loader:
        next(iter(loader))
        end = time.monotonic() + 60
        while time.monotonic() < end and traffic(dataset).fetched_bytes < sum(map(len, pictures().values())):
            time.sleep(0.02)
        asked = sum(faults.counts.values())
        for _ in range(70):  # into the next epoch
            for _ in loader:
                pass
            if loader.epoch > 1:
                break
    assert sum(faults.counts.values()) == asked


def test_the_cache_can_be_switched_off(
    bucket: tuple[Server, Faults], own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = bucket
    server.put(pictures(6))
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "0")
    dataset = ps.read("s3://data/pictures")
    for _ in ps.Loader(dataset.batch(3)):
        pass
    assert traffic(dataset) == CacheTraffic()
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "1000000")
    dataset = ps.read("s3://data/pictures").cache_local(None)
    for _ in ps.Loader(dataset.batch(3)):
        pass
    assert list(own_folder.glob("*.pack")) == []


def test_a_cache_of_ones_own(bucket: tuple[Server, Faults], own_folder: Path, tmp_path: Path) -> None:
    server, _ = bucket
    server.put(pictures(6))
    dataset = ps.read("s3://data/pictures").cache_local("10 MB", tmp_path / "mine")
    for _ in ps.Loader(dataset.batch(3)):
        pass
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700
    assert len(list((tmp_path / "mine").glob("*.pack"))) == 1
    assert list(own_folder.glob("*.pack")) == []
    assert isinstance(dataset.storage, CachedStorage)
    assert dataset.storage.cache is not None
    assert dataset.storage.cache.limit_bytes == 10_000_000


def test_local_data_is_not_cached(photos: Path, tmp_path: Path) -> None:
    for dataset in (ps.read(str(photos)), ps.read(str(photos), storage=fs.LocalFileSystem())):
        for _ in ps.Loader(dataset.batch(8)):
            pass
    local = ps.read(str(photos)).cache_local("1GB", tmp_path / "mine")
    for _ in ps.Loader(local.batch(8)):
        pass
    assert not list(tmp_path.rglob("*.pack"))


def test_a_users_file_system_is_cached_when_asked_for(photos: Path, tmp_path: Path) -> None:
    dataset = ps.read(str(photos), storage=fs.LocalFileSystem()).cache_local("1GB", tmp_path / "mine")
    loader = ps.Loader(dataset.batch(8))
    for _ in range(2):
        for _ in loader:
            pass
    assert traffic(dataset).hits >= 40


class Own:
    """A storage of a user's own, without ETags."""

    def __init__(self) -> None:
        self._local, self.reads = LocalStorage(), 0

    def list(self, where: str) -> Shards:
        return self._local.list(where)

    def read(self, shards: Shards, *ranges: Any) -> None:
        self.reads += 1
        self._local.read(shards, *ranges)


def test_a_storage_of_ones_own_is_cached_when_asked_for(photos: Path, tmp_path: Path) -> None:
    own = Own()
    dataset = ps.read(str(photos), storage=own).cache_local("1GB", tmp_path / "mine")
    for seed in (1, 2):
        before = own.reads
        with ps.Loader(dataset.shuffle(seed=seed).batch(8)) as loader:
            assert len(list(loader)) == 5
    assert before > 0
    assert own.reads == before
    assert traffic(dataset).fetched_bytes == dataset.source.manifest.size_bytes


def test_a_loader_keeps_what_fits_of_data_twice_as_large(tmp_path: Path) -> None:
    """As much of every epoch comes from the cache as fits into it, though each epoch has another order."""
    (tmp_path / "data").mkdir()
    for number in range(96):
        (tmp_path / "data" / f"{number:02}.jpg").write_bytes(b"\xff\xd8\xff" + bytes(16381))
    dataset = ps.read(str(tmp_path / "data"), storage=fs.LocalFileSystem())
    dataset = dataset.cache_local(48 * 16384, tmp_path / "mine")
    with ps.Loader(dataset.shuffle(seed=1).batch(8)) as loader:
        for _ in range(4):
            for _ in loader:
                pass
    told = traffic(dataset)
    assert told.hits >= 3 * 44
    assert told.stored_bytes <= 60 * 16384
    assert sum(path.stat().st_blocks * 512 for path in (tmp_path / "mine").glob("*.pack")) <= 48 * 16384


def test_rows_in_columns_come_from_the_cache(bucket: tuple[Server, Faults], tmp_path: Path) -> None:
    server, _ = bucket
    pq.write_table(pa.table({"x": np.arange(5000)}), tmp_path / "a.parquet", row_group_size=500)
    server.put({"table/a.parquet": (tmp_path / "a.parquet").read_bytes()})
    sums = []
    for _ in range(2):
        dataset = ps.read("s3://data/table")
        sums.append(sum(int(batch["x"].sum()) for batch in ps.Loader(dataset.shuffle(seed=3).batch(50))))
    assert sums == [5000 * 4999 // 2] * 2
    assert (traffic(dataset).misses, traffic(dataset).hits > 0) == (0, True)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, photos: Path) -> None:
    dataset = ps.read(str(photos), storage=fs.LocalFileSystem())
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(
        PlanError, match=r"cache_local: .*open: others may write into it .chmod 700 it.*; name a folder"
    ):
        dataset.cache_local("1GB", tmp_path / "open")
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="cache_local: an empty path"):
        dataset.cache_local("1GB", "")
    with pytest.raises(PlanError, match=r"cache_local: .*file: .*name a folder that is yours alone"):
        dataset.cache_local("1GB", tmp_path / "file")
    if os.getuid() == 0:
        (tmp_path / "theirs").mkdir()
        os.chown(tmp_path / "theirs", 12345, -1)
        with pytest.raises(PlanError, match=r"theirs: belongs to user 12345, not to you"):
            dataset.cache_local("1GB", tmp_path / "theirs")


def test_without_a_folder_to_trust_there_is_a_warning_and_no_cache(
    bucket: tuple[Server, Faults], own_folder: Path, tmp_path: Path
) -> None:
    server, _ = bucket
    server.put(pictures(6))
    own_folder.mkdir(parents=True)
    own_folder.chmod(0o777)
    dataset = ps.read("s3://data/pictures", format="image_folder")
    with pytest.warns(UserWarning, match="no cache: .*remote: others may write into it"):
        next(iter(ps.Loader(dataset.batch(3))))
    assert traffic(dataset) == CacheTraffic()


def test_files_without_a_version_are_never_kept(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    storage = remote.storage()
    listed = storage.list(str(remote.data))
    known = Shards(listed.paths, listed.sizes, listed.versions, listed.root, etags=listed.etags)
    for etags in (None, pa.array([""] * 4, pa.large_string())):
        storage.remote.read = lambda shards, *ranges: type(storage.remote).read(storage.remote, known, *ranges)  # type: ignore[method-assign]
        shards = Shards(listed.paths, listed.sizes, np.zeros(4, dtype=np.int64), listed.root, etags=etags)
        for _ in range(2):
            remote.read(storage, [0, 1], [0, 5], [100, 100], shards)
    assert (storage.cache_traffic.hits, storage.cache_traffic.stored_bytes) == (0, 0)


def test_another_version_is_another_file(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    storage = remote.storage()
    remote.read(storage, 0, 0, 1000)
    (remote.data / "0.bin").write_bytes(bytes(400_000))
    os.utime(remote.data / "0.bin", (1, 1))
    remote.content[0] = bytes(400_000)
    remote.read(storage, 0, 0, 1000)
    assert storage.cache_traffic.misses == 2


def test_stores_with_the_same_names_are_told_apart() -> None:
    from obstore.store import S3Store

    secret = {"access_key_id": "id", "secret_access_key": "hunter2", "region": "r"}
    stores = [
        S3Store("one", endpoint="http://a", **secret),
        S3Store("two", endpoint="http://a", **secret),
        S3Store("one", endpoint="http://b", **secret),
    ]
    identities = [vars(adopt_storage(store))["_identity"] for store in stores]
    assert len(set(identities)) == 3
    assert "hunter2" not in str(identities)


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("100GiB", 100 << 30),
        ("10 GB", 10**10),
        ("1.5TB", 1_500_000_000_000),
        ("64k", 64_000),
        (7, 7),
        ("7", 7),
        (None, 0),
    ],
)
def test_sizes(said: Any, size: int) -> None:
    assert size_of(said) == size


@pytest.mark.parametrize("said", ["much", "-1", -1, "10 XB", 1.5, ""])
def test_what_is_no_size_is_refused(said: Any, photos: Path) -> None:
    with pytest.raises(PlanError, match="is not a size; write for example '100GiB'"):
        ps.read(str(photos)).cache_local(said)
